// SPDX-License-Identifier: Apache-2.0

import NIOConcurrencyHelpers
import NIOCore
import NIOEmbedded
import NIOHTTP1
import Testing

@testable import ServiceSupport

/// Goal: clients that send nothing do not keep others out.
@Suite struct HTTPConnectionsTests {
    private let refusedCount = NIOLockedValueBox(0)

    private func connections(_ countMax: Int) -> HTTPConnections {
        HTTPConnections(countMax: countMax) { [refusedCount] in refusedCount.withLockedValue { $0 += 1 } }
    }

    private static func channel() throws -> EmbeddedChannel {
        let channel = EmbeddedChannel()
        try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
        return channel
    }

    @Test func `the connection that has waited longest for its client makes room`() throws {
        let connections = self.connections(3)
        let all = try (0..<4).map { _ in try Self.channel() }
        for channel in all[..<3] { #expect(connections.add(channel)) }
        connections.set(all[0], waits: false)
        #expect(connections.add(all[3]))
        for channel in all { channel.embeddedEventLoop.run() }
        #expect(all.map(\.isActive) == [true, false, true, true])
        // It has been waiting for a shorter time since.
        connections.set(all[0], waits: true)
        #expect(connections.add(try Self.channel()))
        for channel in all { channel.embeddedEventLoop.run() }
        #expect(all.map(\.isActive) == [true, false, false, true])
        #expect(self.refusedCount.withLockedValue { $0 } == 0)
    }

    @Test func `a connection is refused only if all others have a request`() throws {
        let connections = self.connections(2)
        let all = try (0..<3).map { _ in try Self.channel() }
        for channel in all[..<2] {
            #expect(connections.add(channel))
            connections.set(channel, waits: false)
        }
        #expect(!connections.add(all[2]))
        #expect(self.refusedCount.withLockedValue { $0 } == 1)
        try all[0].close().wait()
        all[0].embeddedEventLoop.run()
        #expect(connections.add(all[2]))
        #expect(all[1].isActive && all[2].isActive)
    }
}

/// Goal: a request to upgrade is a request like any other.
@Suite struct UpgradeIgnoringHandlerTests {
    private static let requests =
        "GET /1 HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\r\n"
        + "POST /2 HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: h2c\r\nContent-Length: 3\r\n\r\nabc"
        + "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n" + "GET /3 HTTP/1.1\r\nHost: a\r\nUpgrade: h2c\r\n\r\n"
        + "POST /4 HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        + "1\r\nd\r\n0\r\n\r\n" + "GET /5 HTTP/1.1\r\nHost: a\r\n\r\n"

    @Test(arguments: [1, 2, 7, 50, 1000])
    func `every request is read, however the bytes arrive`(_ byteCount: Int) throws {
        let channel = EmbeddedChannel()
        try UpgradeIgnoringHandler.add(to: channel.pipeline.syncOperations)
        try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
        var bytes = ByteBuffer(string: Self.requests)
        var (targets, bodies) = ([String](), "")
        while let part = bytes.readSlice(length: min(byteCount, bytes.readableBytes)), part.readableBytes > 0 {
            try channel.writeInbound(part)
            channel.embeddedEventLoop.run()
            while let read = try channel.readInbound(as: HTTPServerRequestPart.self) {
                switch read {
                case .head(let head): targets.append(head.uri)
                case .body(let body): bodies += String(buffer: body)
                case .end: break
                }
            }
        }
        #expect(targets == ["/1", "/2", "a:1", "/3", "/4", "/5"] && bodies == "abcd")
        #expect(try channel.finish().isClean)
    }
}
