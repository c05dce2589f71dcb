// SPDX-License-Identifier: Apache-2.0

import NIOCore
import NIOEmbedded
import OpenSSLTLS
import TestSupport
import Testing

/// Goal: with any order of writes, flushes, back-pressure, splits and closes, data arrives exactly and in order, and
/// each write's promise is completed, successfully only if its data arrives.
///
/// Method: a random walk with a client's and a server's handler. A failure reports its seed.
@Suite(.serialized, .timeLimit(.minutes(2)))
struct RandomWalkTests {
    final class Side {
        let end: EmbeddedPair.End
        var written = 0
        var flushed = 0
        var isOutputClosed = false
        var isClosed = false
        /// The end of each write in the stream, and its result.
        var outcomes: [(end: Int, box: Outcome)] = []

        init(_ end: EmbeddedPair.End) {
            self.end = end
        }
    }

    final class Outcome {
        var result: Bool?
    }

    @Test(arguments: [TLSVersion.tls1_0, .tls1_2, .tls1_3], 0..<TestEffort.count(6, long: 60) as Range<UInt64>)
    func `data arrives exactly`(version: TLSVersion, seed: UInt64) throws {
        var random = SplitMix64(seed: seed)
        let server = try Certificates.serverContext(version: version...version) {
            $0.ticketCount = Int.random(in: 0...3, using: &random)
        }
        let pair = try EmbeddedPair(client: Certificates.clientContext(version: version...version), server: server)
        let sides = [Side(pair.client), Side(pair.server)]
        let isHalfClosureAllowed = Bool.random(using: &random)
        for side in sides { side.end.channel.allowRemoteHalfClosure = isHalfClosureAllowed }
        try pair.activate()
        for _ in 0..<400 {
            let index = Int.random(in: 0...1, using: &random)
            try self.step(sides[index], other: sides[1 - index], random: &random)
            pair.loop.run()
        }
        try self.settle(pair, sides)
        for (from, to) in [(sides[0], sides[1]), (sides[1], sides[0])] {
            let received = to.end.notes.received
            #expect(received == Pattern.bytes(count: received.count), "seed \(seed): bytes differ")
            let succeeded = from.outcomes.filter { $0.box.result == true }.map(\.end).max() ?? 0
            if !to.isClosed { #expect(received.count >= succeeded, "seed \(seed): a success did not arrive") }
            let isDisturbed = from.isClosed || to.isClosed || (to.isOutputClosed && !isHalfClosureAllowed)
            if !isDisturbed {
                #expect(received.count == from.flushed, "seed \(seed): what was flushed has arrived")
            }
        }
        for side in sides where side.end.channel.isActive {
            side.end.channel.close(mode: .all, promise: nil)
        }
        pair.loop.advanceTime(by: .seconds(10))
        for side in sides {
            #expect(!side.outcomes.contains { $0.box.result == nil }, "seed \(seed): a promise is left")
            #expect(side.end.notes.errors.isEmpty, "seed \(seed): \(side.end.notes.errors)")
        }
    }

    private func step(_ side: Side, other: Side, random: inout SplitMix64) throws {
        switch Int.random(in: 0..<100, using: &random) {
        case 0..<35:
            self.write(side, count: self.length(&random))
        case 35..<50:
            side.end.channel.flush()
            if !side.isOutputClosed { side.flushed = side.written }
        case 50..<60:
            side.end.setWritable(Bool.random(using: &random))
        case 60..<98:
            _ = try side.end.collect()
            let count = Bool.random(using: &random) ? Int.random(in: 1...20, using: &random) : self.length(&random)
            guard let piece = side.end.take(count), other.end.channel.isActive, piece.readableBytes > 0 else { return }
            other.end.channel.pipeline.fireChannelRead(piece)
            other.end.channel.pipeline.fireChannelReadComplete()
        case 98 where Int.random(in: 0..<8, using: &random) == 0:
            side.isOutputClosed = true
            side.end.channel.close(mode: .output, promise: nil)
        case 99 where Int.random(in: 0..<8, using: &random) == 0:
            (side.isOutputClosed, side.isClosed) = (true, true)
            side.end.channel.close(mode: .all, promise: nil)
        default:
            break
        }
    }

    private func length(_ random: inout SplitMix64) -> Int {
        switch Int.random(in: 0..<10, using: &random) {
        case 0: 0
        case 1..<6: Int.random(in: 1...300, using: &random)
        case 6..<9: Int.random(in: 300...20_000, using: &random)
        default: Int.random(in: 20_000...200_000, using: &random)
        }
    }

    private func write(_ side: Side, count: Int) {
        let bytes = ByteBuffer(bytes: Pattern.bytes(from: side.written, count: count))
        let outcome = Outcome()
        let promise = side.end.channel.eventLoop.makePromise(of: Void.self)
        promise.futureResult.assumeIsolated().whenComplete { result in
            if case .success = result { outcome.result = true } else { outcome.result = false }
        }
        side.outcomes.append((side.written + count, outcome))
        side.written += count
        side.end.channel.write(bytes, promise: promise)
        // Rejected writes have no position in the stream.
        if outcome.result == false { side.written -= count }
    }

    /// Delivers everything that was flushed.
    private func settle(_ pair: EmbeddedPair, _ sides: [Side]) throws {
        for side in sides where side.end.channel.isActive { side.end.setWritable(true) }
        try pair.exchange()
        for side in sides where side.end.channel.isActive && !side.isOutputClosed {
            side.end.channel.flush()
            side.flushed = side.written
        }
        try pair.exchange()
    }
}
