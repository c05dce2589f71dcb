// SPDX-License-Identifier: Apache-2.0

import APNSWire
import BatchFiles
import Glibc
import TokenStore
import UnixSignals

/// One run of `apns-legacy purge apply`.
struct PurgeApplyRun {
    private let command: PurgeApplyCommand
    private let environment: CommandEnvironment
    private let onReport: @Sendable (TokenTableReport) -> Void
    private var console: Console { self.environment.console }

    /// - Parameters:
    ///   - command: what is asked for.
    ///   - environment: what the command has from its process.
    ///   - onReport: is told what became of the rows of a table.
    init(
        _ command: PurgeApplyCommand,
        _ environment: CommandEnvironment,
        onReport: @escaping @Sendable (TokenTableReport) -> Void = { _ in }
    ) {
        self.onReport = onReport
        self.command = command
        self.environment = environment
    }

    func run() async throws -> ExitStatus {
        let list = try PurgeList(path: self.command.entries.purgeList, isMade: false)
        if let dialect = self.command.other.sql { return try self.write(list, dialect) }
        if let command = self.command.other.exec { return try await self.hand(list, to: command) }
        return try self.prune(list)
    }

    // MARK: SQLite

    private func prune(_ list: PurgeList) throws -> ExitStatus {
        var application = TokenTableApplication(
            path: self.command.target.database ?? "",
            table: self.command.target.table ?? "",
            tokenColumn: self.command.target.tokenColumn ?? "",
            rules: self.command.rules
        )
        application.fractionMax = self.command.change.maxFraction ?? application.fractionMax
        application.batchRowCountMax = self.command.change.batch ?? application.batchRowCountMax
        application.isDryRun = self.command.change.dryRun
        if let wait = self.command.change.lockWait { application.lockWait = .seconds(wait.seconds) }
        self.warn()
        let start = ContinuousClock.now
        let report = try application.run(list) { self.warnOfZones($0) }
        self.onReport(report)
        if report.matchedCount == 0 { try self.warnOfScope(list) }
        let summary = PurgeApplySummary(
            report: report,
            table: application.table,
            action: self.command.change.action,
            seconds: (ContinuousClock.now - start) / .seconds(1)
        )
        if !self.command.change.quiet || ![.done, .dryRun].contains(report.ending) || report.refusedCount > 0 {
            self.environment.reportLine(summary.text)
        }
        self.environment.summary.set(object: summary.json)
        switch report.ending {
        case .done, .dryRun:
            guard report.refusedCount > 0 else { return .success }
            self.console.say("apns-legacy purge apply: \(summary.refusedSentence)")
            return .someRefused
        case .brake:
            self.console.say("apns-legacy purge apply: \(summary.brakeSentence)")
            return .brake
        case .grown:
            self.console.say("apns-legacy purge apply: \(summary.grownSentence)")
            return .tryAgain
        case .stopped(let error): throw error
        }
    }

    /// Says where the list has nothing that could be meant, so that a wrong option is not taken for good news.
    private func warnOfScope(_ list: PurgeList) throws {
        let (rules, scopes) = (self.command.rules, try list.knownScopes())
        let isMeant =
            if case .one(let topic) = rules.topic {
                scopes.contains(TokenScope(topic: topic, environment: rules.environment))
            } else {
                scopes.contains { $0.environment == rules.environment }
            }
        guard !scopes.isEmpty, !isMeant else { return }
        let found = scopes.prefix(5).map { "\($0.topic) (\($0.environment.rawValue))" }.joined(separator: ", ")
        self.console.say(
            "Warning: the purge list has nothing for \(self.command.entries.topic.first ?? "any topic") "
                + "(\(rules.environment.rawValue)); it has \(found)\(scopes.count > 5 ? " and more" : ""). "
                + "Are --topic and --environment right?"
        )
    }

    private func warnOfZones(_ report: TokenTableReport) {
        guard report.zoneDueCount > 0 else { return }
        let count = report.zoneDueCount.counted("due row")
        self.console.say(
            "Warning: \(count) registered less than 14 hours before the failure, at a time without a zone, which is "
                + "taken as UTC. If the application writes local time, they may have registered after it: use "
                + "--grace 14h, or write UTC."
        )
    }

    private func warn() {
        if case .created(let column) = self.command.rules.registration {
            self.console.say(
                "Warning: \(column) says when a row was made. A device that registered again since then looks as if it "
                    + "had not; where the application sets a column whenever it registers, give that."
            )
        }
        if self.command.other.sql == .ansi, self.command.other.registeredKind == .timestamp {
            self.console.say(
                "Warning: the statements compare timestamps without a zone, so that the column and the session in "
                    + "which they run must be in UTC."
            )
        }
        if self.command.rules.registration == .ignored {
            self.console.say("Warning: devices that registered after their failure go too.")
        }
    }

    // MARK: Other databases

    private func write(_ list: PurgeList, _ dialect: SQLDialect) throws -> ExitStatus {
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
        self.warn()
        let isDryRun = self.command.change.dryRun
        // Opened, and thus emptied, only when the rules were found good.
        var file: OutputFile?
        func open(_ path: String) throws -> OutputFile {
            let opened = try file ?? OutputFile(path: path)
            file = opened
            return opened
        }
        let counts = try script.write(list) { text in
            guard !isDryRun else { return }
            guard let path = self.command.other.sqlFile else { return try self.console.write(text) }
            try open(path).append(text)
        }
        if !isDryRun, let path = self.command.other.sqlFile { try open(path).synchronize() }
        if counts.tokenCount + counts.skippedCount == 0 { try self.warnOfScope(list) }
        let summary = OtherDatabaseSummary(
            tokenCount: counts.tokenCount,
            batchCount: counts.batchCount,
            skippedCount: counts.skippedCount,
            verb: isDryRun ? "would be written" : "written"
        )
        self.environment.summary.set(object: summary.json)
        if self.command.change.quiet { return .success }
        // The statements have standard output to themselves.
        if self.command.other.sqlFile == nil, !isDryRun {
            self.console.say(summary.text)
        } else {
            self.environment.reportLine(summary.text)
        }
        return .success
    }

    private func hand(_ list: PurgeList, to command: String) async throws -> ExitStatus {
        let lock = self.command.change.dryRun ? nil : try PurgeHookLock(list: list.path)
        let stops = StopSignals()
        let signals = await self.environment.signals(lock == nil ? [] : Self.heededSignals)
        async let _: Void = { for await signal in signals { stops.note(signal.rawValue) } }()
        var hook = PurgeHook(
            command,
            deadline: self.command.other.execDeadline.map { .seconds($0.seconds) },
            lock: lock,
            signals: stops
        )
        var reader = try DeadTokenReader(list, self.command.rules)
        let tokenCountMax = self.command.change.batch ?? PurgeHook.pageTokenCountDefault
        do {
            while case let page = try reader.next(tokenCountMax), !page.isEmpty { try await hook.run(page) }
        } catch let failure as PurgeHook.Failure {
            self.console.say("apns-legacy purge apply: \(failure)")
            self.report(hook, isQuiet: false)
            return .tryAgain
        }
        if hook.tokenCount == 0 { try self.warnOfScope(list) }
        self.report(hook, isQuiet: self.command.change.quiet)
        return .success
    }

    /// The signals that a command is stopped by first; one that is ignored, as under `nohup`, stays so.
    private static var heededSignals: [UnixSignal] {
        [UnixSignal.sigint, .sigterm, .sighup].filter { signal in
            var action = sigaction()
            unsafe sigaction(signal.rawValue, nil, &action)
            return unsafe unsafeBitCast(action.__sigaction_handler.sa_handler, to: Int.self) != 1
        }
    }

    private func report(_ hook: PurgeHook, isQuiet: Bool) {
        let summary = OtherDatabaseSummary(
            tokenCount: hook.tokenCount,
            batchCount: hook.batchCount,
            skippedCount: 0,
            verb: self.command.change.dryRun ? "would be handed over" : "handed over"
        )
        self.environment.summary.set(object: summary.json)
        if !isQuiet { self.environment.reportLine(summary.text) }
    }
}
