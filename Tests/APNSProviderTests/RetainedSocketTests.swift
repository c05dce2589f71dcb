// SPDX-License-Identifier: Apache-2.0

import APNSTransport
import NIOCore
import NIOPosix
import TestSupport
import Testing

/// Goal: what the system has accepted is known exactly, whatever the peer reads, and also when the connection is over.
@Suite(.timeLimit(.minutes(1))) struct RetainedSocketTests {
    /// More than a full pipe between two sockets of one machine.
    private static let byteCount = 32 << 20

    @Test func `accepted bytes are those that promises report, and one more at most`() async throws {
        let group = MultiThreadedEventLoopGroup.singleton
        let listener = try await ServerBootstrap(group: group)
            .childChannelOption(.autoRead, value: false)
            .bind(host: "127.0.0.1", port: 0).get()
        let address = try #require(listener.localAddress)
        let channel = try await ClientBootstrap(group: group).connect(to: address).get()
        let socket = try await channel.eventLoop.submit {
            RetainedSocket(channel).map { NIOLoopBound($0, eventLoop: channel.eventLoop) }
        }.get()
        let bound = try #require(socket)
        func acceptedCount() async throws -> Int? {
            try await channel.eventLoop.submit { bound.value.acceptedCount }.get()
        }
        #expect(try await acceptedCount().map { 0...1 ~= $0 } == true)
        try await channel.writeAndFlush(ByteBuffer(repeating: 1, count: 1000)).get()
        #expect(try await acceptedCount().map { 1000...1001 ~= $0 } == true)
        // The kernel accepts a part of this, which no promise tells.
        let written = channel.eventLoop.flatSubmit {
            channel.writeAndFlush(ByteBuffer(repeating: 2, count: Self.byteCount))
        }
        let part = try await acceptedCount() ?? 0
        #expect(1001 < part && part < Self.byteCount)
        try await channel.close()
        await #expect(throws: (any Error).self) { try await written.get() }
        #expect(try await acceptedCount().map { $0 >= part && $0 < Self.byteCount } == true)
        _ = try await channel.eventLoop.submit { bound.value.release() }.get()
        #expect(try await acceptedCount().map { $0 >= part && $0 < Self.byteCount } == true)
        try await listener.close()
    }
}
