// SPDX-License-Identifier: Apache-2.0

import NIOConcurrencyHelpers
import NIOCore
import NIOTLS
import OpenSSLTLS
import TestSupport
import Testing

/// Goal: records stay complete and in order even if writing calls back into the writer.
///
/// Method: each byte encodes its position; the writer writes and flushes within `channelWritabilityChanged` and the
/// callbacks of its promises, and the server compares.
@Suite(.serialized, .timeLimit(.minutes(1)))
struct ReentrancyTests {
    @Test(arguments: [TLSVersion.tls1_2, .tls1_3], [700, 16_384, 50_000])
    func `data arrives in order even if callbacks write and flush`(version: TLSVersion, byteCount: Int) async throws {
        let server = try Certificates.serverContext(version: version...version)
        let client = try Certificates.clientContext(version: version...version)
        let total = TestEffort.count(1, long: 8) << 20
        let writer = CallbackWriter(byteCount: byteCount, total: total)
        let serverObserver = Observer()
        try await Loopback.withConnection(
            server: server,
            client: client,
            serverObserver: serverObserver
        ) { client, server in
            try await client.wait("handshake") { $0.isHandshakeDone }
            let channel = client.channel
            try await channel.eventLoop.submit {
                try channel.pipeline.syncOperations.addHandler(CallbackWriterHandler(writer))
                writer.more(channel)
                writer.more(channel)
            }.get(within: .seconds(10))
            try await server.wait("all bytes") { $0.received.count >= total }
            let notes = server.observer.notes
            #expect(notes.errors.isEmpty)
            #expect(notes.received == Pattern.bytes(count: notes.received.count))
        }
    }
}

final class CallbackWriter: Sendable {
    private let written = NIOLockedValueBox(0)
    private let byteCount: Int
    private let total: Int

    init(byteCount: Int, total: Int) {
        self.byteCount = byteCount
        self.total = total
    }

    /// Writes and flushes one piece; if possible, its promise writes the next before the call returns.
    func more(_ channel: any Channel, depth: Int = 0) {
        let start = self.written.withLockedValue { written -> Int? in
            guard written < self.total else { return nil }
            defer { written += self.byteCount }
            return written
        }
        guard let start else { return }
        channel.writeAndFlush(ByteBuffer(bytes: Pattern.bytes(from: start, count: self.byteCount))).whenSuccess {
            guard depth < 16 else {
                // The stack is limited.
                channel.eventLoop.execute { self.more(channel) }
                return
            }
            self.more(channel, depth: depth + 1)
        }
    }
}

final class CallbackWriterHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private let writer: CallbackWriter

    init(_ writer: CallbackWriter) {
        self.writer = writer
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        self.writer.more(context.channel)
        context.fireChannelWritabilityChanged()
    }
}
