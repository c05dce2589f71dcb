// SPDX-License-Identifier: Apache-2.0

import APNSWire
public import ArgumentParser
import TokenStore

/// The table and the meaning of its columns.
struct PurgeTableOptions: ParsableArguments, Sendable {
    @Option(
        help: .value("file", "The SQLite database with the table, or postgresql:// or mysql://USER@HOST/DATABASE."),
        completion: .file()
    )
    var database: String?

    @Option(help: .value("name", "The table with the tokens; for --sql, it may have a schema."))
    var table: String?

    @Option(help: .value("name", "The column with the tokens."))
    var tokenColumn: String?

    @Option(help: .value("name", "The column with the time of a device's last registration."))
    var registeredColumn: String?

    @Option(
        help: .value(
            "name",
            "If there is no such column: the column with the time at which the row was created."
        )
    )
    var createdColumn: String?

    @Flag(help: "Ignore when a device registered; deletes tokens that registered after their failure.")
    var ignoreRegistration = false

    @Option(help: .value("name", "The column with the topic of a row."))
    var topicColumn: String?

    func validate() throws {
        if let scheme = self.database?.prefixMatch(of: /[A-Za-z][A-Za-z0-9+.\-]{0,31}:\/\//)?.output,
            !TokenTableApplication.canOpen(self.database ?? "")
        {
            // The rest may contain a password.
            let advice =
                switch scheme.lowercased().prefix(6) {
                case "sqlite": "give the path of the file"
                case "postgr": "this program is built without the trait PostgreSQL; use --sql postgresql"
                case "mysql:", "mariad": "this program is built without the trait MariaDB; use --sql mysql"
                default: "for another database, use --sql or --exec"
                }
            throw ValidationError(
                "--database must be an SQLite file or the address of a PostgreSQL, MariaDB or MySQL database, not "
                    + "\(scheme)...; \(advice)"
            )
        }
        let named = [self.registeredColumn, self.createdColumn].compactMap { $0 }.count
        guard named + (self.ignoreRegistration ? 1 : 0) <= 1 else {
            throw ValidationError(
                "--registered-column, --created-column and --ignore-registration exclude each other; use one of them"
            )
        }
    }
}

/// The entries of the list to apply.
struct PurgeEntryOptions: ParsableArguments, Sendable {
    @Option(help: .value("file", "The purge list."), completion: .file())
    var purgeList: String

    @Option(
        help: .value("bundle-id", "The topic of the table; required if the list has several.")
    )
    var topic: [String] = []

    @Option(help: .value("name", "The environment of the tokens."))
    var environment = PushEnvironment.production

    @Flag(help: "Delete only tokens that are dead for each --topic, or for every topic in the list.")
    var requireAllTopics = false

    func validate() throws {
        let count = Set(self.topic.map { Array($0.utf8) }).count
        if self.requireAllTopics, count == 1 {
            throw ValidationError(
                "--require-all-topics needs two or more --topic, or none for all topics in the list"
            )
        }
        guard self.requireAllTopics || self.topic.count <= 1 else {
            throw ValidationError("several --topic need --require-all-topics")
        }
    }
}

/// The action, and its limits.
struct PurgeActionOptions: ParsableArguments, Sendable {
    /// The action for a row.
    enum Action: String, ExpressibleByArgument, CaseIterable {
        case delete
        case deactivate
    }

    private static let graceSecondCountMax: Int64 = 100 * 366 * 86_400

    @Flag(help: "Count what would be deleted, and change nothing.")
    var dryRun = false

    @Option(help: .value("action", "Delete rows, or set --active-column to 0."))
    var action = Action.delete

    @Option(help: .value("name", "The column that is 0 for an inactive row."))
    var activeColumn: String?

    @Option(
        help: .value(
            "fraction",
            "Change nothing if more than this part of the rows would be. (default: 0.2, which is 20 %)"
        )
    )
    var maxFraction: Double?

    @Option(
        help: .value("age", "How long after its registration a token must have failed, such as 12h. (default: 0s)")
    )
    var grace: ExplicitDurationArgument?

    @Option(
        help: .value(
            "number",
            "The maximum rows or tokens of a batch. (default: 2000; with --sql: 500; with --exec: 1000)"
        )
    )
    var batch: Int?

    @Option(help: .value("age", "How long to wait for a lock of the application. (default: 30s)"))
    var lockWait: ExplicitDurationArgument?

    @OptionGroup var metrics: MetricsFileOptions

    @Flag(name: .shortAndLong, help: "Print nothing on success.")
    var quiet = false

    func validate() throws {
        guard (self.action == .deactivate) == (self.activeColumn != nil) else {
            throw ValidationError("--action deactivate and --active-column must be used together")
        }
        guard self.grace?.seconds ?? 0 <= Self.graceSecondCountMax else {
            throw ValidationError("--grace must be at most 100 years")
        }
        guard (0...1).contains(self.maxFraction ?? 0) else {
            throw ValidationError("--max-fraction must be from 0 to 1, such as 0.2 for 20 %")
        }
        try self.require(1...10_000, "--batch", self.batch)
        guard (0...86_400).contains(self.lockWait?.seconds ?? 0) else {
            throw ValidationError("--lock-wait must be at most 1d")
        }
    }
}

/// Other databases than SQLite.
struct OtherDatabaseOptions: ParsableArguments, Sendable {
    @Option(help: .value("dialect", "Instead of --database: write statements for another database."))
    var sql: SQLDialect?

    @Option(
        help: .value("file", "Write the statements to this file. (default: standard output)"),
        completion: .file()
    )
    var sqlFile: String?

    @Option(help: .value("form", "The format of tokens in the table. (default: hex)"))
    var tokenSpelling: TokenLiteral?

    @Option(help: .value("kind", "How the table stores times; ansi needs it. (default: timestamp)"))
    var registeredKind: PruneScript.Clock?

    @Option(help: .value("value", "The value of --active-column. (default: false for postgresql, else 0)"))
    var inactiveValue: PruneScript.InactiveValue?

    @Option(
        help: .value(
            "command",
            "Instead of --database: run this with /bin/sh for each batch, with JSON lines as its input."
        )
    )
    var exec: String?

    @Option(help: .value("age", "How long one run of --exec may take. (default: 10m)"))
    var execDeadline: ExplicitDurationArgument?

    func validate() throws {
        let forSQL = [
            ("--sql-file", self.sqlFile != nil), ("--token-spelling", self.tokenSpelling != nil),
            ("--registered-kind", self.registeredKind != nil), ("--inactive-value", self.inactiveValue != nil),
        ]
        for (name, isGiven) in forSQL where isGiven && self.sql == nil {
            throw ValidationError("\(name) needs --sql")
        }
        guard self.exec != nil || self.execDeadline == nil else {
            throw ValidationError("--exec-deadline needs --exec")
        }
        guard (1...604_800).contains(self.execDeadline?.seconds ?? 1) else {
            throw ValidationError("--exec-deadline must be from 1s to 7d")
        }
    }
}

extension SQLDialect: ExpressibleByArgument {}
extension TokenLiteral: ExpressibleByArgument {}
extension PruneScript.Clock: ExpressibleByArgument {}
extension PruneScript.InactiveValue: ExpressibleByArgument {}
