// SPDX-License-Identifier: Apache-2.0

import APNSWire
import ArgumentParser
import TokenStore

/// `apns-legacy purge apply`: deletes the tokens of a purge list from a token table, or deactivates their rows, writes
/// statements for another database, or passes the tokens to a command.
struct PurgeApplyCommand: ConsoleCommand, Sendable {
    /// Name, help text and manual.
    static let configuration = CommandConfiguration(
        commandName: "apply",
        abstract: "Delete dead tokens from a database table.",
        discussion: PurgeApplyCommand.manual
    )

    @OptionGroup(title: "Dead tokens")
    var entries: PurgeEntryOptions

    @OptionGroup(title: "Table")
    var target: PurgeTableOptions

    @OptionGroup(title: "Action")
    var change: PurgeActionOptions

    @OptionGroup(title: "Other databases")
    var other: OtherDatabaseOptions

    @OptionGroup(title: "Output")
    package var reporting: ReportingOptions

    package var earlyStop: EarlyStop? { .before("anything was changed or written") }

    /// Checks the combination of options.
    ///
    /// - Throws: `ValidationError`.
    func validate() throws {
        let targets = [self.target.database, self.other.sql?.rawValue, self.other.exec].compactMap { $0 }
        guard targets.count == 1 else { throw ValidationError("use exactly one of --database, --sql and --exec") }
        guard self.target.topicColumn == nil || self.entries.topic.isEmpty && !self.entries.requireAllTopics else {
            throw ValidationError("--topic-column excludes --topic and --require-all-topics")
        }
        try self.validateOther()
        guard self.other.exec == nil else { return try self.validateHook() }
        guard self.target.table != nil, self.target.tokenColumn != nil else {
            throw ValidationError("missing --table or --token-column, which name the location of the tokens")
        }
        guard self.registration != nil else {
            throw ValidationError(
                "missing --registered-column NAME, the time of a device's last registration; without it, tokens that "
                    + "registered after their failure would be deleted (second best: --created-column; to delete them "
                    + "anyway: --ignore-registration)"
            )
        }
        if self.target.ignoreRegistration, self.change.grace != nil {
            throw ValidationError("--grace and --ignore-registration exclude each other; use one of them")
        }
        if self.other.sql == .ansi, self.other.registeredKind == nil, !self.target.ignoreRegistration {
            throw ValidationError(
                "--sql ansi needs --registered-kind seconds or milliseconds, or timestamp if column and session are "
                    + "in UTC"
            )
        }
        if self.other.sql != nil, self.change.batch ?? 1 > PruneScript.batchTokenCountMax {
            throw ValidationError("with --sql, --batch must be from 1 to \(PruneScript.batchTokenCountMax)")
        }
        if self.other.sql != nil, self.other.sqlFile == nil, !self.change.dryRun, self.reporting.summary == .json {
            throw ValidationError(
                "--summary json excludes statements on standard output; write them to a file with --sql-file FILE"
            )
        }
    }

    /// Rejects options that would have no effect, such as a limit that nothing enforces.
    private func validateOther() throws {
        guard self.target.database == nil else { return }
        guard self.change.maxFraction == nil else {
            throw ValidationError("--max-fraction works with --database only")
        }
        guard self.change.lockWait == nil else { throw ValidationError("--lock-wait works with --database only") }
    }

    private func validateHook() throws {
        guard !PurgeList.isAddress(self.entries.purgeList) else {
            throw ValidationError(
                "--exec works with a purge list in a file only, whose lock prevents a second run; use purge export"
            )
        }
        guard self.change.grace == nil else {
            throw ValidationError("--grace does not work with --exec, which has no registration times")
        }
        let table = [self.target.table, self.target.tokenColumn, self.target.topicColumn, self.change.activeColumn]
        guard table.allSatisfy({ $0 == nil }), self.target.registeredColumn == nil, self.target.createdColumn == nil
        else {
            throw ValidationError(
                "--exec excludes --table and the options for columns; the hook compares failedAt itself"
            )
        }
    }

    package func run(in environment: CommandEnvironment) async throws -> ExitStatus {
        try await self.change.metrics.record(in: environment, isDryRun: self.change.dryRun) {
            try await PurgeApplyRun(self, environment).run()
        }
    }

    var registration: TokenTableRules.Registration? {
        if let column = self.target.registeredColumn { return .registered(column: column) }
        if let column = self.target.createdColumn { return .created(column: column) }
        return self.target.ignoreRegistration ? .ignored : nil
    }

    var rules: TokenTableRules {
        var rules = TokenTableRules(
            registration: self.registration ?? .ignored,
            environment: self.entries.environment,
            graceSecondCount: self.change.grace?.seconds ?? 0
        )
        if let topic = self.entries.topic.first { rules.topic = .one(topic) }
        if let column = self.target.topicColumn { rules.topic = .column(column) }
        // The hook receives the topic of each token, so all topics are allowed.
        if self.other.exec != nil, self.entries.topic.isEmpty { rules.topic = .column("") }
        if self.entries.requireAllTopics { rules.topic = .everyTopic(of: self.entries.topic) }
        if let column = self.change.activeColumn { rules.action = .deactivate(column: column) }
        return rules
    }

    private static let manual = """
        Examples:
          apns-legacy purge apply --purge-list dead.sqlite --database app.db --dry-run \\
              --table devices --token-column token --registered-column updated_at
          apns-legacy purge apply --purge-list dead.sqlite \\
              --database postgresql://app@db.example.com/app \\
              --table devices --token-column token --registered-column updated_at
          apns-legacy purge apply --purge-list dead.sqlite \\
              --database mysql://app@db.example.com/app \\
              --table devices --token-column token --registered-column updated_at
          apns-legacy purge apply --purge-list dead.sqlite --exec ./delete-tokens

        A row is deleted only if its token failed after its device last registered, by --grace or more. Rows whose \
        token or time cannot be read are kept and counted. The command counts all rows first. If more than \
        --max-fraction of the eligible rows would be deleted, nothing is deleted. Rows are deleted in short \
        transactions, each of which checks that its rows have not changed. So the application can keep running, and \
        you can repeat a run that was stopped.

        Tokens may be hexadecimal of either case, with spaces or <...>, base64, or BLOB. Times may be seconds or \
        milliseconds since 1970, Julian days, or ISO 8601, in UTC if there is no zone. Rows may mix these.

        --sql writes statements for other databases. --exec passes each batch to a command as JSON lines: \
        {"token":..., "topic":..., "environment":..., "failedAt": seconds}.

        \(ExitStatus.list(
            [
                .success: "done, also if no row was due",
                .someRefused: "the database did not allow some rows to be deleted",
                .usage: "the command line is wrong, or a table or column does not exist",
                .dataError: "the database or the purge list is not usable",
                .noInput: "a file does not exist",
                .tryAgain: "the database was locked or --exec failed (run the command again)",
            ],
            .cannotCreate, .ioError, .notPermitted, .limitExceeded
        ))
        """
}
