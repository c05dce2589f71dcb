// SPDX-License-Identifier: Apache-2.0

package import APNSSession
import DequeModule

/// Receives the outcomes of the notifications that it has submitted.
@usableFromInline
package protocol SubmissionReceiver: AnyObject, Sendable {
    /// Receives the outcome of notifications; called on any thread, once for each, possibly before the call that
    /// submits it returns. It must not block.
    func settle(_ keys: Range<UInt64>, _ report: DeliveryReport)
}

/// The receivers of unsettled notifications, by number.
struct OpenSubmissions: Sendable {
    /// Consecutive notifications of one receiver.
    private struct Run: Sendable {
        var numbers: Range<UInt64>
        let firstKey: UInt64
        let receiver: any SubmissionReceiver
        var openCount: Int
    }

    private var runs = Deque<Run>()
    // The notifications that belong to the last run, which gets them before it is read. To change a run for each would
    // read what was just written in other parts, and the processor then waits until all earlier writes are in its
    // cache.
    private var tailReceiver: ObjectIdentifier?
    private var tailCount = 0
    private var nextNumber: UInt64 = 0
    private var nextKey: UInt64 = 0
    /// The number of settled runs after an unsettled one.
    private var settledCount = 0

    /// The number of settled runs that triggers a cleanup, so that a notification that waits for long does not keep
    /// others.
    private static let settledCountMax = 1024

    /// Whether there are no unsettled notifications.
    var isEmpty: Bool { self.runs.isEmpty }

    /// Records the receiver of a notification.
    mutating func append(_ number: UInt64, _ receiver: any SubmissionReceiver, key: UInt64) {
        if self.tailReceiver == ObjectIdentifier(receiver), number == self.nextNumber, key == self.nextKey {
            self.tailCount += 1
        } else {
            self.closeTail()
            self.runs.append(Run(numbers: number..<(number + 1), firstKey: key, receiver: receiver, openCount: 1))
            self.tailReceiver = ObjectIdentifier(receiver)
        }
        (self.nextNumber, self.nextKey) = (number + 1, key + 1)
    }

    /// Adds what belongs to the last run.
    private mutating func closeTail() {
        guard self.tailCount > 0 else { return }
        let last = self.runs.count - 1
        self.runs[last].numbers = self.runs[last].numbers.lowerBound..<self.nextNumber
        self.runs[last].openCount += self.tailCount
        self.tailCount = 0
    }

    /// Removes settled notifications; each may be passed only once.
    ///
    /// Returns the receivers with their keys.
    mutating func settle(_ numbers: Range<UInt64>) -> [(receiver: any SubmissionReceiver, keys: Range<UInt64>)] {
        var settled: [(receiver: any SubmissionReceiver, keys: Range<UInt64>)] = []
        self.closeTail()
        var index = self.index(of: numbers.lowerBound)
        while index < self.runs.count, self.runs[index].numbers.lowerBound < numbers.upperBound {
            let run = self.runs[index]
            let part = run.numbers.clamped(to: numbers)
            if !part.isEmpty {
                let firstKey = run.firstKey + (part.lowerBound - run.numbers.lowerBound)
                settled.append((run.receiver, firstKey..<(firstKey + UInt64(part.count))))
                self.runs[index].openCount -= part.count
                if self.runs[index].openCount == 0 { self.settledCount += 1 }
            }
            index += 1
        }
        while let first = self.runs.first, first.openCount == 0 {
            self.runs.removeFirst()
            self.settledCount -= 1
        }
        if self.settledCount > Self.settledCountMax, self.settledCount > self.runs.count / 2 {
            self.runs.removeAll { $0.openCount == 0 }
            self.settledCount = 0
        }
        if (self.runs.last?.openCount ?? 0) == 0 { self.tailReceiver = nil }
        return settled
    }

    /// The numbers of one receiver, ascending; some of them may be settled.
    mutating func numbers(of receiver: any SubmissionReceiver, in numbers: Range<UInt64>) -> [Range<UInt64>] {
        var found: [Range<UInt64>] = []
        self.closeTail()
        var index = self.index(of: numbers.lowerBound)
        while index < self.runs.count, self.runs[index].numbers.lowerBound < numbers.upperBound {
            let run = self.runs[index]
            if run.openCount > 0, run.receiver === receiver { found.append(run.numbers.clamped(to: numbers)) }
            index += 1
        }
        return found
    }

    /// The first run that ends after a number, by binary search.
    private func index(of number: UInt64) -> Int {
        var low = 0
        var high = self.runs.count
        while low < high {
            let middle = (low + high) / 2
            if self.runs[middle].numbers.upperBound <= number { low = middle + 1 } else { high = middle }
        }
        return low
    }
}
