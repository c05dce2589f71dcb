// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import APNSWire
import DequeModule
import NIOCore

/// The requests in a queue: those that wait for their turn, and those of a batch that the service put off.
struct PendingPushes: QueueStorage {
    private var waiting = Deque<PendingPush>()
    private var putOff: [(due: NIODeadline, push: PendingPush)] = []

    /// Why connections fail, while they do.
    var outage: ConnectionFailure?
    /// Why going on is of no use.
    var failure: ProviderError?
    /// Whether it is limited how long the rest of the batch may take.
    var isDrainLimited = false

    /// Nothing more is taken from the source while so many are put off; those that are on their way may come on top.
    static let putOffCountMax = 256

    // How many there are is limited by the queue.
    var hasRoom: Bool { true }
    var isLow: Bool { true }

    var waitingCount: Int { self.waiting.count }

    /// Whether more may be taken from the source.
    var mayTakeMore: Bool { self.putOff.count < Self.putOffCountMax }

    mutating func append(_ push: PendingPush) { self.waiting.append(push) }

    mutating func append(_ pushes: [PendingPush]) { self.waiting.append(contentsOf: pushes) }

    mutating func putBack(_ pushes: [PendingPush]) { self.waiting.insert(contentsOf: pushes, at: 0) }

    mutating func takeWaiting(_ countMax: Int) -> [PendingPush] {
        let taken = Array(self.waiting.prefix(countMax))
        self.waiting.removeFirst(taken.count)
        return taken
    }

    mutating func takeAllWaiting() -> [PendingPush] { self.takeWaiting(.max) }

    /// Takes out what has waited too long.
    mutating func takeOverdue(at now: NIODeadline) -> [PendingPush] {
        // In the order of their deadlines, but for those that were put back, which are in front.
        self.takeWaiting(self.waiting.prefix { $0.submission.deadline <= now }.count)
    }

    /// Keeps a request until it is due.
    mutating func putOff(_ push: PendingPush, until due: NIODeadline) { self.putOff.append((due, push)) }

    /// Lets those wait for their turn that were put off and are due, in the order in which they were.
    ///
    /// - Returns: how many those are.
    mutating func returnDue(at now: NIODeadline) -> Int {
        guard !self.putOff.isEmpty else { return 0 }
        let due = self.putOff.filter { $0.due <= now }.map(\.push)
        self.putOff.removeAll { $0.due <= now }
        self.waiting.append(contentsOf: due)
        return due.count
    }

    mutating func takeAllPutOff() -> [PendingPush] {
        defer { self.putOff = [] }
        return self.putOff.map(\.push)
    }
}
