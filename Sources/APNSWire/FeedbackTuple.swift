// SPDX-License-Identifier: Apache-2.0

public import NIOCore

/// One entry of the feedback service: since when an app is known to be gone from a device.
///
/// | bytes | field        | value                                            |
/// |--------|--------------|--------------------------------------------------|
/// | 4      | time         | seconds since 1970-01-01 00:00 UTC, big-endian    |
/// | 2      | token length | 1 to 100, big-endian; 32 in practice              |
/// | n      | token        | the device token                                  |
///
/// - SeeAlso: Binary Provider API, "The Feedback Service".
public struct FeedbackTuple: Hashable, Sendable {
    /// When the service found the app gone, in seconds since 1970 (UTC).
    public var failedAt: UInt32

    /// The token that is dead.
    public var token: DeviceToken

    /// Makes a tuple.
    ///
    /// - Parameters:
    ///   - failedAt: seconds since 1970 (UTC).
    ///   - token: the token that is dead.
    public init(failedAt: UInt32, token: DeviceToken) {
        self.failedAt = failedAt
        self.token = token
    }

    /// Reads one tuple, or `nil` with `buffer` untouched until all its bytes are there.
    ///
    /// - Parameter buffer: bytes from the feedback service, split anywhere.
    /// - Throws: ``WireError/feedbackTokenByteCount(_:)`` as soon as an illegal length is announced.
    public init?(parsing buffer: inout ByteBuffer) throws(WireError) {
        let start = buffer.readerIndex
        guard let failedAt = buffer.getInteger(at: start, as: UInt32.self),
            let length = buffer.getInteger(at: start + 4, as: UInt16.self).map(Int.init)
        else { return nil }
        guard (1...WireLimits.tokenByteCountMax).contains(length) else { throw .feedbackTokenByteCount(length) }
        guard let view = buffer.viewBytes(at: start + 6, length: length) else { return nil }
        self.init(failedAt: failedAt, token: try DeviceToken(bytes: view))
        buffer.moveReaderIndex(forwardBy: 6 + length)
    }

    /// Writes the bytes of the tuple.
    ///
    /// - Parameter buffer: is appended to.
    public func write(into buffer: inout ByteBuffer) {
        buffer.writeMultipleIntegers(self.failedAt, UInt16(self.token.byteCount))
        unsafe self.token.withUnsafeBytes { _ = unsafe buffer.writeBytes($0) }
    }
}
