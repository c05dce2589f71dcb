// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import APNSWire
import DequeModule
import NIOCore

/// The requests in a queue: those that wait to be sent, and those of a batch that the service postponed.
struct PendingPushes: QueueStorage {
    private var waiting = Deque<PendingPush>()
    private var postponed: [(due: NIODeadline, push: PendingPush)] = []

    /// Why sending cannot succeed.
    var failure: ProviderError?
    /// Whether the time for the rest of the batch is limited.
    var isDrainLimited = false

    /// Nothing more is taken from the source at this number of postponed requests; those in flight may be added.
    static let postponedCountMax = 256

    // The queue limits the number.
    var hasRoom: Bool { true }
    var isLow: Bool { true }

    var waitingCount: Int { self.waiting.count }

    /// Whether more may be taken from the source.
    var mayTakeMore: Bool { self.postponed.count < Self.postponedCountMax }

    mutating func append(_ push: PendingPush) { self.waiting.append(push) }

    mutating func append(_ pushes: [PendingPush]) { self.waiting.append(contentsOf: pushes) }

    mutating func putBack(_ pushes: [PendingPush]) { self.waiting.insert(contentsOf: pushes, at: 0) }

    mutating func takeWaiting(_ countMax: Int) -> [PendingPush] {
        let taken = Array(self.waiting.prefix(countMax))
        self.waiting.removeFirst(taken.count)
        return taken
    }

    mutating func takeAllWaiting() -> [PendingPush] { self.takeWaiting(.max) }

    /// Removes and returns the requests that have waited too long.
    mutating func takeOverdue(at now: NIODeadline) -> [PendingPush] {
        // They are in the order of their deadlines, except for those that were put back at the front.
        self.takeWaiting(self.waiting.prefix { $0.submission.deadline <= now }.count)
    }

    /// Postpones a request to a time.
    mutating func postpone(_ push: PendingPush, until due: NIODeadline) { self.postponed.append((due, push)) }

    /// Moves postponed requests that are due back to the waiting ones, in order.
    ///
    /// Returns their number.
    mutating func returnDue(at now: NIODeadline) -> Int {
        guard !self.postponed.isEmpty else { return 0 }
        let due = self.postponed.filter { $0.due <= now }.map(\.push)
        self.postponed.removeAll { $0.due <= now }
        self.waiting.append(contentsOf: due)
        return due.count
    }

    mutating func takeAllPostponed() -> [PendingPush] {
        defer { self.postponed = [] }
        return self.postponed.map(\.push)
    }
}
