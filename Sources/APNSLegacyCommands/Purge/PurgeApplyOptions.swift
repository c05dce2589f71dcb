// SPDX-License-Identifier: Apache-2.0

import APNSWire
public import ArgumentParser
import TokenStore

/// The table, and what its columns mean.
struct PurgeTableOptions: ParsableArguments, Sendable {
    @Option(help: .value("file", "The SQLite database with the table."))
    var database: String?

    @Option(help: .value("name", "The table with the tokens; for --sql with its schema before it."))
    var table: String?

    @Option(help: .value("name", "The column with the tokens."))
    var tokenColumn: String?

    @Option(help: .value("name", "The column that is set whenever a device registers its token."))
    var registeredColumn: String?

    @Option(
        help: .value(
            "name",
            "Where there is none such: the column that is set when the row is made. A device that registered again "
                + "since then is not known by it."
        )
    )
    var createdColumn: String?

    @Flag(help: "Prune without looking when a device registered, also what registered after its failure.")
    var ignoreRegistration = false

    @Option(help: .value("name", "The column that names the topic of a row."))
    var topicColumn: String?

    func validate() throws {
        let named = [self.registeredColumn, self.createdColumn].compactMap { $0 }.count
        guard named + (self.ignoreRegistration ? 1 : 0) <= 1 else {
            throw ValidationError("Say one of --registered-column, --created-column and --ignore-registration.")
        }
    }
}

/// Which entries of the list count.
struct PurgeEntryOptions: ParsableArguments, Sendable {
    @Option(help: .value("file", "The purge list."))
    var purgeList: String

    @Option(
        help: .value(
            "id",
            "The topic that the table is for; needed where the list has several. More than one are for "
                + "--require-all-topics."
        )
    )
    var topic: [String] = []

    @Option(help: .value("production|sandbox", "Where the tokens are from."))
    var environment = Environment.production

    @Flag(
        help: """
            Prune only what is dead in each --topic, or in every topic that the list knows, as for an enterprise and a \
            store app.
            """
    )
    var requireAllTopics = false

    func validate() throws {
        let count = Set(self.topic.map { Array($0.utf8) }).count
        if self.requireAllTopics, count == 1 {
            throw ValidationError(
                "With --require-all-topics, say two or more --topic, or none for all that the list knows."
            )
        }
        guard self.requireAllTopics || self.topic.count <= 1 else {
            throw ValidationError("Say one --topic; more are for --require-all-topics.")
        }
    }
}

/// What is done, and how much of it.
struct PurgeActionOptions: ParsableArguments, Sendable {
    /// What is done with a row.
    enum Action: String, ExpressibleByArgument, CaseIterable {
        case delete
        case deactivate
    }

    private static let graceSecondCountMax: Int64 = 100 * 366 * 86_400

    @Option(help: .value("delete|deactivate", "Delete rows, or set --active-column to 0."))
    var action = Action.delete

    @Option(help: .value("name", "The column that says whether a row is active."))
    var activeColumn: String?

    @Option(
        help: .value(
            "span",
            "How much later than its registration a token must have failed: a number with s, m, h, d or w, such as "
                + "12h; by default at all."
        )
    )
    var grace: ExplicitDurationArgument?

    @Option(
        help: .value(
            "part",
            "Change nothing where more than this part of the rows that can go would; 0 to 1, by default 0.2, 20 %."
        )
    )
    var maxFraction: Double?

    @Option(help: .value("number", "The most rows or tokens of a batch."))
    var batch: Int?

    @Option(
        help: .value(
            "span",
            "How long to wait for a lock of the application: a number with s, m, h, d or w; by default 30s."
        )
    )
    var lockWait: ExplicitDurationArgument?

    @Flag(help: "Count what would go, and change nothing.")
    var dryRun = false

    @Flag(name: .shortAndLong, help: "Say nothing where all went well.")
    var quiet = false

    @Option(
        help: .value(
            "file.prom",
            "Write the outcome as metrics there when the run ends, for the textfile collector of node_exporter."
        )
    )
    var metricsFile: String?

    @Option(help: .value("text|json", "The form of the report."))
    var output = ReportForm.text

    func validate() throws {
        guard (self.action == .deactivate) == (self.activeColumn != nil) else {
            throw ValidationError("--action deactivate and --active-column go together.")
        }
        guard self.grace?.seconds ?? 0 <= Self.graceSecondCountMax else {
            throw ValidationError("--grace is at most a hundred years.")
        }
        guard (0...1).contains(self.maxFraction ?? 0) else {
            throw ValidationError("--max-fraction is 0 to 1, such as 0.2 for 20 %.")
        }
        guard (1...10_000).contains(self.batch ?? 1) else { throw ValidationError("--batch is 1 to 10000.") }
        guard (0...86_400).contains(self.lockWait?.seconds ?? 0) else {
            throw ValidationError("--lock-wait is at most a day.")
        }
    }
}

/// Databases of other kinds.
struct OtherDatabaseOptions: ParsableArguments, Sendable {
    @Option(help: .value("ansi|postgresql|mysql", "Instead of --database: write statements for another database."))
    var sql: SQLDialect?

    @Option(help: .value("file", "Write the statements there instead of standard output."))
    var sqlFile: String?

    @Option(help: .value("hex|HEX|base64|blob", "How tokens stand in that table; by default hex."))
    var tokenSpelling: TokenLiteral?

    @Option(
        help: .value(
            "timestamp|seconds|milliseconds",
            "How times of registration stand in that table; by default timestamp, but for ansi, which wants it said. "
                + "SQLite has seconds."
        )
    )
    var registeredKind: PruneScript.Clock?

    @Option(help: .value("0|false", "What --active-column becomes there; by default false for postgresql, else 0."))
    var inactiveValue: PruneScript.InactiveValue?

    @Option(
        help: .value(
            "command",
            "Instead of --database: run this by /bin/sh for each batch, which is JSON lines on its standard input."
        )
    )
    var exec: String?

    @Option(help: .value("span", "How long a run of --exec may take: a number with s, m, h, d or w; by default 10m."))
    var execDeadline: ExplicitDurationArgument?

    func validate() throws {
        let forSQL = [
            ("--sql-file", self.sqlFile != nil), ("--token-spelling", self.tokenSpelling != nil),
            ("--registered-kind", self.registeredKind != nil), ("--inactive-value", self.inactiveValue != nil),
        ]
        for (name, isGiven) in forSQL where isGiven && self.sql == nil {
            throw ValidationError("\(name) needs --sql.")
        }
        guard self.exec != nil || self.execDeadline == nil else {
            throw ValidationError("--exec-deadline needs --exec.")
        }
        guard (1...604_800).contains(self.execDeadline?.seconds ?? 1) else {
            throw ValidationError("--exec-deadline is one second to one week.")
        }
    }
}

extension SQLDialect: ExpressibleByArgument {}
extension TokenLiteral: ExpressibleByArgument {}
extension PruneScript.Clock: ExpressibleByArgument {}
extension PruneScript.InactiveValue: ExpressibleByArgument {}
