// SPDX-License-Identifier: Apache-2.0

import APNSWire
public import ArgumentParser
import TokenStore

/// The table, and what its columns mean.
struct PurgeTableOptions: ParsableArguments, Sendable {
    @Option(help: ArgumentHelp("The SQLite database with the table.", valueName: "file"))
    var database: String?

    @Option(help: ArgumentHelp("The table with the tokens; for --sql with its schema before it.", valueName: "name"))
    var table: String?

    @Option(help: ArgumentHelp("The column with the tokens.", valueName: "name"))
    var tokenColumn: String?

    @Option(
        help: ArgumentHelp("The column that is set whenever a device registers its token.", valueName: "name")
    )
    var registeredColumn: String?

    @Option(
        help: ArgumentHelp(
            "Where there is none such: the column that is set when the row is made. A device that registered again "
                + "since then is not known by it.",
            valueName: "name"
        )
    )
    var createdColumn: String?

    @Flag(help: "Prune without looking when a device registered, also what registered after its failure.")
    var ignoreRegistration = false

    @Option(help: ArgumentHelp("The column that names the topic of a row.", valueName: "name"))
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
    @Option(help: ArgumentHelp("The purge list.", valueName: "file"))
    var purgeList: String

    @Option(
        help: ArgumentHelp(
            "The topic that the table is for; needed where the list has several. More than one are for "
                + "--require-all-topics.",
            valueName: "id"
        )
    )
    var topic: [String] = []

    @Option(help: ArgumentHelp("Where the tokens are from.", valueName: "production|sandbox"))
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

    @Option(help: ArgumentHelp("Delete rows, or set --active-column to 0.", valueName: "delete|deactivate"))
    var action = Action.delete

    @Option(help: ArgumentHelp("The column that says whether a row is active.", valueName: "name"))
    var activeColumn: String?

    @Option(
        help: ArgumentHelp(
            "How much later than its registration a token must have failed: a number with s, m, h, d or w, such as "
                + "12h; by default at all.",
            valueName: "span"
        )
    )
    var grace: ExplicitDurationArgument?

    @Option(
        help: ArgumentHelp(
            "Change nothing where more than this part of the rows that can go would; 0 to 1, by default 0.2, 20 %.",
            valueName: "part"
        )
    )
    var maxFraction: Double?

    @Option(help: ArgumentHelp("The most rows or tokens of a batch.", valueName: "number"))
    var batch: Int?

    @Option(
        help: ArgumentHelp(
            "How long to wait for a lock of the application: a number with s, m, h, d or w; by default 30s.",
            valueName: "span"
        )
    )
    var lockWait: ExplicitDurationArgument?

    @Flag(help: "Count what would go, and change nothing.")
    var dryRun = false

    @Flag(name: .shortAndLong, help: "Say nothing where all went well.")
    var quiet = false

    @Option(help: ArgumentHelp("The form of the report.", valueName: "text|json"))
    var output = PurgeReportForm.text

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
    @Option(
        help: ArgumentHelp(
            "Instead of --database: write statements for another database.",
            valueName: "ansi|postgresql|mysql"
        )
    )
    var sql: SQLDialect?

    @Option(help: ArgumentHelp("Write the statements there instead of standard output.", valueName: "file"))
    var sqlFile: String?

    @Option(help: ArgumentHelp("How tokens stand in that table; by default hex.", valueName: "hex|HEX|base64|blob"))
    var tokenSpelling: TokenLiteral?

    @Option(
        help: ArgumentHelp(
            "How times of registration stand in that table; by default timestamp, but for ansi, which wants it said. "
                + "SQLite has seconds.",
            valueName: "timestamp|seconds|milliseconds"
        )
    )
    var registeredKind: PruneScript.Clock?

    @Option(
        help: ArgumentHelp(
            "What --active-column becomes there; by default false for postgresql, else 0.",
            valueName: "0|false"
        )
    )
    var inactiveValue: PruneScript.InactiveValue?

    @Option(
        help: ArgumentHelp(
            "Instead of --database: run this by /bin/sh for each batch, which is JSON lines on its standard input.",
            valueName: "command"
        )
    )
    var exec: String?

    @Option(
        help: ArgumentHelp(
            "How long a run of --exec may take: a number with s, m, h, d or w; by default 10m.",
            valueName: "span"
        )
    )
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
