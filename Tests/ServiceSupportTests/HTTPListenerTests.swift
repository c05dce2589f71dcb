// SPDX-License-Identifier: Apache-2.0

import HTTPTypes
import HummingbirdCore
import Logging
import NIOConcurrencyHelpers
import NIOCore
import NIOPosix
import TestSupport
import Testing

@testable import ServiceSupport

@Suite(.timeLimit(.minutes(1))) struct HTTPListenerTests {
    /// Goal: a client that does not read its response does not delay the end of a listener whose task was canceled.
    @Test func `a listener whose task is canceled closes its connections`() async throws {
        let logger = Logger(label: "tests", factory: { _ in SwiftLogNoOpLogHandler() })
        let body = ByteBuffer(repeating: 0x61, count: 64 << 20)
        let isAsked = NIOLockedValueBox(false)
        let listener = HTTPListener(host: "127.0.0.1", port: 0, logger: logger) { _, _ in
            isAsked.withLockedValue { $0 = true }
            return Response(status: .ok, body: ResponseBody(byteBuffer: body))
        }
        let port = NIOLockedValueBox<Int?>(nil)
        let (end, source) = AsyncStream.makeStream(of: Void.self)
        let task = Task {
            try await listener.withRunning { address in
                port.withLockedValue { $0 = address.port }
                for await () in end {}
            }
        }
        try await eventually("the address") { port.withLockedValue { $0 } != nil }
        let client = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .channelOption(.autoRead, value: false)
            .connect(host: "127.0.0.1", port: port.withLockedValue { $0 } ?? 0).get()
        try await client.writeAndFlush(ByteBuffer(string: "GET / HTTP/1.1\r\nHost: a\r\n\r\n"))
        try await eventually("the request") { isAsked.withLockedValue { $0 } }
        let start = ContinuousClock.now
        task.cancel()
        _ = await task.result
        #expect(ContinuousClock.now - start < .seconds(5))
        source.finish()
        try await client.close()
    }
}
