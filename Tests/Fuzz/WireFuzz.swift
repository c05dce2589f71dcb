// SPDX-License-Identifier: Apache-2.0

import APNSPayload
import NIOCore

@testable import APNSSession
@testable import APNSWire
@testable import ServiceSupport

/// The binary protocol, and the texts of options and files.
enum WireFuzz {
    /// A frame is what the skipper skips, in pieces too, and is written as it was read.
    static func frames(_ bytes: [UInt8]) throws {
        var session = GatewaySession()
        var offset = 0
        while offset < bytes.count {
            let rest = Array(bytes[offset...])
            var layout = FrameLayout(command: .simple)
            do {
                guard try rest.withUnsafeBytes({ try layout.read($0, limits: FrameLimits()) }) else { break }
            } catch let error as WireError {
                _ = session.receive(error, command: Command(rawValue: rest[0]))
                break
            }
            try require(layout.byteCount > 0 && layout.byteCount <= rest.count, "a frame ends in the input")
            try require(layout.tokenOffset + layout.tokenByteCount <= layout.byteCount, "a token ends in its frame")
            try require(layout.payloadOffset + layout.payloadByteCount <= layout.byteCount, "so does a payload")
            _ = session.receive(layout)
            try self.skip(rest, layout.byteCount)
            try self.write(Array(rest.prefix(layout.byteCount)))
            offset += layout.byteCount
        }
        bytes.withUnsafeBytes { bytes in
            _ = FrameScanner.frame(at: 0, in: bytes)
            _ = FrameScanner.offset(passing: 3, in: bytes)
        }
        let discarded = self.discarded(bytes, step: max(bytes.count, 1))
        try require(self.discarded(bytes, step: 5) == discarded, "as many frames are discarded in pieces")
    }

    private static func discarded(_ bytes: [UInt8], step: Int) -> DiscardedFrameCounter {
        var counter = DiscardedFrameCounter()
        for start in stride(from: 0, to: bytes.count, by: step) {
            Array(bytes[start..<min(start + step, bytes.count)]).withUnsafeBytes { piece in
                let endByteCount = counter.byteCountToFrameEnd(in: piece)
                counter.count(UnsafeRawBufferPointer(rebasing: piece[..<endByteCount]))
                counter.count(UnsafeRawBufferPointer(rebasing: piece[endByteCount...]))
            }
        }
        return counter
    }

    private static func skip(_ rest: [UInt8], _ byteCount: Int) throws {
        for step in [1, 7, byteCount] {
            var skipper = FrameSkipper()
            var position = 0
            repeat {
                let end = min(position + step, rest.count)
                position += rest.withUnsafeBytes {
                    skipper.skip(UnsafeRawBufferPointer(rebasing: $0[position..<end]))
                }
            } while !skipper.isAtFrameStart && !skipper.isLost && position < rest.count
            try require(position == byteCount, "of a frame of \(byteCount) bytes, \(position) are skipped")
        }
    }

    /// A frame that was read is written, and is the same when it is read again.
    private static func write(_ bytes: [UInt8]) throws {
        guard let frame = try? NotificationFrame(bytes) else { return }
        var written = ByteBuffer()
        guard (try? frame.write(into: &written)) != nil else { return }
        try require((try? NotificationFrame(parsing: &written)) == frame, "a frame is read as it was written")
    }

    static func errors(_ bytes: [UInt8]) throws {
        var rest = bytes[...]
        while let response = try? ErrorResponse(parsing: &rest) {
            _ = response.description
            var written = ByteBuffer()
            response.write(into: &written)
            let read = bytes[(rest.startIndex - 6)..<rest.startIndex]
            try require(Array(buffer: written).elementsEqual(read), "a response is written as it was read")
            try require((try? ErrorResponse(read)) == response, "a response is the same by itself")
        }
        try require((try? ErrorResponse(bytes)) == nil || bytes.count == 6, "nothing else is a response")
    }

    /// The list is the same, however the stream is split.
    static func feedback(_ bytes: [UInt8]) throws {
        func read(_ step: Int) -> [FeedbackTuple] {
            let silence: Duration? = bytes.count.isMultiple(of: 2) ? nil : .seconds(1)
            var reader = FeedbackReader(silence: silence, deadline: .seconds(10), byteCountMax: 400, now: .zero)
            var tuples: [FeedbackTuple] = []
            var buffer = ByteBuffer()
            _ = reader.begin()
            for start in stride(from: 0, to: bytes.count, by: step) {
                let piece = Array(bytes[start..<min(start + step, bytes.count)])
                _ = piece.withUnsafeBytes { reader.received($0, now: .zero) }
                buffer.writeBytes(piece)
                while let tuple = try? FeedbackTuple(parsing: &buffer) { tuples.append(tuple) }
            }
            switch bytes.count % 4 {
            case 0: _ = reader.truncated(now: .zero)
            case 1: _ = reader.peerClosed()
            case 2: _ = reader.failed()
            default: _ = reader.stop()
            }
            _ = reader.connectionClosed()
            return tuples
        }
        let whole = read(max(bytes.count, 1))
        try require(whole == read(1) && whole == read(5), "a list is the same in pieces")
        var (rest, tuples) = (bytes[...], [FeedbackTuple]())
        while let tuple = try? FeedbackTuple(parsing: &rest) { tuples.append(tuple) }
        try require(tuples == whole, "a list is the same as an array")
    }

    static func token(_ bytes: [UInt8]) throws {
        var memory = [UInt8](repeating: 0, count: WireLimits.tokenByteCountMax)
        let value = bytes.withUnsafeBytes { bytes in
            memory.withUnsafeMutableBytes { DeviceTokenText.decode(blob: bytes, into: $0) }
        }
        try require(value.map { (1...memory.count).contains($0.byteCount) } ?? true, "a token is not too long")
        guard var token = try? DeviceToken(bytes: [0]), var again = try? DeviceToken(bytes: [0]) else { return }
        guard bytes.withUnsafeBytes({ DeviceTokenText.decode($0, into: &token) }) else { return }
        let isToken = Array(token.hexadecimal.utf8).withUnsafeBytes { DeviceTokenText.decode($0, into: &again) }
        try require(isToken && again == token, "a token is the same in hexadecimal")
    }

    static func topics(_ bytes: [UInt8]) {
        if let topics = try? CertificateTopics(parsing: bytes) { _ = "\(topics)" }
        _ = CertificateTopics.Topic(name: String(decoding: bytes, as: UTF8.self))
    }

    /// Times, durations, identifiers and other texts are the same when they are written and read again.
    static func texts(_ bytes: [UInt8]) throws {
        let text = String(decoding: bytes, as: UTF8.self)
        if let time = Timestamp(text) { try require(Timestamp(time.description) == time, "a time is the same again") }
        if let time = ISO8601Time(text.utf8) {
            try require(time.earliest <= time.latest, "a time is not over before it begins")
        }
        _ = bytes.withUnsafeBytes { ISO8601Time($0) }
        if let time = TimeText(text: text) { try require(TimeText.range.contains(time.seconds), "a time is in range") }
        _ = DurationText(bytes)
        if let identifier = PushIdentifier(text) {
            try require(PushIdentifier(identifier.description) == identifier, "an identifier is the same again")
        }
        if let decoded = Base64.bytes(addressText: text) {
            try require(Base64.bytes(addressText: Base64.addressText(decoded)) == decoded, "Base64 is the same again")
        }
        try require(Base64.bytes(addressText: Base64.addressText(bytes)) == bytes, "Base64 has all bytes")
        try require(Base64.isText(Base64.text(bytes)), "Base64 is a text in Base64")
        _ = Base64.isText(text)
        _ = PercentEncoding.decoded(text)
        try require(PercentEncoding.decoded(PercentEncoding.encoded(path: text)) == text, "a path is the same again")
        _ = TopicFamily(of: text)
        _ = TopicFamily.isTopic(text)
        _ = HostName(text).isLoopback
        if let outcome = DeliveryOutcome.Kind(text) {
            try require(DeliveryOutcome.Kind(outcome.description) == outcome, "an outcome is the same again")
        }
    }
}
