// SPDX-License-Identifier: Apache-2.0

/// How reading the feedback service came to its end, and how much was read by then.
public struct FeedbackEnding: Hashable, Sendable {
    /// Why nothing more is read.
    ///
    /// Later versions may add cases.
    @nonexhaustive
    public enum Cause: Hashable, Sendable {
        /// The service said that there is no more: an orderly close, or one without close_notify where that will do.
        case closed
        /// The service kept the connection open and said nothing for as long as it may.
        case silence
        /// The time for the whole was over.
        case deadline
        /// The owner wanted no more.
        case stopped
        /// More bytes came than may, and the service had not ended its list.
        case limit
        /// The connection broke: a reset, or an end without close_notify where that is required.
        case failed
        /// The service ended the connection soon after the handshake, without a byte and without close_notify, as one
        /// does that refuses the certificate.
        case refused
        /// At this offset in bytes from 0 there is no tuple: a token of so many bytes is announced.
        case malformed(offset: UInt64, tokenByteCount: Int)
    }

    /// Why nothing more is read.
    public var cause: Cause

    /// Whole tuples that were read.
    public var tupleCount: UInt64

    /// All bytes that were read.
    public var byteCount: UInt64

    /// Bytes of a tuple whose rest did not come; 0 where reading ended between two tuples.
    public var partialByteCount: Int

    /// Makes an ending.
    ///
    /// - Parameters:
    ///   - cause: why nothing more is read.
    ///   - tupleCount: whole tuples that were read.
    ///   - byteCount: all bytes that were read.
    ///   - partialByteCount: bytes of a tuple whose rest did not come.
    public init(cause: Cause, tupleCount: UInt64, byteCount: UInt64, partialByteCount: Int) {
        self.cause = cause
        self.tupleCount = tupleCount
        self.byteCount = byteCount
        self.partialByteCount = partialByteCount
    }
}

extension FeedbackEnding.Cause {
    /// Whether the service came to its end, orderly or not.
    ///
    /// Otherwise this end stopped reading while there may have been more.
    public var isByService: Bool {
        switch self {
        case .closed, .silence, .failed, .refused, .malformed: true
        case .deadline, .stopped, .limit: false
        }
    }
}

extension FeedbackEnding.Cause: CustomStringConvertible {
    /// How reading ended, in a few words.
    public var description: String {
        switch self {
        case .closed: "the service closed"
        case .silence: "the service went silent and did not close"
        case .deadline: "the time was over, there may be more"
        case .stopped: "stopped, there may be more"
        case .limit: "the most bytes were read, there may be more"
        case .failed: "the connection broke"
        case .refused: "the service ended the connection without a word"
        case .malformed(let offset, _): "there is no tuple at byte \(offset)"
        }
    }
}
