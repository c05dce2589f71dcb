// SPDX-License-Identifier: Apache-2.0

import APNSWire

/// The state machine of one connection to the feedback service.
///
/// Reading removes entries from the service's list, so received bytes must be made durable before anything else happens
/// to them, and before the client closes the connection. A service may close the connection after the last tuple, with
/// or without TLS's close_notify, or keep it open forever. An orderly close always ends the reading; the caller
/// configures what else does.
///
/// Times are durations since a fixed time of the caller's choice. Whatever the service sends, an error is always
/// reported as an ending.
///
/// - SeeAlso: Binary Provider API, "The Feedback Service".
public struct FeedbackReader: Sendable {
    /// For this long after the handshake, an end without any byte and without close_notify means that the service
    /// rejected the client; later, it is a failed connection.
    ///
    /// A gateway that rejects a certificate does so immediately.
    public static let refusalTimeout = Duration.seconds(5)

    private enum State: Hashable, Sendable {
        case reading(silentSince: Duration)
        /// The end is decided, but more bytes may arrive.
        case closing(FeedbackEnding.Reason)
        case finished
    }

    private let silence: Duration?
    private let deadline: Duration
    private let requiresCloseNotify: Bool
    private let byteCountMax: UInt64
    private let startedAt: Duration
    private var state: State
    private var scanner = FeedbackTupleScanner()

    /// Creates a reader for a connection after its handshake.
    ///
    /// - Parameters:
    ///   - silence: the time without a byte after which the list is complete; `nil` to wait for the service to close.
    ///   - deadline: the time when reading ends in any case.
    ///   - requiresCloseNotify: whether the end of the connection without close_notify is a failure; by default it is.
    ///     Before the first byte it always is.
    ///   - byteCountMax: the number of bytes after which reading ends in any case, including those received together
    ///     with the last one; by default unlimited.
    ///   - now: the time.
    public init(
        silence: Duration?,
        deadline: Duration,
        requiresCloseNotify: Bool = true,
        byteCountMax: UInt64 = .max,
        now: Duration
    ) {
        self.silence = silence
        self.deadline = deadline
        self.requiresCloseNotify = requiresCloseNotify
        self.byteCountMax = byteCountMax
        self.startedAt = now
        self.state = .reading(silentSince: now)
    }

    /// The number of complete tuples so far.
    public var tupleCount: UInt64 { self.scanner.tupleCount }

    /// Whether the first bytes of the connection are not a tuple.
    package var isMalformedAtStart: Bool {
        if case .closing(.malformed(offset: 0, _)) = self.state { return true }
        return false
    }

    /// The first step.
    ///
    /// - Returns: a step to wait.
    public func begin() -> FeedbackStep {
        guard case .reading(let since) = self.state else { return .ignore }
        return .wait(wakeAt: self.wakeTime(since))
    }

    /// Processes received bytes.
    ///
    /// - Parameters:
    ///   - bytes: bytes of the stream, split anywhere.
    ///   - now: the time.
    /// - Returns: the next step.
    public mutating func received(_ bytes: UnsafeRawBufferPointer, now: Duration) -> FeedbackStep {
        // Bytes beyond the limit are not kept, whatever ended the reading.
        guard self.scanner.byteCount < self.byteCountMax else { return .ignore }
        switch self.state {
        case .finished: return .ignore
        case .closing(.malformed):
            // The bytes can no longer be parsed, but are kept for diagnosis.
            self.scanner.skip(byteCount: bytes.count)
            return self.isAtLimit ? .abort : .spoolOnly
        case .closing:
            unsafe self.scan(bytes)
            return self.isAtLimit ? .abort : .spoolOnly
        case .reading:
            self.state = .reading(silentSince: now)
            unsafe self.scan(bytes)
            if self.isAtLimit {
                if case .reading = self.state { self.state = .closing(.limit) }
                return .abort
            }
            if case .closing = self.state { return .close }
            return .spool(wakeAt: self.wakeTime(now))
        }
    }

    private var isAtLimit: Bool { self.scanner.byteCount >= self.byteCountMax }

    /// Resumes after the caller had no room for bytes; that time does not count as silence.
    ///
    /// - Parameter now: the time.
    /// - Returns: a step to wait.
    public mutating func resumed(now: Duration) -> FeedbackStep {
        if case .reading = self.state { self.state = .reading(silentSince: now) }
        return self.begin()
    }

    /// The service closed the connection orderly.
    ///
    /// - Returns: the next step.
    public mutating func peerClosed() -> FeedbackStep { self.end(.closed) }

    /// The connection ended without close_notify.
    ///
    /// If nothing was received before, it is not an empty list, whatever the configuration: a gateway that rejects the
    /// certificate does this.
    ///
    /// - Parameter now: the time.
    /// - Returns: the next step.
    public mutating func truncated(now: Duration) -> FeedbackStep {
        guard self.scanner.byteCount == 0 else { return self.end(self.requiresCloseNotify ? .failed : .closed) }
        return self.end(now < self.startedAt + Self.refusalTimeout ? .refused : .failed)
    }

    /// The connection failed; everything received before has been processed.
    ///
    /// - Returns: the next step.
    public mutating func failed() -> FeedbackStep { self.end(.failed) }

    /// The caller stops reading.
    ///
    /// - Returns: the next step.
    public mutating func stop() -> FeedbackStep { self.end(.stopped) }

    /// Time passed.
    ///
    /// - Parameter now: the time.
    /// - Returns: the next step.
    public mutating func timePassed(now: Duration) -> FeedbackStep {
        guard case .reading(let since) = self.state else { return .ignore }
        if now >= self.deadline { return self.end(.deadline) }
        if let silence = self.silence, now >= since + silence { return self.end(.silence) }
        return .wait(wakeAt: self.wakeTime(since))
    }

    /// The connection is closed, so nothing more can arrive.
    ///
    /// - Returns: the ending.
    public mutating func connectionClosed() -> FeedbackStep {
        let reason: FeedbackEnding.Reason
        switch self.state {
        case .finished: return .ignore
        case .reading: reason = .failed
        case .closing(let decided): reason = decided
        }
        self.state = .finished
        return .finish(
            FeedbackEnding(
                reason: reason,
                tupleCount: self.scanner.tupleCount,
                byteCount: self.scanner.byteCount,
                partialByteCount: self.scanner.partialByteCount
            )
        )
    }

    private mutating func end(_ reason: FeedbackEnding.Reason) -> FeedbackStep {
        guard case .reading = self.state else { return .ignore }
        self.state = .closing(reason)
        // More bytes may be in transit.
        return reason == .deadline || reason == .stopped ? .abort : .close
    }

    private mutating func scan(_ bytes: UnsafeRawBufferPointer) {
        let countBefore = self.scanner.byteCount
        guard let tokenByteCount = unsafe self.scanner.scan(bytes) else { return }
        self.state = .closing(.malformed(offset: self.scanner.tupleOffset, tokenByteCount: tokenByteCount))
        self.scanner.skip(byteCount: bytes.count - Int(self.scanner.byteCount - countBefore))
    }

    private func wakeTime(_ since: Duration) -> Duration {
        guard let silence = self.silence else { return self.deadline }
        return min(self.deadline, since + silence)
    }
}

/// Finds the starts of tuples in bytes that are split anywhere, without storing them.
struct FeedbackTupleScanner: Sendable {
    /// The bytes before a token: four for the time and two for the length.
    private static let headerByteCount = 6

    /// Complete tuples.
    private(set) var tupleCount: UInt64 = 0
    private(set) var byteCount: UInt64 = 0
    /// Bytes since the last complete tuple.
    private(set) var partialByteCount = 0

    /// The last two bytes of the header, as far as received.
    private var tokenByteCount = 0

    /// The offset of the current or next tuple.
    var tupleOffset: UInt64 { self.byteCount - UInt64(self.partialByteCount) }

    /// Scans bytes.
    ///
    /// Returns an invalid token length, which ends the scan, or `nil`.
    mutating func scan(_ bytes: UnsafeRawBufferPointer) -> Int? {
        var index = 0
        while index < bytes.count {
            if self.partialByteCount < Self.headerByteCount {
                let byte = unsafe Int(bytes[index])
                index += 1
                self.byteCount += 1
                self.partialByteCount += 1
                if self.partialByteCount < Self.headerByteCount - 1 { continue }
                if self.partialByteCount < Self.headerByteCount {
                    self.tokenByteCount = byte << 8
                    continue
                }
                self.tokenByteCount |= byte
                guard (1...WireLimits.tokenByteCountMax).contains(self.tokenByteCount) else {
                    return self.tokenByteCount
                }
                continue
            }
            let left = Self.headerByteCount + self.tokenByteCount - self.partialByteCount
            let taken = min(left, bytes.count - index)
            index += taken
            self.byteCount += UInt64(taken)
            self.partialByteCount += taken
            if taken == left {
                self.tupleCount += 1
                self.partialByteCount = 0
            }
        }
        return nil
    }

    /// Counts bytes without scanning them.
    mutating func skip(byteCount: Int) { self.byteCount += UInt64(byteCount) }
}

/// What the caller of a ``FeedbackReader`` must do after an event.
@frozen
public enum FeedbackStep: Hashable, Sendable {
    /// Make the received bytes durable, and call ``FeedbackReader/timePassed(now:)`` at this time.
    case spool(wakeAt: Duration)
    /// Make the received bytes durable; nothing else.
    case spoolOnly
    /// Call ``FeedbackReader/timePassed(now:)`` at this time.
    case wait(wakeAt: Duration)
    /// Make all received bytes durable, then close; spool any further bytes, too.
    case close
    /// Make all received bytes durable, then close without close_notify, which the service could interpret as an
    /// acknowledgment of everything.
    case abort
    /// Reading has ended; nothing more arrives.
    case finish(FeedbackEnding)
    /// Nothing.
    case ignore
}
