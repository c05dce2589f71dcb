// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Batch
import TokenStore

/// `apns-legacy purge export`: writes entries for other programs.
struct PurgeExportCommand: ConsoleCommand {
    static let configuration = CommandConfiguration(
        commandName: "export",
        abstract: "Write entries as text, CSV, JSON lines or SQL.",
        discussion: """
            Examples:
              apns-legacy purge export --purge-list dead.sqlite > tokens.txt
              apns-legacy purge export --purge-list dead.sqlite --format csv > dead.csv

            The format text has one token a line. CSV and JSON lines have token, topic, environment, the times of the \
            newest failure and of the first report in seconds since 1970, and source; purge import reads both. SQL \
            creates a table for SQLite, PostgreSQL or MySQL.

            With --consumer, an application gets each change of a shared list: after an export that failed, the next \
            one repeats it, and a change that is recorded late is not left out. Removed entries are not written.

            \(ExitStatus.list([:], .success, .dataError, .noInput, .cannotCreate, .ioError, .tryAgain, .notPermitted))
            """
    )

    @OptionGroup var file: PurgeFileOptions
    @OptionGroup(title: "Entries") var selection: PurgeSelectionOptions

    @Option(help: .value("format", "The format to write."))
    var format = PurgeExport.Format.text

    @Option(help: .value("file", "Write to this file; - for standard output."), completion: .file())
    var output = "-"

    @Option(help: .value("name", "The name of the SQL table."))
    var table = "purge_list"

    @Option(
        help: .value(
            "name",
            "Write only what was recorded since the last export with this name, of a list in a PostgreSQL database."
        )
    )
    var consumer: String?

    @OptionGroup(title: "Output")
    package var reporting: ReportingOptions

    func validate() throws {
        guard PurgeExport.isTableName(self.table) else {
            throw ValidationError(
                "invalid --table; expected letters, digits and _, such as purge_list or schema.purge_list"
            )
        }
        if self.consumer != nil {
            guard PurgeList.isAddress(self.file.purgeList) else {
                throw ValidationError("--consumer works with a purge list in a PostgreSQL database only")
            }
            guard self.selection.query == PurgeQuery() else {
                throw ValidationError(
                    "--consumer excludes options that select entries, because the others would not be written later"
                )
            }
        }
        if self.format != .jsonLines, self.output == "-", self.reporting.summary == .json {
            throw ValidationError(
                "--summary json excludes --format \(self.format.rawValue) on standard output; write the entries to a "
                    + "file with --output FILE, or use --format jsonl"
            )
        }
    }

    func run(in environment: CommandEnvironment) throws -> ExitStatus {
        let list = try self.file.open(environment.console)
        guard self.output == "-" || !self.file.isSameFile(as: self.output) else {
            throw CommandFailure(.usage, "\(self.output) is the purge list; name another file with --output")
        }
        let file = try environment.console.create(self.output)
        var output = PurgeOutput(file, PurgeExport(self.format, table: self.table))
        var count = 0
        func append(_ entry: PurgeEntry) throws {
            count += 1
            try output.append(entry)
        }
        if let consumer = self.consumer {
            try list.changes(for: consumer, body: append) {
                try output.finish()
                if self.output != "-" { try file.synchronize() }
            }
        } else {
            try list.entries(matching: self.selection.query, body: append)
            try output.finish()
        }
        environment.summary.set("entries", count)
        return .success
    }
}
