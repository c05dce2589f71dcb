// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSWire

/// Decides in which order the changes of a shared store are carried out, which are tried again, and which are given up;
/// without a clock and without a database.
///
/// All changes may be carried out twice, so that a commit without an answer is one that is tried again.
struct SharedStoreQueue: Sendable {
    /// What to do in the database.
    enum Change: Sendable {
        case expect([ExpectedResend], provider: String, duration: Duration)
        /// Removes the resends of an error response that was not sent.
        case discard(response: Int64, provider: String, duration: Duration)
        case claim(ExpectedResend, provider: String)
        case load(provider: String)
        /// Removes tokens, unless their times are newer.
        case remove(FeedbackPage.Bucket, TokenScope)
        case list(TokenScope)
    }

    /// What became of a change.
    enum Answer: Sendable {
        case done
        /// There was nothing to claim.
        case absent
        case resends([ExpectedResend])
        case list(FeedbackBuckets)
        case givenUp
    }

    typealias Completion = @Sendable (Answer) -> Void

    struct Entry: Sendable {
        /// Unique in the process.
        var number: UInt64
        var change: Change
        /// When it is given up; `nil` for never.
        var deadline: Duration?
        var onDone: Completion?
    }

    /// The maximum number of resends that wait to be stored.
    static let resendCountMax = 100_000
    /// The maximum number of removals that wait; further ones are left out, and their tokens are read once more.
    static let removalCountMax = 100_000
    /// The maximum number of changes in a transaction.
    static let batchCountMax = 1000

    private var pending: [Entry] = []
    private var running: [Entry] = []
    private var lastNumber: UInt64 = 0
    private var resendCount = 0
    private var removalCount = 0
    private(set) var failureCount = 0

    /// Whether nothing waits and nothing is carried out.
    var isIdle: Bool { self.pending.isEmpty && self.running.isEmpty }

    /// Whether a change has a deadline.
    var hasDeadline: Bool { (self.running + self.pending).contains { $0.deadline != nil } }

    /// Adds a change.
    ///
    /// Returns whether there was room.
    mutating func add(_ change: Change, until deadline: Duration?, onDone: Completion? = nil) -> Bool {
        switch change {
        case .expect(let resends, _, _):
            guard self.resendCount + resends.count <= Self.resendCountMax else { return false }
            self.resendCount += resends.count
        case .remove:
            guard self.removalCount < Self.removalCountMax else { return false }
            self.removalCount += 1
        case .discard, .claim, .load, .list: break
        }
        self.lastNumber += 1
        self.pending.append(Entry(number: self.lastNumber, change: change, deadline: deadline, onDone: onDone))
        return true
    }

    /// Takes the changes of the next transaction, in order.
    mutating func take() -> [Entry] {
        self.running = Array(self.pending.prefix(Self.batchCountMax))
        self.pending.removeFirst(self.running.count)
        return self.running
    }

    /// Records that the transaction has committed.
    ///
    /// Returns the changes whose callers wait for the answers.
    mutating func committed() -> [UInt64: Completion] {
        defer { self.running = [] }
        self.failureCount = 0
        for entry in self.running { self.leave(entry) }
        return Dictionary(
            self.running.compactMap { entry in entry.onDone.map { (entry.number, $0) } },
            uniquingKeysWith: { first, _ in first }
        )
    }

    /// Records that the transaction has failed: its changes are tried again before all others.
    mutating func failed() {
        self.failureCount += 1
        self.pending.insert(contentsOf: self.running, at: 0)
        self.running = []
    }

    /// Gives up changes whose deadline has passed.
    ///
    /// A transaction that is under way, or that got no answer, may have stored the resends of one of them. They are
    /// removed after it, since their error response is not sent.
    mutating func giveUp(now: Duration) -> [Completion] {
        var completions: [Completion] = []
        var discarded: [Change] = []
        func isOver(_ entry: Entry) -> Bool { entry.deadline.map { $0 <= now } ?? false }
        for entry in self.running + self.pending where isOver(entry) {
            if let onDone = entry.onDone { completions.append(onDone) }
            guard entry.onDone != nil, case .expect(let resends, let provider, let duration) = entry.change else {
                continue
            }
            for response in Set(resends.compactMap(\.place?.response)) {
                discarded.append(.discard(response: response, provider: provider, duration: duration))
            }
        }
        for entry in self.pending where isOver(entry) { self.leave(entry) }
        self.pending.removeAll(where: isOver)
        // One that is under way is not tried again: it has no caller any more.
        for index in self.running.indices where isOver(self.running[index]) { self.running[index].onDone = nil }
        for change in discarded {
            guard case .discard(_, _, let duration) = change else { continue }
            // After that, nobody expects them.
            _ = self.add(change, until: now + duration)
        }
        return completions
    }

    private mutating func leave(_ entry: Entry) {
        switch entry.change {
        case .expect(let resends, _, _): self.resendCount -= resends.count
        case .remove: self.removalCount -= 1
        case .discard, .claim, .load, .list: break
        }
    }
}
