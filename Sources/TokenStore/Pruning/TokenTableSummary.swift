// SPDX-License-Identifier: Apache-2.0

package import APNSJSON
package import APNSWire

/// The report of a run over a token table, as text and as JSON.
package struct TokenTableSummary {
    package let report: TokenTableReport
    private let table: String
    private let isDeletion: Bool
    private let seconds: Double

    /// Describes the report of a run that took some seconds.
    package init(_ report: TokenTableReport, of application: TokenTableApplication, seconds: Double) {
        self.report = report
        self.table = application.table
        self.isDeletion = application.rules.action == .delete
        self.seconds = seconds
    }

    /// What happened to the rows, as a participle.
    package var verb: String { self.isDeletion ? "deleted" : "deactivated" }

    /// The summary as text; its last line also suits the mail of a cron job.
    package var text: String {
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
        add(report.dueCount, "to \(self.isDeletion ? "delete" : "deactivate")")
        add(report.uncertainCount, "perhaps \(self.verb): the connection was lost during their commit")
        add(report.changedCount, "kept: changed meanwhile")
        add(report.refusedCount, "kept: the database refused", rows: report.refusedRows)
        if report.batchCount > 0 {
            let batches = report.batchCount.counted("batch", "batches")
            lines.append("\(batches), longest lock \(self.longestLockMilliseconds) ms")
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

    private var longestLockMilliseconds: Int { Int((self.report.longestLock / .milliseconds(1)).rounded(.up)) }

    /// All counts, as a JSON object.
    package var json: JSONObject {
        let report = self.report
        let counts = [
            ("rows", report.rowCount), ("candidates", report.candidateCount), ("withoutToken", report.emptyCount),
            ("unreadableTokens", report.unreadableTokenCount), ("matched", report.matchedCount),
            ("registeredLater", report.registeredLaterCount), ("grace", report.graceCount),
            ("unreadableTimes", report.unreadableTimeCount), ("inactiveAlready", report.inactiveCount),
            ("due", report.dueCount), ("dueByZone", report.zoneDueCount), ("dueMax", report.dueCountMax),
            ("pruned", report.prunedCount), ("uncertain", report.uncertainCount),
            ("changedMeanwhile", report.changedCount), ("refused", report.refusedCount),
            ("batches", report.batchCount), ("longestLockMilliseconds", self.longestLockMilliseconds),
        ]
        let lists = [
            ("unreadableTokenRows", report.unreadableTokenRows), ("unreadableTimeRows", report.unreadableTimeRows),
            ("refusedRows", report.refusedRows),
        ]
        return JSONObject { object in
            object.add("ending", self.ending)
            for (name, count) in counts { object.add(name, count) }
            for (name, rows) in lists { object.add(name, elements: rows.map(String.init)) }
            let spellings = DeviceTokenSpelling.allCases
            object.add("spellings", JSONObject { for each in spellings { $0.add(each.name, report.spellings[each]) } })
            let kinds = RegistrationTimeKind.allCases
            object.add("times", JSONObject { for each in kinds { $0.add(each.name, report.timeKinds[each]) } })
            object.add("seconds", json: "\(Double(Int(self.seconds * 1000)) / 1000)")
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

extension TokenTableRules {
    /// Whether the rules apply to entries of one of these topics and environments.
    package func concern(_ scopes: [TokenScope]) -> Bool {
        if case .one(let topic) = self.topic {
            return scopes.contains(TokenScope(topic: topic, environment: self.environment))
        }
        return scopes.contains { $0.environment == self.environment }
    }
}
