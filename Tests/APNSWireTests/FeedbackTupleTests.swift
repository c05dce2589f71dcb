// SPDX-License-Identifier: Apache-2.0

import APNSWire
import NIOCore
import TestSupport
import Testing

@Suite struct FeedbackTupleTests {
    @Test(arguments: 0..<100 as Range<UInt64>)
    func `tuples of any token length are read at every split`(seed: UInt64) throws {
        var random = SplitMix64(seed: seed)
        let tuples = try (0..<20).map { _ in
            FeedbackTuple(token: try random.token(), failedAt: UInt32.random(in: 0...UInt32.max, using: &random))
        }
        var whole = ByteBuffer()
        for tuple in tuples { tuple.write(into: &whole) }
        var held = ByteBuffer()
        var read: [FeedbackTuple] = []
        while whole.readableBytes > 0 {
            let count = min(whole.readableBytes, Int.random(in: 1...64, using: &random))
            held.writeImmutableBuffer(try whole.readSlice(length: count).orThrow())
            while let tuple = try FeedbackTuple(parsing: &held) { read.append(tuple) }
        }
        #expect(read == tuples, "seed \(seed)")
        #expect(held.readableBytes == 0)
    }

    @Test(arguments: [0, 101, 65535] as [UInt16])
    func `an invalid token length is refused as soon as it is announced`(announced: UInt16) {
        var buffer = ByteBuffer(integer: UInt32(0))
        buffer.writeInteger(announced)
        #expect(throws: WireError.feedbackTokenByteCount(Int(announced))) { try FeedbackTuple(parsing: &buffer) }
    }
}
