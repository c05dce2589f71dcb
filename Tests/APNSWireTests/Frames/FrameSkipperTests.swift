// SPDX-License-Identifier: Apache-2.0

import NIOCore
import TestSupport
import Testing

@testable import APNSWire

@Suite struct FrameSkipperTests {
    private static func frames(_ count: Int, _ random: inout SplitMix64) throws -> [UInt8] {
        var bytes = ByteBuffer()
        for number in 0..<count {
            let token = try DeviceToken(bytes: [UInt8](repeating: 7, count: 1 + random.below(100)))
            let frame = NotificationFrame(
                token: token,
                payload: ByteBuffer(repeating: 0x20, count: 1 + random.below(300)),
                expiry: 0,
                identifier: UInt32(number),
                command: [.simple, .enhanced, .items][random.below(3)]
            )
            try frame.write(into: &bytes)
        }
        return Array(bytes.readableBytesView)
    }

    @Test func `frames are counted at every split`() throws {
        for seed in 0..<200 as Range<UInt64> {
            var random = SplitMix64(seed: seed)
            let count = random.below(40)
            let bytes = try Self.frames(count, &random)
            var counter = DiscardedFrameCounter()
            var offset = 0
            while offset < bytes.count {
                let end = min(bytes.count, offset + 1 + random.below(random.chance(50) ? 5 : 500))
                bytes[offset..<end].withUnsafeBytes { _ = counter.count($0) }
                offset = end
            }
            #expect(counter.frameCount == count, "seed \(seed)")
            #expect(counter.unparsedByteCount == 0, "seed \(seed)")
        }
    }

    @Test func `a frame that exceeds a limit is one frame`() {
        let token = [UInt8](repeating: 1, count: 65_535)
        let payload = [UInt8](repeating: 2, count: 65_535)
        let enhanced: [UInt8] = [1, 0, 0, 0, 9, 0, 0, 0, 0, 255, 255] + token + [255, 255] + payload
        let simple: [UInt8] = [0, 0, 0, 0, 0]
        let items: [UInt8] = [2, 0, 1, 0, 0] + [UInt8](repeating: 9, count: 65_536)
        var counter = DiscardedFrameCounter()
        (enhanced + simple + items + [2, 0, 0, 0, 0]).withUnsafeBytes { _ = counter.count($0) }
        #expect(counter.frameCount == 4)
    }

    @Test func `after a byte that is not a command, bytes are counted`() {
        var counter = DiscardedFrameCounter()
        ([2, 0, 0, 0, 0, 77, 1, 2, 3] as [UInt8]).withUnsafeBytes { _ = counter.count($0) }
        ([4, 5] as [UInt8]).withUnsafeBytes { _ = counter.count($0) }
        #expect(counter.frameCount == 1)
        #expect(counter.unparsedByteCount == 6)
    }

    @Test func `an incomplete frame is not counted`() throws {
        var random = SplitMix64(seed: 1)
        let bytes = try Self.frames(1, &random)
        for count in 1..<bytes.count {
            var counter = DiscardedFrameCounter()
            bytes[..<count].withUnsafeBytes { _ = counter.count($0) }
            #expect(counter.frameCount == 0, "\(count) bytes")
        }
    }

    @Test func `one frame is skipped up to its end`() {
        var skipper = FrameSkipper()
        let count = ([0, 0, 1, 5, 0, 2, 6, 7, 0, 0] as [UInt8]).withUnsafeBytes { skipper.skip($0) }
        #expect(count == 8)
        #expect(skipper.isAtFrameStart)
    }
}
