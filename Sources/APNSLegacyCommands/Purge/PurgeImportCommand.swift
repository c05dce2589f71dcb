// SPDX-License-Identifier: Apache-2.0

import APNSWire
import ArgumentParser
import BatchFiles
import NIOConcurrencyHelpers
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

    @Option(help: .value("bundle-id", "The topic of lines that have none."))
    var topic: String?

    @Option(help: .value("production|sandbox", "The environment of lines that have none."))
    var environment: Environment?

    @Option(help: .value("time", "When tokens failed whose lines do not say it: now, a time, or an age such as 1d."))
    var failedAt: TimeText?

    @Flag(help: "Take BadDeviceToken for dead too. Tokens of the wrong environment are all bad, and alive.")
    var includeBadDeviceTokens = false

    func run(in environment: CommandEnvironment) async throws -> ExitStatus {
        let input = try environment.console.open(self.input)
        guard !input.isSameFile(as: self.file.purgeList) else {
            throw CommandFailure(.usage, "\(self.input) is the list itself.")
        }
        let list = try self.file.open(isMade: true)
        let format = self.format ?? BatchFormat(fileName: self.input)
        let name = self.input.split(separator: "/").last.map(String.init) ?? self.input
        let source = "import:\(self.input == "-" ? "stdin" : name)"
        var importing = PurgeImport(format: format, source: source, now: environment.now())
        importing.topic = self.topic
        importing.environment = self.environment
        importing.failedAt = self.failedAt?.seconds
        importing.includesBadDeviceTokens = self.includeBadDeviceTokens
        let badLines = BadLines(in: input, environment.console)
        let report = try await self.read(input, into: list, importing, badLines, environment)
        try environment.console.write(self.text(report, badLines.count))
        if let line = report.stopLine {
            environment.console.say(
                "Stopped early, after line \(line) of \(input.name); to continue, run the same command again: "
                    + "tokens that are on the list already are not changed."
            )
            return .tryAgain
        }
        guard badLines.count > 0 else { return .success }
        return report.change == PurgeChange() && report.skipped.isEmpty ? .dataError : .someRefused
    }

    /// Reads the input, until its end or a signal.
    private func read(
        _ input: SendInput,
        into list: PurgeList,
        _ importing: PurgeImport,
        _ badLines: BadLines,
        _ environment: CommandEnvironment
    ) async throws -> PurgeImport.Report {
        let lineCount = NIOLockedValueBox<UInt64>(0)
        let display = ProgressDisplay(environment) {
            var snapshot = ProgressSnapshot()
            snapshot.count = lineCount.withLockedValue { $0 }
            snapshot.unit = "lines"
            if let total = input.byteCountTotal, total > 0 {
                snapshot.fraction = min(1, Double(input.readByteCount) / Double(total))
            }
            return snapshot
        }
        defer { display.end() }
        let reaction = "Stopping: what was read is put on the list; a second signal stops at once."
        return try await environment.stoppable(Self.words, reaction) { stops in
            var importing = importing
            return try importing.read(input, into: list, onProblem: badLines.add) { line in
                // Not for each line, since that would cost as much as reading it.
                guard line.isMultiple(of: 256) else { return true }
                lineCount.withLockedValue { $0 = UInt64(line) }
                return stops.count == 0
            }
        }
    }

    private func text(_ report: PurgeImport.Report, _ badLineCount: UInt64) -> String {
        let change = report.change
        var parts = [
            "\(change.addedCount.counted("token")) added",
            "\(change.updatedCount.grouped) updated",
            "\(change.unchangedCount.grouped) already listed",
        ]
        if change.supersededCount > 0 {
            parts.append("\(change.supersededCount.grouped) ignored: registered later")
        }
        if badLineCount > 0 { parts.append(badLineCount.counted("bad line")) }
        let skipped = report.skipped.sorted { $0.key < $1.key }.map { reason, count in
            let name = PurgeImportCommand.isPlain(reason) ? reason : "other reasons"
            return "\(count.counted("line")) skipped: \(name)"
        }
        return ([parts.joined(separator: ", ")] + skipped).map { $0 + "\n" }.joined()
    }

    /// Whether a reason looks like one, and not like a token or what breaks a terminal.
    private static func isPlain(_ reason: String) -> Bool {
        (1...32).contains(reason.utf8.count) && reason.allSatisfy { $0.isASCII && ($0.isLetter || $0 == " ") }
    }
}
