// SPDX-License-Identifier: Apache-2.0

import APNSServer
import Glibc
import Logging
import NIOCore
import NIOEmbedded
import Testing

@Suite struct AcceptPauseHandlerTests {
    /// An asynchronous sequence of connections would end with the first error.
    @Test(arguments: [ECONNABORTED, EPERM, EMFILE, ENOMEM])
    func `a failed accept does not end a listener`(_ code: CInt) throws {
        let channel = EmbeddedChannel()
        let added = AcceptPauseHandler.add(to: channel, Logger(label: "test"))
        channel.embeddedEventLoop.run()
        try added.wait()
        channel.pipeline.fireErrorCaught(IOError(errnoCode: code, reason: "accept"))
        #expect(throws: Never.self) { try channel.throwIfErrorCaught() }
        _ = try? channel.finish()
    }
}
