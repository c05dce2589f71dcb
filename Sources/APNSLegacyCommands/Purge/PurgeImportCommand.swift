// SPDX-License-Identifier: Apache-2.0

import APNSWire
import ArgumentParser
import BatchFiles
import TokenStore

/// `apns-legacy purge import`: puts on the list what others know.
struct PurgeImportCommand: PurgeSubcommand {
    static let configuration = CommandConfiguration(
        commandName: "import",
        abstract: "Put tokens on the list from CSV, JSON lines or a file of tokens.",
        discussion: """
            CSV and JSON lines may have token, topic, environment, failedAt (or failed_at; seconds since 1970 or ISO \
            8601), firstSeen, source, and of answers of the HTTP/2 service reason and timestamp (milliseconds); case \
            and _ do not matter. Other columns count for nothing. What a line does not say is taken from the options. \
            When a token failed must be said, by the line or by --failed-at: a device that registered later is alive.

            Of lines with a reason, Unregistered and ExpiredToken go in, BadDeviceToken only when asked for, and \
            others are counted and left out. Of the results of send, what was rejected goes by the same rules, status \
            8 as BadDeviceToken, and no other outcome goes in. A bad line is named with its number, and the rest goes \
            in.
            """
    )

    @OptionGroup var file: PurgeFileOptions

    @Argument(help: .value("input", "A file, or - for standard input."))
    var input: String

    @Option(help: .value("jsonl|csv|tokens", "The format, where name and first line do not tell."))
    var format: BatchFormat?

    @Option(
        help: .value(
            "column=name",
            "Read a column of CSV or a key of JSON lines under another name, such as token=device_token; repeatable."
        )
    )
    var column: [String] = []

    @Option(help: .value("bundle-id", "The topic of lines that have none."))
    var topic: String?

    @Option(help: .value("production|sandbox", "The environment of lines that have none."))
    var environment: Environment?

    @Option(help: .value("time", "When tokens failed whose lines do not say it: now, a time, or an age such as 1d."))
    var failedAt: TimeText?

    @Flag(help: "Take BadDeviceToken for dead too. Tokens of the wrong environment are all bad, and alive.")
    var includeBadDeviceTokens = false

    func validate() throws { _ = try ColumnNames<PurgeColumn>(parsing: self.column) }

    func run(in environment: CommandEnvironment) throws -> ExitStatus {
        let input = try environment.console.open(self.input)
        guard !input.isSameFile(as: self.file.purgeList) else {
            throw CommandFailure(.usage, "\(self.input) is the list itself.")
        }
        let format = self.format ?? BatchFormat(fileName: self.input)
        try input.begin(expecting: .lines(format), isWaiting: true)
        let list = try self.file.open(isMade: true)
        let name = self.input.split(separator: "/").last.map(String.init) ?? self.input
        let source = "import:\(self.input == "-" ? "stdin" : name)"
        var importing = PurgeImport(format: format, source: source, now: environment.now())
        importing.names = try ColumnNames(parsing: self.column)
        importing.topic = self.topic
        importing.environment = self.environment
        importing.failedAt = self.failedAt?.seconds
        importing.includesBadDeviceTokens = self.includeBadDeviceTokens
        let badLines = BadLines(in: input, environment.console)
        let report = try importing.read(input, into: list, onProblem: badLines.add)
        badLines.finish()
        try environment.console.write(self.text(report, badLines.count))
        guard badLines.count > 0 else { return .success }
        return report.change == PurgeChange() && report.skipped.isEmpty ? .dataError : .someRefused
    }

    private func text(_ report: PurgeImport.Report, _ badLineCount: UInt64) -> String {
        let change = report.change
        var parts = [
            "\(change.addedCount.counted("token")) added",
            "\(change.updatedCount.grouped) updated",
            "\(change.unchangedCount.grouped) known",
        ]
        if change.supersededCount > 0 {
            parts.append("\(change.supersededCount.grouped) registered since")
        }
        if badLineCount > 0 { parts.append(badLineCount.counted("invalid line")) }
        let skipped = report.skipped.sorted { $0.key < $1.key }.map { reason, count in
            let name = PurgeImportCommand.isPlain(reason) ? reason : "other reasons"
            return "\(count.counted("line")) left out: \(name)"
        }
        return ([parts.joined(separator: ", ")] + skipped).map { $0 + "\n" }.joined()
    }

    /// Whether a reason looks like one, and not like a token or what breaks a terminal.
    private static func isPlain(_ reason: String) -> Bool {
        (1...32).contains(reason.utf8.count) && reason.allSatisfy { $0.isASCII && ($0.isLetter || $0 == " ") }
    }
}
