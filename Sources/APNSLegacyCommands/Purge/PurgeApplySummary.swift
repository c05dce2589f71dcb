// SPDX-License-Identifier: Apache-2.0

import APNSWire
import Batch
import GatewayService
import APNSJSON
import NIOConcurrencyHelpers
import TokenStore

/// The summary of a run over a token table, as text and as JSON.
struct PurgeApplySummary {
    var report: TokenTableReport
    var table: String
    var action: PurgeActionOptions.Action
    var seconds: Double

    private var verb: String { self.action == .delete ? "deleted" : "deactivated" }

    /// The summary as text; its last line also suits the mail of a cron job.
    var text: String {
        let report = self.report
        var lines = ["Rows of \(self.table): \(report.rowCount.grouped)"]
        func add(_ count: Int, _ text: String, rows: [Int64] = []) {
            guard count > 0 else { return }
            let first = rows.isEmpty ? "" : " (first: row \(rows.map(String.init).joined(separator: ", ")))"
            lines.append("  \(count.padded) \(count == 1 ? "row" : "rows") \(text)\(first)")
        }
        let countMax = report.dueCountMax
        lines.append("Eligible rows: \(report.candidateCount.grouped) (limit: \(countMax.grouped))")
        if !report.spellings.isEmpty { lines.append("Token formats: \(self.spellings)") }
        if !report.timeKinds.isEmpty { lines.append("Time formats: \(self.timeKinds)") }
        add(report.emptyCount, "kept: no token")
        add(report.unreadableTokenCount, "kept: not a device token", rows: report.unreadableTokenRows)
        lines.append("Rows with a dead token: \(report.matchedCount.grouped)")
        add(report.registeredLaterCount, "kept: registered at the time of the failure or later")
        add(report.graceCount, "kept: failed within --grace of the registration")
        add(report.unreadableTimeCount, "kept: the registration time is not valid", rows: report.unreadableTimeRows)
        add(report.inactiveCount, "kept: inactive already")
        add(report.dueCount, "to \(self.action == .delete ? "delete" : "deactivate")")
        add(report.changedCount, "kept: changed meanwhile")
        add(report.refusedCount, "kept: the database refused", rows: report.refusedRows)
        if report.batchCount > 0 {
            let batches = report.batchCount.counted("batch", "batches")
            lines.append("\(batches), longest lock \(milliseconds(report.longestLock)) ms")
        }
        return (lines + [self.line]).joined(separator: "\n")
    }

    /// Everything in one line.
    private var line: String {
        let report = self.report
        let keptCount = report.matchedCount - report.prunedCount
        let outcome =
            switch report.ending {
            case .done, .grown, .interrupted, .stopped: "\(report.prunedCount.grouped) \(self.verb)"
            case .dryRun: "\(report.dueCount.grouped) would be \(self.verb) (dry run)"
            case .limitExceeded: "nothing changed, \(report.dueCount.grouped) over the limit"
            }
        let kept = report.ending == .dryRun ? report.matchedCount - report.dueCount : keptCount
        return "purge apply: \(self.table): \(report.rowCount.grouped) rows, \(report.matchedCount.grouped) dead, "
            + "\(outcome), \(kept.grouped) kept, "
            + "\((report.unreadableTokenCount + report.unreadableTimeCount).grouped) not valid, "
            + "\(Double(Int(self.seconds * 100)) / 100) s"
    }

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

    private var spellings: String {
        DeviceTokenSpelling.allCases.compactMap { spelling in
            self.report.spellings[spelling].map { "\($0.grouped) \(spelling.name)" }
        }.joined(separator: ", ")
    }

    private var timeKinds: String {
        RegistrationTimeKind.allCases.compactMap { kind in
            self.report.timeKinds[kind].map { "\($0.grouped) \(kind.name)" }
        }.joined(separator: ", ")
    }

    /// Records the counts for the summary for programs and the metrics file.
    func record(in environment: CommandEnvironment) {
        let (report, summary) = (self.report, environment.summary)
        let counts = [
            ("rows", report.rowCount), ("candidates", report.candidateCount), ("withoutToken", report.emptyCount),
            ("unreadableTokens", report.unreadableTokenCount), ("matched", report.matchedCount),
            ("registeredLater", report.registeredLaterCount), ("grace", report.graceCount),
            ("unreadableTimes", report.unreadableTimeCount), ("inactiveAlready", report.inactiveCount),
            ("due", report.dueCount), ("dueByZone", report.zoneDueCount), ("dueMax", report.dueCountMax),
            ("pruned", report.prunedCount),
            ("changedMeanwhile", report.changedCount), ("refused", report.refusedCount),
            ("batches", report.batchCount), ("longestLockMilliseconds", milliseconds(report.longestLock)),
        ]
        let lists = [
            ("unreadableTokenRows", report.unreadableTokenRows), ("unreadableTimeRows", report.unreadableTimeRows),
            ("refusedRows", report.refusedRows),
        ]
        let spellings = DeviceTokenSpelling.allCases
        let kinds = RegistrationTimeKind.allCases
        summary.set("ending", self.ending)
        for (name, count) in counts { summary.set(name, count) }
        for (name, rows) in lists { summary.set(name, json: "[\(rows.map(String.init).joined(separator: ","))]") }
        let spellingCounts = JSONObject { for each in spellings { $0.add(each.name, report.spellings[each]) } }
        summary.set("spellings", json: spellingCounts.text)
        let timeCounts = JSONObject { for each in kinds { $0.add(each.name, report.timeKinds[each]) } }
        summary.set("times", json: timeCounts.text)
        summary.set("seconds", json: "\(Double(Int(self.seconds * 1000)) / 1000)")
        let isLimitExceeded = report.ending == .limitExceeded
        environment.samples.withLockedValue {
            $0 = [
                GatewayMetrics.Sample(name: "apns_legacy_purge_due_rows", value: Double(report.dueCount)),
                GatewayMetrics.Sample(name: "apns_legacy_purge_pruned_rows", value: Double(report.prunedCount)),
                GatewayMetrics.Sample(name: "apns_legacy_purge_limit_exceeded", value: isLimitExceeded ? 1 : 0),
            ]
        }
    }

    private var ending: String {
        switch self.report.ending {
        case .done: "done"
        case .dryRun: "dryRun"
        case .limitExceeded: "limitExceeded"
        case .grown: "grown"
        case .interrupted: "interrupted"
        case .stopped: "stopped"
        }
    }
}

private func milliseconds(_ duration: Duration) -> Int { Int((duration / .milliseconds(1)).rounded(.up)) }
