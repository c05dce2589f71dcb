// SPDX-License-Identifier: Apache-2.0

/// How reading from the feedback service ended, and how much was read.
public struct FeedbackEnding: Hashable, Sendable {
    /// Why reading ended.
    ///
    /// Later versions may add cases.
    @nonexhaustive
    public enum Reason: Hashable, Sendable {
        /// The service closed the connection: with close_notify, or without it if that is permitted.
        case closed
        /// The service kept the connection open and sent nothing for the permitted time.
        case silence
        /// The total time was over.
        case deadline
        /// The caller stopped reading.
        case stopped
        /// The byte limit was reached before the end of the service's list.
        case limit
        /// The connection failed: a reset, or an end without close_notify where it is required.
        case failed
        /// The service ended the connection soon after the handshake, without any byte and without close_notify, as a
        /// service does that rejects the certificate.
        case refused
        /// The bytes at this offset are not a tuple: they announce a token of an invalid length.
        case malformed(offset: UInt64, tokenByteCount: Int)
    }

    /// Why reading ended.
    public var reason: Reason

    /// The number of complete tuples read.
    public var tupleCount: UInt64

    /// The number of bytes read.
    public var byteCount: UInt64

    /// The bytes of an incomplete tuple at the end; 0 if there was none.
    public var partialByteCount: Int

    /// Creates an ending.
    ///
    /// - Parameters:
    ///   - reason: why reading ended.
    ///   - tupleCount: the number of complete tuples read.
    ///   - byteCount: the number of bytes read.
    ///   - partialByteCount: the bytes of an incomplete tuple at the end.
    public init(reason: Reason, tupleCount: UInt64, byteCount: UInt64, partialByteCount: Int) {
        self.reason = reason
        self.tupleCount = tupleCount
        self.byteCount = byteCount
        self.partialByteCount = partialByteCount
    }
}

extension FeedbackEnding.Reason {
    /// Whether the service ended the connection, orderly or not.
    ///
    /// Otherwise the client stopped reading although there may have been more.
    public var isByService: Bool {
        switch self {
        case .closed, .silence, .failed, .refused, .malformed: true
        case .deadline, .stopped, .limit: false
        }
    }
}

extension FeedbackEnding.Reason: CustomStringConvertible {
    /// Why reading ended, in a few words.
    public var description: String {
        switch self {
        case .closed: "the service closed the connection"
        case .silence: "the service stopped sending without closing the connection"
        case .deadline: "the time limit was reached, there may be more tokens"
        case .stopped: "stopped, there may be more tokens"
        case .limit: "the byte limit was reached, there may be more tokens"
        case .failed: "the connection failed"
        case .refused: "the service closed the connection without sending anything"
        case .malformed(let offset, _): "invalid tuple at byte \(offset)"
        }
    }
}
