// SPDX-License-Identifier: Apache-2.0

import APNSWire
import NIOCore
import NIOTestUtils
import TestSupport
import Testing

@Suite struct NotificationFrameTests {
    @Test(arguments: 0..<300 as Range<UInt64>)
    func `frames are encoded and decoded`(seed: UInt64) throws {
        var random = SplitMix64(seed: seed)
        let frames = try (0..<10).map { _ in try random.frame() }
        var buffer = ByteBuffer()
        for frame in frames { try frame.write(into: &buffer) }
        for frame in frames { #expect(try NotificationFrame(parsing: &buffer) == frame, "seed \(seed)") }
        #expect(buffer.readableBytes == 0)
    }

    @Test(arguments: 0..<60 as Range<UInt64>)
    func `every prefix of a frame is incomplete and leaves the buffer unchanged`(seed: UInt64) throws {
        var random = SplitMix64(seed: seed)
        var whole = ByteBuffer()
        try random.frame().write(into: &whole)
        for count in 0..<whole.readableBytes {
            var part = try whole.getSlice(at: 0, length: count).orThrow()
            let before = part
            #expect(try NotificationFrame(parsing: &part) == nil, "seed \(seed), \(count) bytes")
            #expect(part == before)
        }
    }

    @Test func `frames are read at every split`() throws {
        var random = SplitMix64(seed: 7)
        let frames = try (0..<6).map { _ in try random.frame() }
        var bytes = ByteBuffer()
        for frame in frames { try frame.write(into: &bytes) }
        try ByteToMessageDecoderVerifier.verifyDecoder(
            inputOutputPairs: [(bytes, frames)],
            decoderFactory: FrameDecoder.init
        )
    }

    @Test func `a token length is refused as soon as it is announced`() {
        for announced: UInt16 in [101, 65535] {
            var buffer = ByteBuffer(integer: UInt8(0))
            buffer.writeInteger(announced)
            #expect(throws: WireError.tokenTooLong(announced: Int(announced), limit: 100, identifier: nil)) {
                try NotificationFrame(parsing: &buffer)
            }
        }
        var buffer = ByteBuffer(integer: UInt8(1))
        buffer.writeMultipleIntegers(UInt32(77), UInt32(0), UInt16(101))
        let error = WireError.tokenTooLong(announced: 101, limit: 100, identifier: 77)
        #expect(throws: error) { try NotificationFrame(parsing: &buffer) }
        #expect(error.status == .invalidTokenSize)
    }

    @Test func `a payload length is refused as soon as it is announced`() {
        var limits = FrameLimits()
        limits.payloadByteCountMax = 256
        var buffer = ByteBuffer(integer: UInt8(1))
        buffer.writeMultipleIntegers(UInt32(77), UInt32(0), UInt16(1), UInt8(0xAB), UInt16(257))
        let error = WireError.payloadTooLong(announced: 257, limit: 256, identifier: 77)
        #expect(throws: error) { try NotificationFrame(parsing: &buffer, limits: limits) }
        #expect(error.status == .invalidPayloadSize)
        #expect(throws: Never.self) { try NotificationFrame(parsing: &buffer) }
    }

    @Test func `a missing token is reported first, whatever the payload`() {
        var buffer = ByteBuffer(integer: UInt8(1))
        buffer.writeMultipleIntegers(UInt32(77), UInt32(0), UInt16(0), UInt16(60000))
        let error = WireError.tokenMissing(identifier: 77)
        #expect(throws: error) { try NotificationFrame(parsing: &buffer) }
        #expect(error.status == .missingDeviceToken)
    }

    @Test func `a frame length of 4 GiB is refused before anything is buffered`() {
        var buffer = ByteBuffer(bytes: [2, 255, 255, 255, 255])
        #expect(throws: WireError.frameTooLong(announced: .max, limit: 8192)) {
            try NotificationFrame(parsing: &buffer)
        }
        var legal = ByteBuffer(integer: UInt8(2))
        legal.writeInteger(UInt32(8192))
        #expect(throws: Never.self) { try NotificationFrame(parsing: &legal) }
    }

    @Test func `an unknown command is an error without an error response`() {
        for command: UInt8 in [3, 8, 128, 255] {
            var buffer = ByteBuffer(bytes: [command])
            #expect(throws: WireError.unknownCommand(command)) { try NotificationFrame(parsing: &buffer) }
        }
        #expect(WireError.unknownCommand(3).status == nil)
    }

    struct ItemFixture: CustomTestStringConvertible {
        var testDescription: String
        var items: [UInt8]
        var error: WireError
    }

    @Test(arguments: [
        ItemFixture(
            testDescription: "overrun",
            items: [3, 0, 4, 0, 0, 0, 9, 1, 0, 32, 1],
            error: .itemOverrunsFrame(item: 1, identifier: 9)
        ),
        ItemFixture(
            testDescription: "half a header",
            items: [3, 0, 4, 0, 0, 0, 9, 1],
            error: .itemOverrunsFrame(item: 1, identifier: 9)
        ),
        ItemFixture(
            testDescription: "repeated, identifier last",
            items: [1, 0, 1, 7, 1, 0, 1, 7, 3, 0, 4, 0, 0, 0, 9],
            error: .itemRepeated(item: 1, identifier: 9)
        ),
        ItemFixture(
            testDescription: "identifier of 3 bytes",
            items: [3, 0, 3, 0, 0, 9],
            error: .itemWidth(item: 3, announced: 3, identifier: nil)
        ),
        ItemFixture(
            testDescription: "expiry of 5 bytes",
            items: [4, 0, 5, 0, 0, 9, 9, 9],
            error: .itemWidth(item: 4, announced: 5, identifier: nil)
        ),
        ItemFixture(
            testDescription: "empty priority",
            items: [5, 0, 0],
            error: .itemWidth(item: 5, announced: 0, identifier: nil)
        ),
    ])
    func `items that do not fit are an error with their number`(fixture: ItemFixture) {
        var buffer = ByteBuffer(integer: Command.items.rawValue)
        buffer.writeInteger(UInt32(fixture.items.count))
        buffer.writeBytes(fixture.items)
        #expect(throws: fixture.error) { try NotificationFrame(parsing: &buffer) }
        #expect(fixture.error.status == .protocolError)
    }

    @Test func `an unknown item is skipped, or refused in strict parsing`() throws {
        let items: [UInt8] = [9, 0, 1, 5, 3, 0, 4, 0, 0, 0, 9, 1, 0, 1, 7, 2, 0, 1, 8]
        var buffer = ByteBuffer(integer: Command.items.rawValue)
        buffer.writeInteger(UInt32(items.count))
        buffer.writeBytes(items)
        var strict = FrameLimits()
        strict.allowsUnknownItems = false
        #expect(throws: WireError.itemUnknown(item: 9, identifier: 9)) {
            try NotificationFrame(parsing: &buffer, limits: strict)
        }
        let frame = try NotificationFrame(parsing: &buffer).orThrow()
        #expect(frame.identifier == 9)
        #expect(frame.token?.bytes == [7])
    }

    @Test func `neither description nor mirror shows token or payload`() throws {
        let token = try DeviceToken(bytes: Array(repeating: 0xAB, count: 32))
        let notification = PushNotification(token: token, payload: "{\"aps\":{\"alert\":\"secret words\"}}")
        let frame = NotificationFrame(
            token: token,
            payload: notification.payload,
            expiry: 0,
            identifier: 1,
            command: .enhanced
        )
        var dumped = ""
        dump(frame, to: &dumped)
        dump(notification, to: &dumped)
        dump(token, to: &dumped)
        for text in ["\(token)", String(reflecting: token), "\(notification)", "\(frame)", dumped] {
            #expect(!text.lowercased().contains("abab") && !text.contains("secret") && !text.contains("171"))
        }
    }
}

/// A decoder for a pipeline, so that NIO's verifier can test it with every split.
private struct FrameDecoder: ByteToMessageDecoder {
    typealias InboundOut = NotificationFrame

    mutating func decode(context: ChannelHandlerContext, buffer: inout ByteBuffer) throws -> DecodingState {
        guard let frame = try NotificationFrame(parsing: &buffer) else { return .needMoreData }
        context.fireChannelRead(self.wrapInboundOut(frame))
        return .continue
    }
}
