// SPDX-License-Identifier: Apache-2.0

import APNSWire
import GatewayService
import NIOConcurrencyHelpers
import TokenStore

extension TokenTableSummary {
    /// Why nothing was changed, and how to continue.
    var limitSentence: String {
        let report = self.report
        let share = Double(Int(Double(report.dueCount) / Double(max(1, report.candidateCount)) * 1000)) / 10
        return "\(report.dueCount.grouped) of \(report.candidateCount.grouped) eligible rows (\(share) %) would be "
            + "\(self.verb), the limit is \(report.dueCountMax.grouped); nothing was changed; check the list with "
            + "purge list, and if it is right, use a larger --max-fraction"
    }

    /// Why some eligible rows were not changed.
    var incompleteSentence: String {
        "more rows became eligible during the run than --max-fraction allows; run again for the rest"
    }

    /// Why the database refused to change some eligible rows.
    var refusedSentence: String {
        "the database refused to change \(self.report.refusedCount.counted("row")) because of a foreign key, another "
            + "constraint or a trigger; delete the rows that refer to them first, or use --action deactivate"
    }

    /// The progress of a run that was stopped.
    var interruptedSentence: String {
        let pruned = self.report.prunedCount
        let done =
            pruned == 0
            ? "before anything was changed"
            : "after \(pruned.counted("row")) \(pruned == 1 ? "was" : "were") \(self.verb)"
        return "Stopped early, \(done); to continue, run the same command again."
    }

    /// Records the counts for the summary for programs and the metrics file.
    func record(in environment: CommandEnvironment) {
        environment.summary.set(self.json)
        environment.setSamples([
            ("apns_legacy_purge_due_rows", self.report.dueCount),
            ("apns_legacy_purge_pruned_rows", self.report.prunedCount),
            ("apns_legacy_purge_limit_exceeded", self.report.ending == .limitExceeded ? 1 : 0),
        ])
    }
}
