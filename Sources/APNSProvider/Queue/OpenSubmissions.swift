// SPDX-License-Identifier: Apache-2.0

package import APNSSession
import DequeModule

/// Is told what became of the notifications that it has put in.
@usableFromInline
package protocol SubmissionReceiver: AnyObject, Sendable {
    /// Takes the outcome of notifications; called from any thread, once for each, also before the call returns that put
    /// it in. It must not wait.
    ///
    /// - Parameters:
    ///   - keys: by which the receiver knows them.
    ///   - report: what became of each.
    func settle(_ keys: Range<UInt64>, _ report: DeliveryReport)
}

/// Who is to be told of the notifications that have no outcome, by their numbers.
struct OpenSubmissions: Sendable {
    /// Notifications that one receiver has put in, one after the other.
    private struct Run: Sendable {
        var numbers: Range<UInt64>
        let firstKey: UInt64
        let receiver: any SubmissionReceiver
        var openCount: Int
    }

    private var runs = Deque<Run>()
    /// How many of them are settled, behind one that is not.
    private var settledCount = 0

    /// So many settled runs may stay before all are looked at, so that one that waits for long keeps no others.
    private static let settledCountMax = 1024

    /// Whether nobody waits for anything.
    var isEmpty: Bool { self.runs.isEmpty }

    /// Remembers who has put in a notification.
    ///
    /// - Parameters:
    ///   - number: of the notification; higher than all before.
    ///   - receiver: is to be told.
    ///   - key: by which the receiver knows it.
    mutating func append(_ number: UInt64, _ receiver: any SubmissionReceiver, key: UInt64) {
        if let last = self.runs.last, last.openCount > 0, last.receiver === receiver,
            last.numbers.upperBound == number, last.firstKey + UInt64(last.numbers.count) == key
        {
            self.runs[self.runs.count - 1].numbers = last.numbers.lowerBound..<(number + 1)
            self.runs[self.runs.count - 1].openCount += 1
        } else {
            self.runs.append(Run(numbers: number..<(number + 1), firstKey: key, receiver: receiver, openCount: 1))
        }
    }

    /// Forgets notifications that have their outcome, each of which is named once.
    ///
    /// - Parameter numbers: which.
    /// - Returns: who is to be told of which.
    mutating func settle(_ numbers: Range<UInt64>) -> [(receiver: any SubmissionReceiver, keys: Range<UInt64>)] {
        var settled: [(receiver: any SubmissionReceiver, keys: Range<UInt64>)] = []
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
        return settled
    }

    /// The first run that reaches beyond a number, found by halving.
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
