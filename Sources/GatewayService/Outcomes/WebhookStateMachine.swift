// SPDX-License-Identifier: Apache-2.0

import APNSSession

/// Decides what is sent to a webhook, and when: each outcome at least once, and none before those with lower numbers.
///
/// It has no clock, no file and no connection; the caller carries out each step and reports the result.
struct WebhookStateMachine {
    /// What the caller does next.
    enum Step: Hashable {
        /// Wait until there are more outcomes.
        case wait
        /// Read outcomes with numbers above this one, then call ``read(_:count:lastNumber:)``.
        case read(after: UInt64, countMax: Int)
        /// Send the outcomes that were read last, then call ``responded(_:jitter:)``.
        case send
        /// Store the number of the last accepted outcome, then call ``stored(_:jitter:)``.
        case store(UInt64)
        /// Wait for this long.
        case pause(Duration)
    }

    /// What the webhook answered.
    enum Response: Hashable {
        case status(Int, retryAfter: Duration?)
        /// There was no answer, or not all of it.
        case none
    }

    /// The longest pause that a webhook can ask for.
    static let retryAfterMax = Duration.seconds(3600)
    static let backoff = Backoff(first: .seconds(1), max: .seconds(60))

    private enum Held {
        case none
        case unsent(last: UInt64, count: Int)
        case accepted(last: UInt64)
    }

    private let backoff: Backoff
    private let countMax: Int
    /// The number of the last outcome that was accepted, and stored as such.
    private(set) var position: UInt64
    private var held = Held.none
    /// The limit of a batch, which is lower after one was too large for the webhook.
    private var currentCountMax: Int
    private var pause: Duration?
    private(set) var failureCount = 0
    /// The last outcome when nothing more could be read.
    private var exhaustedAt: UInt64 = 0

    init(position: UInt64, countMax: Int, backoff: Backoff = Self.backoff) {
        (self.position, self.countMax, self.currentCountMax) = (position, countMax, countMax)
        self.backoff = backoff
    }

    /// Returns the next step, if this is the number of the last outcome on the disk.
    mutating func next(lastNumber: UInt64) -> Step {
        if let pause = self.pause.take() { return .pause(pause) }
        switch self.held {
        case .unsent: return .send
        case .accepted(let last): return .store(last)
        case .none:
            guard lastNumber > self.position, lastNumber != self.exhaustedAt else { return .wait }
            return .read(after: self.position, countMax: self.currentCountMax)
        }
    }

    /// Records what was read; `nil` if there is no whole outcome above the position.
    mutating func read(_ last: UInt64?, count: Int, lastNumber: UInt64) {
        guard let last else {
            self.exhaustedAt = lastNumber
            return
        }
        self.held = .unsent(last: last, count: count)
    }

    /// Records that reading failed.
    mutating func readFailed(jitter: Double) { self.fail(nil, jitter) }

    /// Records the answer.
    ///
    /// Returns whether the outcomes were accepted.
    mutating func responded(_ response: Response, jitter: Double) -> Bool {
        guard case .unsent(let last, let count) = self.held else { return false }
        switch response {
        case .status(200...299, _):
            self.held = .accepted(last: last)
            self.currentCountMax = min(self.countMax, self.currentCountMax * 2)
            return true
        case .status(413, _) where count > 1:
            // The same outcomes are sent again in smaller batches.
            (self.held, self.currentCountMax) = (.none, count / 2)
        case .status(_, let retryAfter): self.fail(retryAfter, jitter)
        case .none: self.fail(nil, jitter)
        }
        return false
    }

    /// Records whether the position was stored; if not, it is tried again, and nothing else is sent.
    mutating func stored(_ isStored: Bool, jitter: Double) {
        guard isStored, case .accepted(let last) = self.held else { return self.fail(nil, jitter) }
        (self.position, self.held, self.failureCount) = (last, .none, 0)
    }

    private mutating func fail(_ retryAfter: Duration?, _ jitter: Double) {
        self.failureCount += 1
        let delay = self.backoff.delay(failures: self.failureCount, jitter: jitter)
        self.pause = max(delay, min(retryAfter ?? .zero, Self.retryAfterMax))
    }
}
