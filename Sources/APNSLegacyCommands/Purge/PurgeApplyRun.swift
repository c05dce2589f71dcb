// SPDX-License-Identifier: Apache-2.0

import APNSWire
import Batch
import Glibc
import NIOConcurrencyHelpers
import TokenStore

/// One run of `apns-legacy purge apply`.
struct PurgeApplyRun {
    private let command: PurgeApplyCommand
    private let environment: CommandEnvironment
    private var console: Console { self.environment.console }

    init(_ command: PurgeApplyCommand, _ environment: CommandEnvironment) {
        self.command = command
        self.environment = environment
    }

    func run() async throws -> ExitStatus {
        let list = try PurgeList(path: self.command.entries.purgeList, isMade: false)
        try self.console.warn(of: list)
        if let dialect = self.command.other.sql { return try await self.write(list, dialect) }
        if let command = self.command.other.exec { return try await self.send(list, to: command) }
        return try await self.prune(list)
    }

    // MARK: SQLite

    private func prune(_ list: PurgeList) async throws -> ExitStatus {
        var application = TokenTableApplication(
            path: self.command.target.database ?? "",
            table: self.command.target.table ?? "",
            tokenColumn: self.command.target.tokenColumn ?? "",
            rules: self.command.rules
        )
        application.fractionMax = self.command.change.maxFraction ?? application.fractionMax
        application.batchRowCountMax = self.command.change.batch ?? application.batchRowCountMax
        application.isDryRun = self.command.change.dryRun
        if let wait = self.command.change.lockWait { application.lockTimeout = .seconds(wait.seconds) }
        self.warnOfRules()
        let start = ContinuousClock.now
        let report = try await self.run(application, list)
        if report.matchedCount == 0 { try self.warnAboutScope(list) }
        let seconds = (ContinuousClock.now - start) / .seconds(1)
        let summary = TokenTableSummary(report, of: application, seconds: seconds)
        if !self.command.change.quiet || ![.done, .dryRun].contains(report.ending) || report.refusedCount > 0 {
            self.environment.reportLine(summary.text)
        }
        summary.record(in: self.environment)
        switch report.ending {
        case .done, .dryRun:
            guard report.refusedCount > 0 else { return .success }
            self.console.emit(.error(summary.refusedSentence, .someRefused))
            return .someRefused
        case .limitExceeded:
            self.console.emit(.error(summary.limitSentence, .limitExceeded))
            return .limitExceeded
        case .grown:
            self.console.emit(.error(summary.incompleteSentence, .tryAgain))
            return .tryAgain
        case .interrupted:
            self.console.emit(Diagnostic(.warning, summary.interruptedSentence))
            return .tryAgain
        case .stopped(let error): throw error
        }
    }

    /// Prunes until everything is done or a signal arrives.
    private func run(_ application: TokenTableApplication, _ list: PurgeList) async throws -> TokenTableReport {
        let progress = NIOLockedValueBox(TokenTableProgress())
        let display = self.display { progress.withLockedValue { Self.snapshot($0) } }
        defer { display?.end() }
        let reaction = StopReaction(
            first: "Stopping after this batch of rows; a second signal stops at once.",
            last: "stopped at once; run the same command again"
        )
        return try await self.environment.stoppable(reaction) { [stops = self.environment.stops] in
            try await self.environment.blocking {
                try application.run(list) { report in
                    self.warnOfZones(report)
                } onProgress: { current in
                    progress.withLockedValue { $0 = current }
                    return stops.count == 0
                }
            }
        }
    }

    private func display(_ snapshot: @escaping @Sendable () -> ProgressSnapshot) -> ProgressDisplay? {
        self.command.change.quiet ? nil : ProgressDisplay(self.environment, snapshot)
    }

    /// Shows a count whose total is unknown.
    private func display(_ unit: String, _ count: NIOLockedValueBox<UInt64>) -> ProgressDisplay? {
        self.display { ProgressSnapshot(count.withLockedValue { $0 }, unit) }
    }

    private static func snapshot(_ progress: TokenTableProgress) -> ProgressSnapshot {
        var snapshot = ProgressSnapshot()
        snapshot.unit = "rows"
        guard let dueCount = progress.dueCount else {
            snapshot.activity = "counting"
            snapshot.count = UInt64(progress.rowCount)
            return snapshot
        }
        snapshot.activity = "pruning"
        snapshot.count = UInt64(progress.prunedCount)
        snapshot.total = .exact(UInt64(max(dueCount, progress.prunedCount)))
        snapshot.fraction = Double(progress.prunedCount) / Double(max(1, dueCount))
        return snapshot
    }

    /// Warns if the list has no tokens for the options; otherwise, a wrong option would look like a clean table.
    private func warnAboutScope(_ list: PurgeList) throws {
        let (rules, scopes) = (self.command.rules, try list.knownScopes())
        guard !scopes.isEmpty, !rules.concern(scopes) else { return }
        let found = scopes.prefix(5).map { "\($0.topic) (\($0.environment.rawValue))" }.joined(separator: ", ")
        self.warn(
            "the purge list has no tokens for \(self.command.entries.topic.first ?? "any topic") "
                + "(\(rules.environment.rawValue)); it has \(found)\(scopes.count > 5 ? " and more" : ""). "
                + "Check --topic and --environment."
        )
    }

    private func warnOfZones(_ report: TokenTableReport) {
        guard report.zoneDueCount > 0 else { return }
        let count = report.zoneDueCount.counted("due row")
        self.warn(
            "\(count) registered less than 14 hours before the failure, at a time without a time zone, "
                + "which is read as UTC. If your application writes local time, they may have registered after the "
                + "failure: use --grace 14h."
        )
    }

    private func warn(_ sentence: String) { self.console.emit(.warning(sentence)) }

    /// Warns of options with which living tokens may be pruned.
    private func warnOfRules() {
        if case .created(let column) = self.command.rules.registration {
            self.warn(
                "\(column) is the time when a row was created. A device that registered again later looks dead. If "
                    + "another column is set at each registration, use --registered-column."
            )
        }
        if self.command.other.sql == .ansi, self.command.other.registeredKind == .timestamp {
            self.warn(
                "the statements compare timestamps without a time zone. The column, and the session that runs them, "
                    + "must use UTC."
            )
        }
        if self.command.rules.registration == .ignored {
            self.warn("devices that registered after the failure are also pruned.")
        }
    }

    // MARK: Other databases

    private func write(_ list: PurgeList, _ dialect: SQLDialect) async throws -> ExitStatus {
        var script = PruneScript(
            dialect: dialect,
            table: self.command.target.table ?? "",
            tokenColumn: self.command.target.tokenColumn ?? "",
            rules: self.command.rules
        )
        script.literal = self.command.other.tokenSpelling ?? script.literal
        script.clock = self.command.other.registeredKind ?? script.clock
        script.inactiveValue = self.command.other.inactiveValue
        script.batchTokenCount = self.command.change.batch ?? script.batchTokenCount
        self.warnOfRules()
        let isDryRun = self.command.change.dryRun
        let counts = try await self.write(script, list, isDryRun: isDryRun)
        if counts.tokenCount + counts.skippedCount == 0 { try self.warnAboutScope(list) }
        let text = self.summary(
            counts.tokenCount,
            counts.batchCount,
            isDryRun ? "to write" : "written",
            counts.skippedCount
        )
        if self.command.change.quiet { return .success }
        // Standard output contains the statements.
        if self.command.other.sqlFile == nil, !isDryRun {
            self.console.emit(text)
        } else {
            self.environment.reportLine(text)
        }
        return .success
    }

    /// Writes the statements until everything is written or a signal arrives.
    private func write(_ script: PruneScript, _ list: PurgeList, isDryRun: Bool) async throws -> PruneScript.Counts {
        let batchCount = NIOLockedValueBox<UInt64>(0)
        let display = self.display("batches", batchCount)
        defer { display?.end() }
        let path = isDryRun ? nil : self.command.other.sqlFile
        let reaction = StopReaction(
            first: "Stopping after this batch of statements; a second signal stops at once.",
            last: "stopped at once; the last statement may be incomplete; run the same command again"
        )
        return try await self.environment.stoppable(reaction) { [stops = self.environment.stops] in
            try await self.environment.blocking {
                // Opening the file empties it, so the rules are checked first.
                var file: OutputFile?
                func open(_ path: String) throws -> OutputFile {
                    let opened = try file ?? OutputFile(path: path)
                    file = opened
                    return opened
                }
                let counts = try script.write(list) { text in
                    guard stops.count == 0 else { throw self.stopped(after: batchCount.withLockedValue { $0 }) }
                    if !isDryRun {
                        if let path { try open(path).append(text) } else { try self.console.write(text) }
                    }
                    batchCount.withLockedValue { $0 += 1 }
                }
                if let path { try open(path).synchronize() }
                return counts
            }
        }
    }

    private func stopped(after batchCount: UInt64) -> CommandFailure {
        let count = batchCount.counted("batch", "batches")
        let what = self.command.change.dryRun ? "counted" : "written"
        return CommandFailure(.tryAgain, "stopped by a signal after \(count) \(what); run the same command again")
    }

    private func send(_ list: PurgeList, to command: String) async throws -> ExitStatus {
        let lock = self.command.change.dryRun ? nil : try PurgeHook.lock(list: list.path)
        if lock != nil {
            let requests = self.environment.stopRequests(Self.stopSignals)
            Task {
                for await number in requests {
                    let isFirst = number == 1
                    self.console.briefly { console in
                        console.emit(
                            isFirst
                                ? "Stopping: the command gets the signal; a second signal kills it."
                                : "Stopping at once: killing the command."
                        )
                    }
                }
            }
        }
        var hook = PurgeHook(
            command,
            deadline: self.command.other.execDeadline.map { .seconds($0.seconds) },
            lock: lock,
            signals: self.environment.stops
        )
        let tokenCount = NIOLockedValueBox<UInt64>(0)
        let display = self.display("tokens", tokenCount)
        defer { display?.end() }
        var reader = try DeadTokenReader(list, self.command.rules)
        let tokenCountMax = self.command.change.batch ?? PurgeHook.pageTokenCountDefault
        do {
            while case let page = try reader.next(tokenCountMax), !page.isEmpty {
                try await hook.run(page)
                tokenCount.withLockedValue { $0 = UInt64(hook.tokenCount) }
            }
        } catch let failure as PurgeHook.Failure {
            self.console.emit(.error("\(failure)", .tryAgain))
            self.report(hook, isQuiet: false)
            return .tryAgain
        }
        if hook.tokenCount == 0 { try self.warnAboutScope(list) }
        self.report(hook, isQuiet: self.command.change.quiet)
        return .success
    }

    /// The signals that stop the command, besides SIGINT and SIGTERM; under `nohup`, SIGHUP is ignored.
    private static var stopSignals: [CInt] { [SIGHUP].filter { !ProcessSignals.hasHandler($0, SIG_IGN) } }

    private func report(_ hook: PurgeHook, isQuiet: Bool) {
        let verb = self.command.change.dryRun ? "to pass to the command" : "passed to the command"
        let text = self.summary(hook.tokenCount, hook.batchCount, verb)
        if !isQuiet { self.environment.reportLine(text) }
    }

    /// The summary for another database, as text, and for programs.
    private func summary(_ tokenCount: Int, _ batchCount: Int, _ verb: String, _ skippedCount: Int = 0) -> String {
        self.environment.summary.set("tokens", tokenCount)
        self.environment.summary.set("batches", batchCount)
        self.environment.summary.set("skipped", skippedCount)
        let batches = batchCount.counted("batch", "batches")
        let skipped = "; \(skippedCount.grouped) skipped: the topic is not a valid bundle identifier"
        return "purge apply: \(tokenCount.counted("token")) \(verb) in \(batches)\(skippedCount > 0 ? skipped : "")"
    }
}
