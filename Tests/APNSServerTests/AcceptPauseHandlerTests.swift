// SPDX-License-Identifier: Apache-2.0

import APNSServer
import Glibc
import Logging
import NIOCore
import NIOEmbedded
import Testing

@Suite struct AcceptPauseHandlerTests {
    /// Whoever takes connections as a sequence would end with the first error.
    @Test(arguments: [ECONNABORTED, EPERM, EMFILE, ENOMEM])
    func `a connection that is not accepted is no end of a listener`(_ code: CInt) throws {
        let channel = EmbeddedChannel()
        let added = AcceptPauseHandler.add(to: channel, Logger(label: "test"))
        channel.embeddedEventLoop.run()
        try added.wait()
        channel.pipeline.fireErrorCaught(IOError(errnoCode: code, reason: "accept"))
        #expect(throws: Never.self) { try channel.throwIfErrorCaught() }
        _ = try? channel.finish()
    }
}
