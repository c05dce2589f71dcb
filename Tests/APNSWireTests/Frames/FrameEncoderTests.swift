// SPDX-License-Identifier: Apache-2.0

import APNSWire
import NIOCore
import TestSupport
import Testing

@Suite struct FrameEncoderTests {
    @Test(arguments: 0..<300 as Range<UInt64>)
    func `the fast encoder writes the same bytes as the simple one`(seed: UInt64) throws {
        var random = SplitMix64(seed: seed)
        var frames: [NotificationFrame] = []
        while frames.count < 8 {
            let frame = try random.frame()
            if frame.token != nil, frame.command == .simple || frame.identifier != nil { frames.append(frame) }
        }
        var plain = ByteBuffer()
        for frame in frames { try frame.write(into: &plain) }
        let quick = try FrameEncoderTests.encode(frames, capacity: plain.readableBytes)
        #expect(quick.bytes == Array(plain.readableBytesView), "seed \(seed)")
        #expect(quick.frameCount == frames.count)
    }

    @Test func `a frame that does not fit is not written`() throws {
        let frame = NotificationFrame(
            token: try DeviceToken(bytes: [1, 2]),
            payload: ByteBuffer(string: "{}"),
            expiry: 0,
            identifier: 1,
            command: .enhanced
        )
        for capacity in 0..<17 {
            let encoded = try FrameEncoderTests.encode([frame], capacity: capacity)
            #expect(encoded.frameCount == 0 && encoded.bytes.isEmpty)
        }
        #expect(try FrameEncoderTests.encode([frame, frame], capacity: 33).frameCount == 1)
        #expect(try FrameEncoderTests.encode([frame, frame], capacity: 34).frameCount == 2)
    }

    @Test(arguments: 0..<100 as Range<UInt64>)
    func `consecutive frames are found and can be renumbered`(seed: UInt64) throws {
        var random = SplitMix64(seed: seed)
        var frames: [NotificationFrame] = []
        while frames.count < 12 {
            let frame = try random.frame()
            if frame.token != nil, frame.command == .simple || frame.identifier != nil { frames.append(frame) }
        }
        var bytes = try FrameEncoderTests.encode(frames, capacity: 12 * 500).bytes
        let count = bytes.withUnsafeMutableBytes { FrameScanner.number($0, from: .max) }
        #expect(count == frames.count)
        var offset = 0
        var buffer = ByteBuffer(bytes: bytes)
        for (index, frame) in frames.enumerated() {
            let found = try bytes.withUnsafeBytes { FrameScanner.frame(at: offset, in: $0) }.orThrow()
            let token = bytes[found.tokenOffset..<(found.tokenOffset + found.tokenByteCount)]
            #expect(frame.token?.bytes == Array(token))
            offset += found.byteCount
            let next = bytes.withUnsafeBytes { FrameScanner.offset(passing: index + 1, in: $0) }
            #expect(next == offset)
            let read = try NotificationFrame(parsing: &buffer).orThrow()
            #expect(read.identifier == (frame.command == .simple ? nil : UInt32.max &+ UInt32(index)))
            #expect(read.token == frame.token && read.payload == frame.payload && read.expiry == frame.expiry)
        }
        #expect(bytes.withUnsafeBytes { FrameScanner.frame(at: offset, in: $0) } == nil)
    }

    @Test func `iteration stops at an incomplete frame`() throws {
        for command in Command.allCases {
            let frame = NotificationFrame(
                token: try DeviceToken(bytes: [1, 2, 3]),
                payload: ByteBuffer(string: "{}"),
                expiry: 0,
                identifier: 1,
                command: command
            )
            let bytes = try FrameEncoderTests.encode([frame], capacity: 100).bytes
            for count in 0..<bytes.count {
                let found = bytes[..<count].withUnsafeBytes { FrameScanner.frame(at: 0, in: $0) }
                #expect(found == nil, "\(command), \(count) bytes")
            }
        }
    }

    private static func encode(
        _ frames: [NotificationFrame],
        capacity: Int
    ) throws -> (bytes: [UInt8], frameCount: Int) {
        var memory = [UInt8](repeating: 0xEE, count: max(capacity, 1))
        var frameCount = 0
        var byteCount = 0
        try memory.withUnsafeMutableBytes { memory in
            let limited = UnsafeMutableRawBufferPointer(rebasing: memory[..<capacity])
            guard var encoder = FrameEncoder(writingInto: limited) else { return }
            for frame in frames {
                let token = try frame.token.orThrow()
                let fits = frame.payload.withUnsafeReadableBytes { payload in
                    encoder.append(
                        token: token,
                        payload: payload,
                        expiry: frame.expiry,
                        priority: frame.priority,
                        identifier: frame.identifier ?? 0,
                        command: frame.command
                    )
                }
                if !fits { break }
            }
            frameCount = encoder.frameCount
            byteCount = encoder.byteCount
            #expect(encoder.byteCountFree == capacity - byteCount)
        }
        #expect(
            memory[min(byteCount, memory.count - 1)...].dropFirst(byteCount == memory.count ? 1 : 0).allSatisfy {
                $0 == 0xEE
            }
        )
        return (Array(memory[..<byteCount]), frameCount)
    }
}
