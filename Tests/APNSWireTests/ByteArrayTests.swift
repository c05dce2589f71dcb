// SPDX-License-Identifier: Apache-2.0

import APNSWire
import NIOCore
import TestSupport
import Testing

/// Values to arrays of bytes and back, without SwiftNIO buffers.
@Suite struct ByteArrayTests {
    private static let token = Result { try DeviceToken(bytes: Array(repeating: 0xAB, count: 32)) }

    /// Goal: decoding the bytes of a notification gives the same notification, as far as the command has fields.
    @Test(arguments: Command.allCases)
    func `a notification is encoded and decoded`(command: Command) throws {
        let notification = PushNotification(
            token: try Self.token.get(),
            payload: #"{"aps":{"alert":"é"}}"#,
            expiry: .at(secondsSince1970: 1_700_000_000),
            priority: .conservingPower
        )
        let frame = NotificationFrame(notification, identifier: 7, command: command)
        let read = try NotificationFrame(try frame.bytes)
        #expect(read == frame)
        let back = try read.notification.orThrow()
        #expect(back.token == notification.token && back.payload == notification.payload)
        #expect(back.payloadText == #"{"aps":{"alert":"é"}}"#)
        #expect(back.payloadBytes == Array(#"{"aps":{"alert":"é"}}"#.utf8) && read.payloadBytes == back.payloadBytes)
        #expect(read.identifier == (command == .simple ? nil : 7))
        #expect(back.expiry.wireValue == (command == .simple ? nil : 1_700_000_000))
        #expect(back.priority == (command == .items ? .conservingPower : nil))
        if command == .items { #expect(back == notification) }
    }

    @Test func `missing values are encoded by each command`() throws {
        let bytes = Array("{}".utf8)
        let notification = PushNotification(token: try Self.token.get(), payload: bytes)
        #expect(notification.payloadBytes == bytes && notification.payloadText == "{}")
        for command in Command.allCases {
            let frame = NotificationFrame(notification, command: command)
            #expect(try NotificationFrame(try frame.bytes) == frame)
        }
        let enhanced = NotificationFrame(notification)
        #expect(enhanced.command == .enhanced && enhanced.identifier == 0)
        #expect(enhanced.expiry == NotificationFrame.keptAsLongAsPossible)
        let items = NotificationFrame(notification, command: .items)
        #expect(items.identifier == nil && items.expiry == nil && items.priority == nil)
        #expect(NotificationFrame.probe(identifier: 3, command: .items).notification == nil)
    }

    @Test(arguments: 0..<60 as Range<UInt64>)
    func `arrays and buffers have the same bytes and values`(seed: UInt64) throws {
        var random = SplitMix64(seed: seed)
        let frames = try (0..<5).map { _ in try random.frame() }
        var buffer = ByteBuffer()
        for frame in frames { try frame.write(into: &buffer) }
        let all = try frames.flatMap { try $0.bytes }
        #expect(all == Array(buffer.readableBytesView))
        var rest = all[...]
        for frame in frames { #expect(try NotificationFrame(parsing: &rest) == frame, "seed \(seed)") }
        #expect(rest.isEmpty)
    }

    @Test(arguments: 0..<20 as Range<UInt64>)
    func `each prefix of a frame is incomplete, and an extra byte is an error`(seed: UInt64) throws {
        var random = SplitMix64(seed: seed)
        let bytes = try random.frame().bytes
        for count in 0..<bytes.count {
            var part = bytes[..<count]
            #expect(try NotificationFrame(parsing: &part) == nil && part.count == count)
            #expect(throws: WireError.incomplete(byteCount: count)) { try NotificationFrame(bytes[..<count]) }
        }
        #expect(throws: WireError.trailingBytes(offset: bytes.count)) { try NotificationFrame(bytes + [0]) }
    }

    @Test func `a slice is read from its start index`() throws {
        let token = try Self.token.get()
        let frame = NotificationFrame.probe(identifier: 9, command: .enhanced)
        let tuple = FeedbackTuple(token: token, failedAt: 5)
        let response = ErrorResponse(status: .shutdown, identifier: 6)
        let all = [0xFF, 0xFF] + (try frame.bytes) + tuple.bytes + response.bytes + [0xEE]
        var rest = all[2...]
        #expect(try NotificationFrame(parsing: &rest) == frame)
        #expect(try FeedbackTuple(parsing: &rest) == tuple)
        #expect(try ErrorResponse(parsing: &rest) == response)
        #expect(Array(rest) == [0xEE])
    }

    @Test func `an invalid frame is an error, and the caller sets the limits`() throws {
        let long = PushNotification(token: try Self.token.get(), payload: Array(repeating: 0x20, count: 3000))
        let bytes = try NotificationFrame(long, identifier: 9).bytes
        #expect(throws: WireError.payloadTooLong(announced: 3000, limit: 2048, identifier: 9)) {
            try NotificationFrame(bytes)
        }
        var limits = FrameLimits()
        limits.payloadByteCountMax = 3000
        #expect(try NotificationFrame(bytes, limits: limits).payload.readableBytes == 3000)
        #expect(throws: WireError.unknownCommand(9)) { try NotificationFrame([9, 9]) }
        let endless = PushNotification(token: try Self.token.get(), payload: Array(repeating: 0x20, count: 65_536))
        #expect(throws: WireError.payloadByteCount(65_536, limit: 65_535)) { try NotificationFrame(endless).bytes }
    }

    @Test func `an error response is encoded to six bytes and decoded`() throws {
        let response = ErrorResponse(status: .invalidToken, identifier: 0x0102_0304)
        #expect(response.bytes == [8, 8, 1, 2, 3, 4])
        #expect(try ErrorResponse(response.bytes) == response)
        for count in 0..<6 {
            #expect(throws: WireError.incomplete(byteCount: count)) { try ErrorResponse(response.bytes.prefix(count)) }
        }
        #expect(throws: WireError.trailingBytes(offset: 6)) { try ErrorResponse(response.bytes + [8]) }
        #expect(throws: WireError.errorResponseCommand(7)) { try ErrorResponse([7]) }
    }

    @Test func `a feedback tuple is encoded and decoded, and a list is read at every split`() throws {
        let tuples = try [1, 32, 100].map { count in
            FeedbackTuple(token: try DeviceToken(bytes: Array(repeating: 7, count: count)), failedAt: UInt32(count))
        }
        for tuple in tuples {
            #expect(try FeedbackTuple(tuple.bytes) == tuple)
            #expect(throws: WireError.incomplete(byteCount: 6)) { try FeedbackTuple(tuple.bytes.prefix(6)) }
            #expect(throws: WireError.trailingBytes(offset: tuple.bytes.count)) { try FeedbackTuple(tuple.bytes + [0]) }
        }
        #expect(throws: WireError.feedbackTokenByteCount(101)) { try FeedbackTuple([0, 0, 0, 0, 0, 101]) }
        let all = tuples.flatMap(\.bytes)
        for split in 0...all.count {
            var (read, held): ([FeedbackTuple], ArraySlice<UInt8>) = ([], [])
            for part in [all[..<split], all[split...]] {
                held += part
                while let tuple = try FeedbackTuple(parsing: &held) { read.append(tuple) }
            }
            #expect(read == tuples && held.isEmpty, "split at \(split)")
        }
    }

    @Test func `errors describe the problem and its position`() {
        #expect("\(WireError.incomplete(byteCount: 5))".contains("the 5 available bytes"))
        #expect("\(WireError.trailingBytes(offset: 6))".contains("at byte 6"))
        #expect(WireError.incomplete(byteCount: 5).status == nil)
        #expect(WireError.trailingBytes(offset: 6).identifier == nil)
    }

    @Test func `a scope is described by topic and environment`() {
        #expect("\(TokenScope(topic: "com.example.app", environment: .sandbox))" == "com.example.app (sandbox)")
    }
}
