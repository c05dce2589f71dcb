// SPDX-License-Identifier: Apache-2.0

import APNSWire
public import ArgumentParser
import GatewayService
import NIOConcurrencyHelpers
import TokenStore

/// `apns-legacy purge apply`: prunes a token table from the purge list.
public struct PurgeApplyCommand: PurgeSubcommand, Sendable {
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
    var other: OtherDatabaseOptions

    /// Makes a command to be parsed.
    public init() {}

    /// Checks what goes together.
    ///
    /// - Throws: `ValidationError`.
    public func validate() throws {
        let targets = [self.target.database, self.other.sql?.rawValue, self.other.exec].compactMap { $0 }
        guard targets.count == 1 else { throw ValidationError("Say one of --database, --sql and --exec.") }
        guard self.target.topicColumn == nil || self.entries.topic.isEmpty && !self.entries.requireAllTopics else {
            throw ValidationError("Say --topic-column alone, without --topic and --require-all-topics.")
        }
        try self.validateOther()
        guard self.other.exec == nil else { return try self.validateHook() }
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
        if self.other.sql == .ansi, self.other.registeredKind == nil, !self.target.ignoreRegistration {
            throw ValidationError(
                "--sql ansi needs --registered-kind seconds or milliseconds; or timestamp, where column and session "
                    + "are in UTC, since standard SQL cannot say so."
            )
        }
        if self.other.sql != nil, self.change.batch ?? 1 > PruneScript.batchTokenCountMax {
            throw ValidationError("With --sql, --batch is 1 to \(PruneScript.batchTokenCountMax).")
        }
    }

    /// A brake that does not brake would be worse than none.
    private func validateOther() throws {
        guard self.target.database == nil else { return }
        guard self.change.maxFraction == nil else {
            throw ValidationError("--max-fraction is for --database only: in others, the rows are not counted.")
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

    package func run(in environment: CommandEnvironment) async throws -> ExitStatus {
        guard let path = self.change.metricsFile, !self.change.dryRun else {
            return try await PurgeApplyRun(self, environment).run()
        }
        let report = NIOLockedValueBox<TokenTableReport?>(nil)
        return try await MetricsFile(path, command: Self.words).record(in: environment) {
            try await PurgeApplyRun(self, environment) { found in report.withLockedValue { $0 = found } }.run()
        } samples: {
            report.withLockedValue { $0 }.map(Self.samples) ?? []
        }
    }

    /// What became of the rows of a table, for a metrics file.
    private static func samples(_ report: TokenTableReport) -> [GatewayMetrics.Sample] {
        var isBrake = false
        if case .brake = report.ending { isBrake = true }
        return [
            GatewayMetrics.Sample(name: "apns_legacy_purge_due_rows", value: Double(report.dueCount)),
            GatewayMetrics.Sample(name: "apns_legacy_purge_pruned_rows", value: Double(report.prunedCount)),
            GatewayMetrics.Sample(name: "apns_legacy_purge_brake_tripped", value: isBrake ? 1 : 0),
        ]
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
        // A hook gets the topic of each token, so that all may come.
        if self.other.exec != nil, self.entries.topic.isEmpty { rules.topic = .column("") }
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
