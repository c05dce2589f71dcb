// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import BatchFiles
import TokenStore

/// `apns-legacy purge export`: writes entries for other programs.
struct PurgeExportCommand: PurgeSubcommand {
    static let configuration = CommandConfiguration(
        commandName: "export",
        abstract: "Write entries as text, CSV, JSON lines or SQL.",
        discussion: """
            text is one token a line. CSV and JSON lines have token, topic, environment, the newest failure, when the \
            list first heard of it, and source; times are seconds since 1970. import reads these two back whole; of \
            text it reads the tokens, and wants topic, environment and time of failure as options. SQL makes a table \
            of the list in SQLite, PostgreSQL or MySQL, and import does not read it; in topics and sources, what is \
            not a letter, digit, space or one of ._:/@+=- is percent-encoded there.
            """
    )

    @OptionGroup var file: PurgeFileOptions
    @OptionGroup(title: "Which entries") var selection: PurgeSelectionOptions

    @Option(help: .value("text|csv|jsonl|sql", "What to write."))
    var format = PurgeExport.Format.text

    @Option(help: .value("file", "Write there; by default to standard output."))
    var output = "-"

    @Option(help: .value("name", "The table in SQL."))
    var table = "purge_list"

    func validate() throws {
        guard PurgeExport.isTableName(self.table) else {
            throw ValidationError(
                "--table is letters, digits and _, with a schema's name and a point before it or not."
            )
        }
    }

    func run(in environment: CommandEnvironment) throws -> ExitStatus {
        let list = try self.file.open()
        guard self.output == "-" || !self.file.isSameFile(as: self.output) else {
            throw CommandFailure(.usage, "\(self.output) is the list; give --output a file of its own.")
        }
        let output = try environment.console.create(self.output)
        var export = PurgeExport(self.format, table: self.table)
        func flush() throws {
            try output.append(export.bytes.span)
            export.removeAll()
        }
        try list.entries(matching: self.selection.query) { entry in
            export.append(entry)
            if export.bytes.count >= PurgeOutput.blockByteCount { try flush() }
        }
        export.finish()
        try flush()
        return .success
    }
}
