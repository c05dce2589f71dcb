// SPDX-License-Identifier: Apache-2.0

import APNSWire

/// Decides how one connection to the feedback service is read.
///
/// Reading empties the service's list, so what came is to be made durable before anything else is done with it, and
/// before the connection is closed by this end. A service may close behind the last tuple, with or without TLS's
/// close_notify, or keep the connection open for ever. An orderly close always ends the reading; its owner says what
/// else does.
///
/// Times are durations since a moment of the owner's choice. Nothing that the service sends can make it fail but
/// as an ending.
///
/// - SeeAlso: Binary Provider API, "The Feedback Service".
public struct FeedbackReader: Sendable {
    /// An end without a byte and without close_notify is a refusal so long after the handshake, and later a connection
    /// that broke: a gateway that refuses a certificate does so at once.
    public static let refusalDurationMax = Duration.seconds(5)

    private enum State: Hashable, Sendable {
        case reading(silentSince: Duration)
        /// The end is decided, but bytes may still come.
        case closing(FeedbackEnding.Cause)
        case finished
    }

    private let silence: Duration?
    private let deadline: Duration
    private let requiresCloseNotify: Bool
    private let byteCountMax: UInt64
    private let startedAt: Duration
    private var state: State
    private var scanner = FeedbackTupleScanner()

    /// Makes a reader for a connection whose handshake is done.
    ///
    /// - Parameters:
    ///   - silence: after how long without a byte there is nothing more; `nil` to wait for the service's close.
    ///   - deadline: when reading ends in any case.
    ///   - requiresCloseNotify: whether an end of the connection without close_notify is a failure; by default it is.
    ///     One before any byte always is.
    ///   - byteCountMax: behind so many bytes reading ends in any case, those that came with the last of them included;
    ///     by default there is no such bound.
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

    /// Whole tuples so far.
    public var tupleCount: UInt64 { self.scanner.tupleCount }

    /// What to do first.
    ///
    /// - Returns: a step to wait.
    public func begin() -> FeedbackStep {
        guard case .reading(let since) = self.state else { return .ignore }
        return .wait(wakeAt: self.wakeTime(since))
    }

    /// Bytes came.
    ///
    /// - Parameters:
    ///   - bytes: split anywhere.
    ///   - now: the time.
    /// - Returns: what to do with them.
    public mutating func received(_ bytes: UnsafeRawBufferPointer, now: Duration) -> FeedbackStep {
        // Behind the bound nothing is kept, whatever ended the reading.
        guard self.scanner.byteCount < self.byteCountMax else { return .ignore }
        switch self.state {
        case .finished: return .ignore
        case .closing(.malformed):
            // Nothing can be told apart any more, but it is kept for those who look.
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

    /// The owner reads again after it had no room for bytes; what was not read meanwhile is no silence.
    ///
    /// - Parameter now: the time.
    /// - Returns: a step to wait.
    public mutating func resumed(now: Duration) -> FeedbackStep {
        if case .reading = self.state { self.state = .reading(silentSince: now) }
        return self.begin()
    }

    /// The service said that nothing more comes.
    ///
    /// - Returns: what to do.
    public mutating func peerClosed() -> FeedbackStep { self.end(.closed) }

    /// The service's end of the connection came without close_notify.
    ///
    /// Where nothing came before it, that is no empty list, whatever the owner says: it is what a gateway does that
    /// refuses the certificate.
    ///
    /// - Parameter now: the time.
    /// - Returns: what to do.
    public mutating func truncated(now: Duration) -> FeedbackStep {
        guard self.scanner.byteCount == 0 else { return self.end(self.requiresCloseNotify ? .failed : .closed) }
        return self.end(now < self.startedAt + Self.refusalDurationMax ? .refused : .failed)
    }

    /// The connection broke; what it delivered before has been received.
    ///
    /// - Returns: what to do.
    public mutating func failed() -> FeedbackStep { self.end(.failed) }

    /// The owner wants no more.
    ///
    /// - Returns: what to do.
    public mutating func stop() -> FeedbackStep { self.end(.stopped) }

    /// Time passed.
    ///
    /// - Parameter now: the time.
    /// - Returns: what to do.
    public mutating func timePassed(now: Duration) -> FeedbackStep {
        guard case .reading(let since) = self.state else { return .ignore }
        if now >= self.deadline { return self.end(.deadline) }
        if let silence = self.silence, now >= since + silence { return self.end(.silence) }
        return .wait(wakeAt: self.wakeTime(since))
    }

    /// The connection is closed, and nothing can come any more.
    ///
    /// - Returns: the ending.
    public mutating func connectionClosed() -> FeedbackStep {
        let cause: FeedbackEnding.Cause
        switch self.state {
        case .finished: return .ignore
        case .reading: cause = .failed
        case .closing(let decided): cause = decided
        }
        self.state = .finished
        return .finish(
            FeedbackEnding(
                cause: cause,
                tupleCount: self.scanner.tupleCount,
                byteCount: self.scanner.byteCount,
                partialByteCount: self.scanner.partialByteCount
            )
        )
    }

    private mutating func end(_ cause: FeedbackEnding.Cause) -> FeedbackStep {
        guard case .reading = self.state else { return .ignore }
        self.state = .closing(cause)
        // There may be more on its way.
        return cause == .deadline || cause == .stopped ? .abort : .close
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
