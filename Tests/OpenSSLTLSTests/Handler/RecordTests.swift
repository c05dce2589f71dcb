// SPDX-License-Identifier: Apache-2.0

import NIOCore
import NIOEmbedded
import OpenSSLTLS
import TestSupport
import Testing

/// Goal: plaintext is split into full records, which are written to the channel together as far as promises allow, and
/// only while it is writable.
@Suite(.timeLimit(.minutes(1)))
struct RecordTests {
    private func makePair(
        _ version: TLSVersion = .tls1_3,
        ticketCount: Int = 0
    ) throws -> EmbeddedPair {
        let pair = try EmbeddedPair(
            client: Certificates.clientContext(version: version...version),
            server: Certificates.serverContext(version: version...version) { $0.ticketCount = ticketCount }
        )
        return pair
    }

    /// The overhead of a record with AES-GCM: in TLS 1.3 a header, a tag and the inner type; in TLS 1.2 a header, a
    /// nonce and a tag.
    private func overhead(_ version: TLSVersion) -> Int { version == .tls1_3 ? 22 : 29 }

    @Test(arguments: [TLSVersion.tls1_2, .tls1_3])
    func `small writes are gathered into full records`(version: TLSVersion) throws {
        let pair = try self.makePair(version)
        try pair.connect()
        for index in 0..<1000 {
            pair.client.channel.write(ByteBuffer(bytes: Pattern.bytes(from: index * 145, count: 145)), promise: nil)
        }
        #expect(try pair.client.collect() == [], "nothing is encrypted before it is flushed")
        pair.client.channel.flush()
        let full = 16_384 + self.overhead(version)
        let rest = 145_000 % 16_384 + self.overhead(version)
        #expect(try pair.client.collect() == [8 * full, rest], "records without promises are one write")
        #expect(pair.client.recordByteCounts == Array(repeating: full, count: 8) + [rest])
        try pair.exchange()
        #expect(pair.server.notes.received == Pattern.bytes(count: 145_000))
    }

    @Test func `a promise succeeds with the record that contains the write's last byte`() throws {
        let pair = try self.makePair()
        try pair.connect()
        pair.client.setWritable(false)
        // Records: [a, beginning of b], [middle of b], [end of b, empty, c], of which the last two are one write.
        let outcomes = [10_000, 30_000, 0, 5_000].map {
            ClosingTests.Outcome(pair.client.channel.write(ByteBuffer(repeating: 1, count: $0)))
        }
        pair.client.channel.flush()
        #expect(outcomes.filter(\.isPending).count == 4)
        pair.client.setWritable(true)
        #expect(outcomes.filter(\.isSuccess).count == 4)
        let full = 16_384 + self.overhead(.tls1_3)
        let last = 45_000 - 2 * 16_384 + self.overhead(.tls1_3)
        #expect(try pair.client.collect() == [full, full + last])
        #expect(pair.client.recordByteCounts == [full, full, last])
    }

    @Test func `nothing is encrypted while the channel is not writable`() throws {
        let pair = try self.makePair()
        try pair.connect()
        pair.client.setWritable(false)
        let outcome = ClosingTests.Outcome(pair.client.channel.writeAndFlush(ByteBuffer(repeating: 1, count: 300_000)))
        #expect(try pair.client.collect() == [])
        #expect(outcome.isPending)
        pair.client.setWritable(true)
        #expect(outcome.isSuccess)
        try pair.exchange()
        #expect(pair.server.notes.received.count == 300_000)
    }

    @Test func `an empty write succeeds in order and creates no record`() throws {
        let pair = try self.makePair()
        try pair.connect()
        let outcome = ClosingTests.Outcome(pair.client.channel.write(ByteBuffer()))
        #expect(outcome.isPending)
        pair.client.channel.flush()
        #expect(outcome.isSuccess)
        #expect(try pair.client.collect().reduce(0, +) == 0)
    }

    @Test func `during a long write, the event loop does other work`() throws {
        let pair = try self.makePair()
        try pair.connect()
        let outcome = ClosingTests.Outcome(
            pair.client.channel.writeAndFlush(ByteBuffer(repeating: 1, count: 5_000_000))
        )
        #expect(outcome.isPending, "2 MiB at a time")
        pair.loop.run()
        #expect(outcome.isSuccess)
        try pair.exchange()
        #expect(pair.server.notes.received.count == 5_000_000)
    }

    @Test(arguments: [TLSVersion.tls1_0, .tls1_1, .tls1_2, .tls1_3])
    func `data arrives even if the ciphertext arrives one byte at a time`(version: TLSVersion) throws {
        let pair = try self.makePair(version, ticketCount: 3)
        try pair.activate()
        // More than one record in both directions in the long run.
        let count = TestEffort.count(5000, long: 20_000)
        pair.client.channel.writeAndFlush(ByteBuffer(bytes: Pattern.bytes(count: count)), promise: nil)
        pair.server.channel.writeAndFlush(ByteBuffer(bytes: Pattern.bytes(count: 5_000)), promise: nil)
        try pair.exchange(byteCountMax: 1)
        #expect(pair.server.notes.received == Pattern.bytes(count: count))
        #expect(pair.client.notes.received == Pattern.bytes(count: 5_000))
        pair.client.channel.close(promise: nil)
        try pair.exchange(byteCountMax: 1)
        #expect(pair.client.notes.order == ["handshake", "data", "shutdown", "inactive"])
        #expect(pair.server.notes.order == ["handshake", "data", "shutdown", "inactive"])
    }

    @Test func `data written before a close arrives, even while session tickets are only partly read`() throws {
        let whole = try self.makePair(ticketCount: 2)
        try whole.activate()
        try self.carryHandshake(whole)
        _ = try whole.server.collect()
        let tickets = try #require(whole.server.take(.max))
        #expect(whole.client.notes.isHandshakeDone)
        for count in stride(from: 1, to: tickets.readableBytes, by: TestEffort.isLong ? 1 : 7) {
            // At each split, the data arrives sooner or later, followed by the close.
            let pair = try self.makePair(ticketCount: 2)
            try pair.activate()
            try self.carryHandshake(pair)
            _ = try pair.server.collect()
            let first = try #require(pair.server.take(count))
            pair.client.channel.pipeline.fireChannelRead(first)
            pair.client.channel.writeAndFlush(ByteBuffer(string: "during"), promise: nil)
            pair.client.channel.close(promise: nil)
            try pair.exchange()
            #expect(pair.server.notes.received == Array("during".utf8), "split at \(count)")
            #expect(pair.server.notes.order == ["handshake", "data", "shutdown", "inactive"], "split at \(count)")
        }
    }

    private func carryHandshake(_ pair: EmbeddedPair) throws {
        for (from, to) in [(pair.client, pair.server), (pair.server, pair.client), (pair.client, pair.server)] {
            _ = try from.collect()
            to.channel.pipeline.fireChannelRead(try #require(from.take(.max)))
        }
    }

    @Test func `reads are requested until there is something to deliver`() throws {
        let pair = try self.makePair()
        try pair.activate()
        let handshakeReads = pair.client.wire.readCount
        #expect(handshakeReads > 0)
        try pair.exchange()
        pair.server.channel.writeAndFlush(ByteBuffer(string: "something"), promise: nil)
        _ = try pair.server.collect()
        pair.client.channel.read()
        let reads = pair.client.wire.readCount
        let pipeline = pair.client.channel.pipeline
        pipeline.fireChannelRead(try #require(pair.server.take(10)))
        pipeline.fireChannelReadComplete()
        #expect(pair.client.wire.readCount == reads + 1, "a part of a record delivers nothing")
        pipeline.fireChannelRead(try #require(pair.server.take(.max)))
        pipeline.fireChannelReadComplete()
        #expect(pair.client.wire.readCount == reads + 1)
        #expect(pair.client.notes.received == Array("something".utf8))
    }

    @Test func `a million bytes at once are delivered in pieces of at most 64 KiB`() throws {
        let pair = try self.makePair()
        try pair.connect()
        pair.server.channel.writeAndFlush(ByteBuffer(bytes: Pattern.bytes(count: 1_000_000)), promise: nil)
        try pair.exchange()
        #expect(pair.client.notes.received == Pattern.bytes(count: 1_000_000))
        #expect(pair.client.notes.pieceByteCountMax == 65_536)
    }
}
