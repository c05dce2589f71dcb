// SPDX-License-Identifier: Apache-2.0

import APNSWire
public import ArgumentParser
import PurgeList

/// `apns-legacy purge apply`: prunes a token table from the purge list.
public struct PurgeApplyCommand: ParsableCommand, Sendable {
    /// Name, help text and manual.
    public static let configuration = CommandConfiguration(
        commandName: "apply",
        abstract: "Prune a token table from the purge list.",
        discussion: PurgeApplyCommand.manual
    )

    @OptionGroup(title: "Which tokens")
    var entries: PurgeEntryOptions

    @OptionGroup(title: "Which table")
    var target: PurgeTableOptions

    @OptionGroup(title: "What to do")
    var change: PurgeActionOptions

    @OptionGroup(title: "Other databases")
    var elsewhere: PurgeElsewhereOptions

    /// Makes a command to be parsed.
    public init() {}

    /// Checks what goes together.
    ///
    /// - Throws: `ValidationError`.
    public func validate() throws {
        let targets = [self.target.database, self.elsewhere.sql?.rawValue, self.elsewhere.exec].compactMap { $0 }
        guard targets.count == 1 else { throw ValidationError("Say one of --database, --sql and --exec.") }
        guard self.target.topicColumn == nil || self.entries.topic.isEmpty && !self.entries.requireAllTopics else {
            throw ValidationError("Say --topic-column alone, without --topic and --require-all-topics.")
        }
        try self.validateElsewhere()
        guard self.elsewhere.exec == nil else { return try self.validateHook() }
        guard self.target.table != nil, self.target.tokenColumn != nil else {
            throw ValidationError("Say with --table and --token-column where the tokens are.")
        }
        guard self.registration != nil else {
            throw ValidationError(
                "Say with --registered-column when a device registered last: without it, one that registered after "
                    + "the failure would go. --created-column is the next best; --ignore-registration prunes blindly."
            )
        }
        if self.target.ignoreRegistration, self.change.grace != nil {
            throw ValidationError("--grace is counted from the registration, which --ignore-registration ignores.")
        }
        if self.elsewhere.sql == .ansi, self.elsewhere.registeredKind == nil, !self.target.ignoreRegistration {
            throw ValidationError(
                "--sql ansi needs --registered-kind seconds or milliseconds; or timestamp, where column and session "
                    + "are in UTC, since standard SQL cannot say so."
            )
        }
        if self.elsewhere.sql != nil, self.change.batch ?? 1 > PruneScript.batchTokenCountMax {
            throw ValidationError("With --sql, --batch is 1 to \(PruneScript.batchTokenCountMax).")
        }
    }

    /// A brake that does not brake would be worse than none.
    private func validateElsewhere() throws {
        guard self.target.database == nil else { return }
        guard self.change.maxFraction == nil else {
            throw ValidationError("--max-fraction is for --database only: elsewhere, the rows are not counted.")
        }
        guard self.change.lockWait == nil else { throw ValidationError("--lock-wait is for --database only.") }
    }

    private func validateHook() throws {
        guard self.change.grace == nil else {
            throw ValidationError("--exec knows no registration, so that it cannot count --grace from there.")
        }
        let table = [self.target.table, self.target.tokenColumn, self.target.topicColumn, self.change.activeColumn]
        guard table.allSatisfy({ $0 == nil }), self.target.registeredColumn == nil, self.target.createdColumn == nil
        else { throw ValidationError("--exec knows no table: the command compares failedAt with the registration.") }
    }

    /// Prunes.
    public func run() throws {
        try CommandFailure.ending("purge apply") { try self.apply() }
    }

    private func apply() throws -> ExitStatus {
        let list = try PurgeList(path: self.entries.purgeList, isMade: false)
        if let dialect = self.elsewhere.sql { return try self.write(list, dialect) }
        if let command = self.elsewhere.exec { return try self.hand(list, to: command) }
        return try self.prune(list)
    }

    // MARK: SQLite

    private func prune(_ list: PurgeList) throws -> ExitStatus {
        var application = TokenTableApplication(
            path: self.target.database ?? "",
            table: self.target.table ?? "",
            tokenColumn: self.target.tokenColumn ?? "",
            rules: self.rules
        )
        application.fractionMax = self.change.maxFraction ?? application.fractionMax
        application.batchRowCountMax = self.change.batch ?? application.batchRowCountMax
        application.isDryRun = self.change.dryRun
        if let wait = self.change.lockWait { application.lockWait = .seconds(wait.seconds) }
        self.warn()
        let start = ContinuousClock.now
        let report = try application.run(list) { self.warnOfZones($0) }
        if report.matchedCount == 0 { try self.warnOfScope(list) }
        let summary = PurgeApplySummary(
            report: report,
            table: application.table,
            action: self.change.action,
            seconds: (ContinuousClock.now - start) / .seconds(1)
        )
        if !self.change.quiet || ![.done, .dryRun].contains(report.ending) || report.refusedCount > 0 {
            print(self.change.output == .json ? summary.json : summary.text)
        }
        switch report.ending {
        case .done, .dryRun:
            guard report.refusedCount > 0 else { return .success }
            Console.say("apns-legacy purge apply: \(summary.refusedSentence)")
            return .someRefused
        case .brake:
            Console.say("apns-legacy purge apply: \(summary.brakeSentence)")
            return .brake
        case .grown:
            Console.say("apns-legacy purge apply: \(summary.grownSentence)")
            return .tryAgain
        case .stopped(let error): throw error
        }
    }

    /// Says where the list has nothing that could be meant, so that a slip of the pen is not taken for good news.
    private func warnOfScope(_ list: PurgeList) throws {
        let (rules, scopes) = (self.rules, try list.knownScopes())
        let isMeant =
            if case .one(let topic) = rules.topic {
                scopes.contains(PurgeScope(topic: topic, environment: rules.environment))
            } else {
                scopes.contains { $0.environment == rules.environment }
            }
        guard !scopes.isEmpty, !isMeant else { return }
        let found = scopes.prefix(5).map { "\($0.topic) (\($0.environment.rawValue))" }.joined(separator: ", ")
        Console.say(
            "Warning: the purge list has nothing for \(self.entries.topic.first ?? "any topic") "
                + "(\(rules.environment.rawValue)); it has \(found)\(scopes.count > 5 ? " and more" : ""). "
                + "Are --topic and --environment right?"
        )
    }

    private func warnOfZones(_ report: TokenTableReport) {
        guard report.zoneDueCount > 0 else { return }
        let count = SendSummary.counted(UInt64(report.zoneDueCount), "due row")
        Console.say(
            "Warning: \(count) registered less than 14 hours before the failure, at a time without a zone, which is "
                + "taken as UTC. If the application writes local time, they may have registered after it: use "
                + "--grace 14h, or write UTC."
        )
    }

    private func warn() {
        if case .created(let column) = self.rules.registration {
            Console.say(
                "Warning: \(column) says when a row was made. A device that registered again since then looks as if it "
                    + "had not; where the application sets a column whenever it registers, give that."
            )
        }
        if self.elsewhere.sql == .ansi, self.elsewhere.registeredKind == .timestamp {
            Console.say(
                "Warning: the statements compare timestamps without a zone, so that the column and the session in "
                    + "which they run must be in UTC."
            )
        }
        if self.rules.registration == .ignored {
            Console.say("Warning: devices that registered after their failure go too.")
        }
    }

    // MARK: Other databases

    private func write(_ list: PurgeList, _ dialect: SQLDialect) throws -> ExitStatus {
        var script = PruneScript(
            dialect: dialect,
            table: self.target.table ?? "",
            tokenColumn: self.target.tokenColumn ?? "",
            rules: self.rules
        )
        script.literal = self.elsewhere.tokenSpelling ?? script.literal
        script.clock = self.elsewhere.registeredKind ?? script.clock
        script.inactiveValue = self.elsewhere.inactiveValue
        script.batchTokenCount = self.change.batch ?? script.batchTokenCount
        self.warn()
        // Opened, and thus emptied, only when the rules were found good.
        var file: OutputFile?
        func open() throws -> OutputFile {
            let opened = try file ?? OutputFile(path: self.elsewhere.sqlFile ?? "-")
            file = opened
            return opened
        }
        let counts = try script.write(list) { text in
            guard !self.change.dryRun else { return }
            var text = text
            try text.withUTF8 { try open().append(UnsafeRawBufferPointer($0)) }
        }
        if !self.change.dryRun { try open().synchronize() }
        if counts.tokenCount + counts.skippedCount == 0 { try self.warnOfScope(list) }
        let summary = PurgeElsewhereSummary(
            tokenCount: counts.tokenCount,
            batchCount: counts.batchCount,
            skippedCount: counts.skippedCount,
            verb: self.change.dryRun ? "would be written" : "written"
        )
        if self.change.quiet { return .success }
        let text = self.change.output == .json ? summary.json : summary.text
        // The statements have standard output to themselves.
        if self.elsewhere.sqlFile == nil, !self.change.dryRun { Console.say(text) } else { print(text) }
        return .success
    }

    private func hand(_ list: PurgeList, to command: String) throws -> ExitStatus {
        var hook = try PurgeHook(
            command,
            list: list.path,
            deadline: self.elsewhere.execDeadline.map { .seconds($0.seconds) },
            isDryRun: self.change.dryRun
        )
        hook.batchTokenCount = self.change.batch ?? hook.batchTokenCount
        do {
            try list.deadTokens(self.rules) { try hook.append($0) }
            try hook.finish()
        } catch let failure as PurgeHook.Failure {
            Console.say("apns-legacy purge apply: \(failure)")
            print(self.change.output == .json ? hook.summary.json : hook.summary.text)
            return .tryAgain
        }
        if hook.tokenCount == 0 { try self.warnOfScope(list) }
        if !self.change.quiet { print(self.change.output == .json ? hook.summary.json : hook.summary.text) }
        return .success
    }

    // MARK: Rules

    private var registration: TokenTableRules.Registration? {
        if let column = self.target.registeredColumn { return .registered(column: column) }
        if let column = self.target.createdColumn { return .created(column: column) }
        return self.target.ignoreRegistration ? .ignored : nil
    }

    private var rules: TokenTableRules {
        var rules = TokenTableRules(
            registration: self.registration ?? .ignored,
            environment: self.entries.environment,
            graceSecondCount: self.change.grace?.seconds ?? 0
        )
        if let topic = self.entries.topic.first { rules.topic = .one(topic) }
        if let column = self.target.topicColumn { rules.topic = .column(column) }
        // A hook gets the topic of each token, so that all may come.
        if self.elsewhere.exec != nil, self.entries.topic.isEmpty { rules.topic = .column("") }
        if self.entries.requireAllTopics { rules.topic = .everyTopic(of: self.entries.topic) }
        if let column = self.change.activeColumn { rules.action = .deactivate(column: column) }
        return rules
    }

    private static let manual = """
        A row goes only where its token failed later than its device registered last, by --grace or more. What cannot \
        be read, a token or a time, is kept and counted. All rows are counted first; where more than --max-fraction \
        of those that can go would, nothing changes. Then rows go in short transactions, each of which makes sure \
        that its rows are still as they were read, so the application can go on meanwhile, and a run that is stopped \
        can be repeated.

        Tokens may be hexadecimal of either case, spaced, <...>, base64 or BLOB; times may be seconds or milliseconds \
        since 1970, Julian days or ISO 8601, without a zone in UTC. Rows may mix them; the report says what was found.

        --sql writes statements for other databases; --exec hands each batch to a command as JSON lines, \
        {"token":..., "topic":..., "environment":..., "failedAt": seconds}.

        Exit codes: 0 done, also when nothing was due; 1 the database did not let some rows go; 64 usage, also a \
        table or column that is not there; 65 the database or list cannot be used; 66 there is no such file; 70 a \
        fault in this program; 73, 74 a file cannot be made or written; 75 a lock or --exec got in the way, run \
        again; 79 more than --max-fraction is due, and nothing was changed.
        """
}
