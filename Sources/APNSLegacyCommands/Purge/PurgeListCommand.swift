// SPDX-License-Identifier: Apache-2.0

import APNSWire
import ArgumentParser
import Batch
import TokenStore

/// `apns-legacy purge list`: shows entries in a readable form.
struct PurgeListCommand: ConsoleCommand {
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "Print entries, ordered by topic, environment and token.",
        discussion: """
            Examples:
              apns-legacy purge list --purge-list dead.sqlite --failed-since 7d
              apns-legacy purge list --purge-list dead.sqlite --count

            Prints one entry a line, with tabs between its fields: the time of the newest failure, environment, topic, \
            token and source. For other programs, use purge export.

            \(ExitStatus.list([:], .success, .dataError, .noInput, .ioError, .tryAgain, .notPermitted))
            """
    )

    @OptionGroup var file: PurgeFileOptions
    @OptionGroup(title: "Entries") var selection: PurgeSelectionOptions

    @Option(help: .value("number", "Print at most this many entries."))
    var limit: Int?

    @Flag(help: "Print only the number of entries.")
    var count = false

    @OptionGroup(title: "Output")
    package var reporting: ReportingOptions

    func validate() throws {
        try self.require(1...Int.max, "--limit", self.limit)
        guard self.limit == nil || !self.count else {
            throw ValidationError("--limit and --count exclude each other; use one of them")
        }
    }

    /// Thrown when the requested number of entries was printed.
    private struct Enough: Error {}

    func run(in environment: CommandEnvironment) throws -> ExitStatus {
        let list = try self.file.open(environment.console)
        var (count, lines) = (0, "")
        do {
            try list.entries(matching: self.selection.query) { entry in
                count += 1
                guard !self.count else { return }
                lines += PurgeListCommand.line(entry)
                if lines.utf8.count >= PurgeOutput.blockByteCount {
                    try environment.console.write(lines)
                    lines = ""
                }
                if count == self.limit { throw Enough() }
            }
        } catch is Enough {}
        if self.count, environment.summaryForm == .text { lines = "\(count)\n" }
        environment.summary.set("entries", count)
        try environment.console.write(lines)
        return .success
    }

    private static func line(_ entry: PurgeEntry) -> String {
        let fields = [
            TimeText(seconds: entry.failedAtSeconds).text, entry.environment.rawValue, entry.topic,
            Hexadecimal.text(entry.token), entry.source,
        ]
        return fields.joined(separator: "\t") + "\n"
    }
}
