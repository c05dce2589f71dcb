// SPDX-License-Identifier: Apache-2.0

import APNSWire
import BatchFiles
import TokenStore

/// The end of a run over a token table, for people and for programs.
struct PurgeApplySummary {
    var report: TokenTableReport
    var table: String
    var action: PurgeActionOptions.Action
    var seconds: Double

    private var verb: String { self.action == .delete ? "deleted" : "deactivated" }

    /// A few lines for people; the last is for the mail of a cron job.
    var text: String {
        let report = self.report
        var lines = ["Rows of \(self.table): \(report.rowCount.grouped)"]
        func add(_ count: Int, _ text: String) {
            if count > 0 { lines.append("  \(count.padded) \(text)") }
        }
        let countMax = report.dueCountMax
        lines.append("Rows that can go: \(report.candidateCount.grouped), at most \(countMax.grouped) at once")
        if !report.spellings.isEmpty { lines.append("Tokens: \(self.spellings)") }
        if !report.timeKinds.isEmpty { lines.append("Registrations: \(self.timeKinds)") }
        add(report.emptyCount, "have no token")
        add(report.unreadableTokenCount, "have something else than a token, kept" + rows(report.unreadableTokenRows))
        lines.append("Dead tokens in it: \(report.matchedCount.grouped)")
        add(report.registeredLaterCount, "registered at the failure or later, kept")
        add(report.graceCount, "failed within the grace, kept")
        add(report.unreadableTimeCount, "have no readable time, kept" + rows(report.unreadableTimeRows))
        add(report.inactiveCount, "are inactive already")
        add(report.dueCount, "are due")
        add(report.changedCount, "had changed when they were to go, kept")
        add(report.refusedCount, "the database did not let go, kept" + rows(report.refusedRows))
        if report.batchCount > 0 {
            let batches = report.batchCount.counted("batch", "batches")
            lines.append("\(batches), longest lock \(milliseconds(report.longestLock)) ms")
        }
        return (lines + [self.line]).joined(separator: "\n")
    }

    /// All in one line.
    private var line: String {
        let report = self.report
        let keptCount = report.matchedCount - report.prunedCount
        let outcome =
            switch report.ending {
            case .done, .grown, .stopped: "\(report.prunedCount.grouped) \(self.verb)"
            case .dryRun: "\(report.dueCount.grouped) would be \(self.verb) (dry run)"
            case .brake: "nothing changed, \(report.dueCount.grouped) are due (brake)"
            }
        let kept = report.ending == .dryRun ? report.matchedCount - report.dueCount : keptCount
        return "purge apply: \(self.table): \(report.rowCount.grouped) rows, \(report.matchedCount.grouped) dead, "
            + "\(outcome), \(kept.grouped) of the dead kept, "
            + "\((report.unreadableTokenCount + report.unreadableTimeCount).grouped) unreadable, "
            + "\(Double(Int(self.seconds * 100)) / 100) s"
    }

    /// Why nothing was changed, and how to go on.
    var brakeSentence: String {
        let report = self.report
        let share = Double(Int(Double(report.dueCount) / Double(max(1, report.candidateCount)) * 1000)) / 10
        return "\(report.dueCount.grouped) of \(report.candidateCount.grouped) rows that can go are due, which is "
            + "\(share) %, and --max-fraction lets \(report.dueCountMax.grouped) go; nothing was changed. If the "
            + "list is right (--dry-run counts, purge list shows it), run again with a larger --max-fraction."
    }

    /// Why not all that was due is gone.
    var grownSentence: String {
        "While \(self.report.prunedCount.grouped) rows went, more became due than --max-fraction lets go at once. "
            + "Run again."
    }

    /// Why some rows that were due are still there.
    var refusedSentence: String {
        "The database did not let \(self.report.refusedCount.counted("row")) go: a foreign key "
            + "without ON DELETE CASCADE, another constraint or a trigger holds them. Prune what refers to them first, "
            + "or use --action deactivate."
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

    /// One JSON object.
    var json: String {
        let report = self.report
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
        let spellings = DeviceTokenSpelling.allCases.compactMap { spelling in
            report.spellings[spelling].map { "\"\(spelling.name)\":\($0)" }
        }
        let kinds = RegistrationTimeKind.allCases.compactMap { kind in
            report.timeKinds[kind].map { "\"\(kind.name)\":\($0)" }
        }
        let fields =
            ["\"ending\":\"\(self.ending)\""] + counts.map { "\"\($0.0)\":\($0.1)" }
            + lists.map { "\"\($0.0)\":[\($0.1.map(String.init).joined(separator: ","))]" }
            + [
                "\"spellings\":{\(spellings.joined(separator: ","))}", "\"times\":{\(kinds.joined(separator: ","))}",
                "\"seconds\":\(Double(Int(self.seconds * 1000)) / 1000)",
            ]
        return "{" + fields.joined(separator: ",") + "}"
    }

    private var ending: String {
        switch self.report.ending {
        case .done: "done"
        case .dryRun: "dryRun"
        case .brake: "brake"
        case .grown: "grown"
        case .stopped: "stopped"
        }
    }
}

private func milliseconds(_ duration: Duration) -> Int { Int((duration / .milliseconds(1)).rounded(.up)) }

/// Names the first rows of a kind.
private func rows(_ numbers: [Int64]) -> String {
    numbers.isEmpty ? "" : " (first: row \(numbers.map(String.init).joined(separator: ", ")))"
}

/// What went to a database of another kind.
struct OtherDatabaseSummary {
    var tokenCount: Int
    var batchCount: Int
    var skippedCount: Int
    var verb: String

    /// One line for people, or two.
    var text: String {
        var text = "purge apply: \(self.tokenCount.counted("token")) \(self.verb) in "
        text += self.batchCount.counted("batch", "batches")
        if self.skippedCount > 0 {
            text += "; \(self.skippedCount.grouped) left out, since their topic has "
            text += "characters that no bundle identifier has"
        }
        return text
    }

    /// One JSON object.
    var json: String {
        "{\"tokens\":\(self.tokenCount),\"batches\":\(self.batchCount),\"skipped\":\(self.skippedCount)}"
    }
}
