// SPDX-License-Identifier: Apache-2.0

public import NIOCore

/// One entry of the feedback service: an app that was removed from a device, and when.
///
/// | bytes | field        | value                                            |
/// |--------|--------------|--------------------------------------------------|
/// | 4      | time         | seconds since 1970-01-01 00:00 UTC, big-endian    |
/// | 2      | token length | 1 to 100, big-endian; 32 in practice              |
/// | n      | token        | the device token                                  |
///
/// - SeeAlso: Binary Provider API, "The Feedback Service".
public struct FeedbackTuple: Hashable, Sendable {
    /// Bytes before the token.
    private static let headerByteCount = 6

    /// The dead token.
    public var token: DeviceToken

    /// When the service found the app removed, in seconds since 1970 (UTC), as in the bytes.
    package var failedAtSeconds: UInt32

    /// When the service found the app removed; a whole second until the year 2106, where the field ends.
    public var failedAt: Timestamp {
        get { Timestamp(secondsSince1970: Int64(self.failedAtSeconds)) }
        set { self.failedAtSeconds = UInt32(clamping: newValue.secondsSince1970) }
    }

    /// Creates a tuple.
    ///
    /// - Parameters:
    ///   - token: the dead token.
    ///   - failedAt: when the service found the app removed; parts of a second are omitted.
    public init(token: DeviceToken, failedAt: Timestamp) {
        self.init(token: token, failedAt: UInt32(clamping: failedAt.secondsSince1970))
    }

    /// Creates a tuple from the seconds in its bytes.
    package init(token: DeviceToken, failedAt seconds: UInt32) {
        self.token = token
        self.failedAtSeconds = seconds
    }

    /// Reads one tuple; `nil`, with `buffer` unchanged, if it is incomplete.
    ///
    /// - Parameter buffer: bytes from the feedback service, split anywhere.
    /// - Throws: ``WireError/feedbackTokenByteCount(_:)`` as soon as an illegal length is announced.
    public init?(parsing buffer: inout ByteBuffer) throws(WireError) {
        let start = buffer.readerIndex
        guard let failedAt = buffer.getInteger(at: start, as: UInt32.self),
            let length = buffer.getInteger(at: start + 4, as: UInt16.self).map(Int.init)
        else { return nil }
        guard (1...WireLimits.tokenByteCountMax).contains(length) else { throw .feedbackTokenByteCount(length) }
        guard let view = buffer.viewBytes(at: start + Self.headerByteCount, length: length) else { return nil }
        self.init(token: try DeviceToken(bytes: view), failedAt: failedAt)
        buffer.moveReaderIndex(forwardBy: Self.headerByteCount + length)
    }

    /// Reads one tuple from the front of the bytes; `nil`, with them unchanged, if it is incomplete.
    ///
    /// - Parameter bytes: bytes from the feedback service, split anywhere; those of the tuple are consumed.
    /// - Throws: ``WireError/feedbackTokenByteCount(_:)`` as soon as an illegal length is announced.
    public init?(parsing bytes: inout ArraySlice<UInt8>) throws(WireError) {
        var buffer = ByteBuffer(bytes: bytes.prefix(Self.headerByteCount + WireLimits.tokenByteCountMax))
        try self.init(parsing: &buffer)
        bytes.removeFirst(Self.headerByteCount + self.token.byteCount)
    }

    /// Reads the bytes of one tuple.
    ///
    /// - Parameter bytes: exactly the bytes of the tuple.
    /// - Throws: ``WireError/feedbackTokenByteCount(_:)``, ``WireError/incomplete(byteCount:)`` for fewer bytes,
    ///   ``WireError/trailingBytes(offset:)`` for more.
    public init(_ bytes: some Collection<UInt8>) throws(WireError) {
        self = try WholeValue.read(bytes) { (bytes) throws(WireError) in try FeedbackTuple(parsing: &bytes) }
    }

    /// The bytes of the tuple.
    public var bytes: [UInt8] {
        var buffer = ByteBuffer()
        self.write(into: &buffer)
        return Array(buffer.readableBytesView)
    }

    /// Writes the bytes of the tuple.
    ///
    /// - Parameter buffer: the buffer to append to.
    public func write(into buffer: inout ByteBuffer) {
        buffer.writeMultipleIntegers(self.failedAtSeconds, UInt16(self.token.byteCount))
        unsafe self.token.withUnsafeBytes { _ = unsafe buffer.writeBytes($0) }
    }
}

/// The keys are those of a purge list entry: `token`, in hexadecimal, and `failedAt`, in seconds since 1970 (UTC).
extension FeedbackTuple: Codable {
    private enum CodingKeys: String, CodingKey {
        case token
        case failedAtSeconds = "failedAt"
    }
}

extension FeedbackTuple: CustomStringConvertible {
    /// Since when the token is dead, and its length; the bytes are private data.
    public var description: String { "\(self.token), dead since \(self.failedAt)" }
}
