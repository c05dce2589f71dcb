// SPDX-License-Identifier: Apache-2.0

package import APNSWire

/// The place of a chunk in the queue, in the order in which chunks are sent.
package struct QueueChunkKey: Hashable, Comparable, Sendable {
    package var batch: Int64
    package var number: Int32

    package init(batch: Int64, number: Int32) {
        self.batch = batch
        self.number = number
    }

    package static func < (left: Self, right: Self) -> Bool { (left.batch, left.number) < (right.batch, right.number) }
}

/// The numbers of notifications by outcome, of a chunk, a batch, or a part of one.
package struct QueueCounts: Hashable, Sendable {
    package var accepted: Int64 = 0
    package var rejected: Int64 = 0
    package var indeterminate: Int64 = 0
    package var invalid: Int64 = 0
    /// How many of these may have arrived twice.
    package var duplicates: Int64 = 0

    package init() {}

    /// The number of notifications with an outcome.
    package var total: Int64 { self.accepted + self.rejected + self.indeterminate + self.invalid }
}

/// What became of one notification of a chunk.
package struct QueueOutcome: Hashable, Sendable {
    package var kind: DeliveryOutcome.Kind
    /// The status of a rejection.
    package var status: UInt16?
    /// With status 410, when the device unregistered, as the service reported it.
    package var timestamp: UInt64?
    /// Whether it may have arrived twice.
    package var isDuplicate: Bool
    /// How many times this worker wrote it.
    package var attempts: Int
    /// An explanation.
    package var reason: String?
    /// The identifier of its request over HTTP/2.
    package var apnsID: PushIdentifier?
    /// The identifier that the service gave it, in the sandbox.
    package var apnsUniqueID: PushIdentifier?

    package init(
        _ kind: DeliveryOutcome.Kind,
        status: UInt16? = nil,
        timestamp: UInt64? = nil,
        isDuplicate: Bool = false,
        attempts: Int = 1,
        reason: String? = nil
    ) {
        self.kind = kind
        self.status = status
        self.timestamp = timestamp
        self.isDuplicate = isDuplicate
        self.attempts = attempts
        self.reason = reason
    }

    /// Whether the queue keeps a row for it, rather than a count only.
    package var isException: Bool { self.kind != .accepted || self.isDuplicate }
}

/// The rules of a queue; tests replace single ones by wrong ones.
package struct QueueRules: Sendable {
    /// What becomes of notifications that another worker may have sent before it died.
    package enum Takeover: String, Sendable, CaseIterable {
        /// They are sent again, and flagged as possible duplicates.
        case resend
        /// They are not sent again: their outcome is `indeterminate`.
        case hold
    }

    package var takeover = Takeover.resend
    /// Whether `written` is committed before the first byte of a chunk.
    package var marksFirst = true
    /// Whether notifications of a doubtful chunk are flagged.
    package var flagsTakenOver = true
    /// Whether a chunk without a row that changed is given up.
    package var obeysFence = true
    /// Whether an unknown outcome is left to the next attempt, which flags it.
    package var keepsDoubt = true

    package init() {}
}

/// What a worker commits about a chunk.
package struct QueueProof: Equatable, Sendable {
    /// The number of notifications with an outcome, of all workers.
    package var proved: Int
    /// This number, and of the others those that may have arrived.
    package var written: Int
    /// What this worker adds to the counts.
    package var counts: QueueCounts
    /// The notifications without an outcome, one bit each; `nil` if there are none.
    package var open: [UInt8]?
    /// The indices of the notifications that need a row.
    package var exceptions: [Int]
}

/// What is known of the notifications of one chunk that this worker holds.
package struct QueueChunkAccount: Sendable {
    package let key: QueueChunkKey
    package let epoch: Int32
    package let count: Int
    /// Whether an earlier owner may have sent the open notifications.
    package let isDoubtful: Bool
    private let rules: QueueRules
    /// The notifications that had no outcome when the chunk was claimed.
    private let open: [Bool]
    /// What became of them; `nil` for those that wait.
    package private(set) var outcomes: [QueueOutcome?]
    /// The number of those that wait.
    package private(set) var waitingCount: Int

    /// Creates the account of a chunk that was claimed; `nil` if its numbers contradict each other.
    ///
    /// `open` has a bit for each notification without an outcome; it is `nil` if none has one.
    package init?(
        _ key: QueueChunkKey,
        epoch: Int32,
        count: Int,
        written: Int,
        proved: Int,
        open: [UInt8]?,
        rules: QueueRules
    ) {
        guard count > 0, proved >= 0, written >= proved, written <= count else { return nil }
        let isOpen = (0..<count).map { index in
            open.map { index / 8 < $0.count && $0[index / 8] & (1 << (index % 8)) != 0 } ?? true
        }
        let openCount = isOpen.count { $0 }
        guard openCount == count - proved, openCount > 0 else { return nil }
        self.key = key
        self.epoch = epoch
        self.count = count
        self.isDoubtful = written > proved
        self.rules = rules
        self.open = isOpen
        self.outcomes = Array(repeating: nil, count: count)
        self.waitingCount = openCount
        if self.isDoubtful, rules.takeover == .hold {
            let held = QueueOutcome(.indeterminate, reason: "a worker died while it sent it")
            for index in isOpen.indices where isOpen[index] { self.settle(index, held) }
        }
    }

    /// Whether a notification is to be sent.
    package func isDue(_ index: Int) -> Bool { self.open[index] && self.outcomes[index] == nil }

    /// Records what became of a notification.
    package mutating func settle(_ index: Int, _ outcome: QueueOutcome) {
        guard self.open.indices.contains(index), self.isDue(index) else { return }
        var outcome = outcome
        // What was not sent again may have arrived before.
        if outcome.kind == .unsent, outcome.isDuplicate { outcome.kind = .indeterminate }
        if self.isDoubtful, self.rules.takeover == .resend, self.rules.flagsTakenOver, outcome.kind != .unsent {
            outcome.isDuplicate = true
        }
        self.outcomes[index] = outcome
        self.waitingCount -= 1
    }

    /// Whether an outcome is the last word, and not left to another attempt.
    private func isFinal(_ outcome: QueueOutcome) -> Bool {
        switch outcome.kind {
        case .accepted, .rejected, .invalid: true
        case .indeterminate: self.rules.takeover == .hold
        case .unsent, .suppressed: false
        }
    }

    /// The indices of the notifications of which this worker knows the final outcome.
    package var finalIndices: [Int] {
        self.outcomes.indices.filter { index in self.outcomes[index].map(self.isFinal) ?? false }
    }

    /// What to commit now; notifications that were given to a connection must have an outcome.
    package var proof: QueueProof {
        var (counts, exceptions, bits) = (QueueCounts(), [Int](), [UInt8](repeating: 0, count: (self.count + 7) / 8))
        var (openCount, hasDoubt) = (0, self.isDoubtful)
        for index in 0..<self.count where self.open[index] {
            guard let outcome = self.outcomes[index], self.isFinal(outcome) else {
                if self.outcomes[index]?.kind == .indeterminate, self.rules.keepsDoubt { hasDoubt = true }
                bits[index / 8] |= 1 << (index % 8)
                openCount += 1
                continue
            }
            switch outcome.kind {
            case .accepted: counts.accepted += 1
            case .rejected: counts.rejected += 1
            case .invalid: counts.invalid += 1
            case .indeterminate, .unsent, .suppressed: counts.indeterminate += 1
            }
            if outcome.isDuplicate { counts.duplicates += 1 }
            if outcome.isException { exceptions.append(index) }
        }
        let proved = self.count - openCount
        return QueueProof(
            proved: proved,
            written: hasDoubt ? self.count : proved,
            counts: counts,
            open: openCount > 0 ? bits : nil,
            exceptions: exceptions
        )
    }
}
