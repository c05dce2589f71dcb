// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import BatchFiles

/// How far a command is, at one instant.
struct ProgressSnapshot: Sendable {
    /// How many there are in all.
    enum Total: Sendable {
        case exact(UInt64)
        case estimated(UInt64)

        var count: UInt64 {
            switch self {
            case .exact(let count), .estimated(let count): count
            }
        }
    }

    /// What the command does, where that is not plain from its name.
    var activity: String?
    /// What is done, by an earlier run too.
    var count: UInt64 = 0
    /// What is counted, such as `rows`; `nil` where that is plain.
    var unit: String?
    /// How much of `count` an earlier run did.
    var earlierCount: UInt64 = 0
    /// How much there is to do; `nil` where nobody knows.
    var total: Total?
    /// The part that is done, 0 to 1; `nil` where nobody knows.
    var fraction: Double?
    var rejectedCount: UInt64 = 0
    var connection = ConnectionMonitor.State.connected
}

extension ProgressSnapshot {
    /// How far a batch is.
    ///
    /// - Parameters:
    ///   - progress: counts and position.
    ///   - earlierCounts: the outcomes of an earlier run with the same journal.
    ///   - connection: what the connections do.
    ///   - isDryRun: whether nothing is sent, so that what was read is done.
    init(
        _ progress: SendProgress,
        earlierCounts: OutcomeCounts,
        connection: ConnectionMonitor.State,
        isDryRun: Bool = false
    ) {
        let (settledCount, earlierCount) = (progress.outcomeCounts.total, earlierCounts.total)
        let settledHere = settledCount - min(earlierCount, settledCount)
        self.count = isDryRun ? progress.sentCount.saturating(adding: settledHere) : settledCount
        self.earlierCount = isDryRun ? 0 : earlierCount
        self.rejectedCount = progress.outcomeCounts[.rejected]
        self.connection = isDryRun ? .connected : connection
        if progress.hasReadAll {
            let total = self.count.saturating(adding: isDryRun ? 0 : progress.openCount)
            self.total = .exact(total)
            self.fraction = total == 0 ? 1 : Double(self.count) / Double(total)
            return
        }
        guard let part = progress.fraction else { return }
        // Lines of which one part is done and another is in flight.
        let taken = max(progress.lineCount, self.count)
        guard part > 0, taken > 0 else { return }
        let share = isDryRun ? 1 : min(1, Double(self.count) / Double(taken))
        self.fraction = min(1, part * share)
        self.total = .estimated(max(self.count, UInt64(saturating: Double(progress.lineCount) / part)))
    }
}

extension UInt64 {
    /// The number that is nearest to another; nothing for what is none.
    init(saturating number: Double) {
        self = number >= 0x1p64 ? .max : number > 0 ? UInt64(number) : 0
    }

    /// The sum, or the greatest number where that is less.
    func saturating(adding other: UInt64) -> UInt64 {
        let (sum, overflows) = self.addingReportingOverflow(other)
        return overflows ? .max : sum
    }
}
