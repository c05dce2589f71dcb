// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import Batch

/// The progress of a command at one point in time.
struct ProgressSnapshot: Sendable {
    /// The total number.
    enum Total: Sendable {
        case exact(UInt64)
        case estimated(UInt64)

        var count: UInt64 {
            switch self {
            case .exact(let count), .estimated(let count): count
            }
        }
    }

    /// The current activity, if the name of the command does not show it.
    var activity: String?
    /// The completed count, including an earlier run.
    var count: UInt64 = 0
    /// The unit of the count, such as `rows`; `nil` if it is obvious.
    var unit: String?
    /// The count that is sent and not confirmed.
    var openCount: UInt64 = 0
    /// The total; `nil` if it is unknown.
    var total: Total?
    /// The completed part, 0 to 1; `nil` if it is unknown.
    var fraction: Double?
    var rejectedCount: UInt64 = 0
    var connection = ConnectionMonitor.State.connected
}

extension ProgressSnapshot {
    /// A count whose total is unknown.
    init(_ count: UInt64, _ unit: String) {
        self.count = count
        self.unit = unit
    }
}

extension ProgressSnapshot {
    /// The progress of a batch.
    init(
        _ progress: SendProgress,
        earlierCounts: OutcomeCounts,
        connection: ConnectionMonitor.State,
        isDryRun: Bool = false
    ) {
        let (settledCount, earlierCount) = (progress.outcomeCounts.total, earlierCounts.total)
        let settledHere = settledCount - min(earlierCount, settledCount)
        self.count = isDryRun ? progress.sentCount.saturating(adding: settledHere) : settledCount
        self.openCount = isDryRun ? 0 : progress.openCount
        self.rejectedCount = progress.outcomeCounts[.rejected]
        self.connection = isDryRun ? .connected : connection
        if progress.hasReadAll {
            let total = self.count.saturating(adding: isDryRun ? 0 : progress.openCount)
            self.total = .exact(total)
            self.fraction = total == 0 ? 1 : Double(self.count) / Double(total)
            return
        }
        guard let part = progress.fraction else { return }
        // Lines that are complete or in flight.
        let taken = max(progress.lineCount, self.count)
        guard part > 0, taken > 0 else { return }
        let share = isDryRun ? 1 : min(1, Double(self.count) / Double(taken))
        self.fraction = min(1, part * share)
        self.total = .estimated(max(self.count, UInt64(saturating: Double(progress.lineCount) / part)))
    }
}

extension UInt64 {
    /// Converts a number; values out of range become the nearest limit, and NaN becomes 0.
    init(saturating number: Double) {
        self = number >= 0x1p64 ? .max : number > 0 ? UInt64(number) : 0
    }

    /// The sum, or the maximum if it overflows.
    func saturating(adding other: UInt64) -> UInt64 {
        let (sum, overflows) = self.addingReportingOverflow(other)
        return overflows ? .max : sum
    }
}
