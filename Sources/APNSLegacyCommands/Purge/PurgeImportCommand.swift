// SPDX-License-Identifier: Apache-2.0

import APNSWire
import ArgumentParser
import Batch
import NIOConcurrencyHelpers
import TokenStore

/// `apns-legacy purge import`: adds dead tokens from other sources.
struct PurgeImportCommand: ConsoleCommand {
    static let configuration = CommandConfiguration(
        commandName: "import",
        abstract: "Add tokens from CSV, JSON lines or a list of tokens.",
        discussion: """
            Examples:
              apns-legacy purge import --purge-list dead.sqlite dead.csv
              apns-legacy purge import --purge-list dead.sqlite --topic com.example.app \\
                  --environment production --failed-at 1d tokens.txt

            CSV and JSON lines may have token, topic, environment, failedAt (seconds since 1970 or ISO 8601), \
            firstSeen and source, and from answers of the HTTP/2 service reason and timestamp (milliseconds). Case and \
            _ do not matter, and other columns are ignored. Options complete what a line does not have. The time of \
            the failure is required, because a device that registered later is alive.

            Lines with the reason Unregistered or ExpiredToken are imported, BadDeviceToken only with \
            --include-bad-device-tokens, and others are counted. Results of apns-legacy send are imported by the same \
            rules, status 8 as BadDeviceToken. An invalid line is reported with its number, and the others are \
            imported.

            \(ExitStatus.list(
                [
                    .success: "all lines were imported or left out",
                    .someRefused: "some lines are invalid",
                    .dataError: "the list or the whole input is invalid",
                ],
                .noInput, .cannotCreate, .ioError, .tryAgain, .notPermitted
            ))
            """
    )

    @OptionGroup var file: PurgeFileOptions

    @Argument(help: .value("input", "The file to import, or - for standard input."), completion: .file())
    var input: String

    @Option(help: .value("format", "The format of the input. (default: from its name or first line)"))
    var format: BatchFormat?

    @OptionGroup var naming: ColumnNameOptions

    @Option(help: .value("bundle-id", "The topic of lines that have none."))
    var topic: String?

    @Option(help: .value("name", "The environment of lines that have none."))
    var environment: PushEnvironment?

    @Option(help: .value("time", "When tokens failed whose lines do not have a time."))
    var failedAt: TimeText?

    @Flag(help: "Import BadDeviceToken too. Tokens of the wrong environment have this reason, and are alive.")
    var includeBadDeviceTokens = false

    @OptionGroup(title: "Output")
    package var reporting: ReportingOptions

    package var earlyStop: EarlyStop? { .before("anything was imported") }

    func validate() throws {
        _ = try ColumnNames(parsing: self.naming.column, .deadTokens)
        try TopicCheck.check(self.topic)
    }

    func run(in environment: CommandEnvironment) async throws -> ExitStatus {
        let input = try environment.console.open(self.input)
        guard !input.isSameFile(as: self.file.purgeList) else {
            throw CommandFailure(.usage, "\(self.input) is the purge list; name another input")
        }
        let format = self.format ?? BatchFormat(fileName: self.input)
        try input.begin(expecting: .deadTokens(format), isWaiting: true)
        let list = try self.file.open(isMade: true, environment.console)
        let name = self.input.split(separator: "/").last.map(String.init) ?? self.input
        let source = "import:\(self.input == "-" ? "stdin" : name)"
        var importing = PurgeImport(format: format, source: source, now: environment.now())
        importing.names = try ColumnNames(parsing: self.naming.column, .deadTokens)
        importing.topic = self.topic
        importing.environment = self.environment
        importing.failedAt = self.failedAt?.seconds
        importing.includesBadDeviceTokens = self.includeBadDeviceTokens
        let badLines = BadLines(in: input, environment.console)
        let report = try await self.read(input, into: list, importing, badLines, environment)
        badLines.finish()
        let change = report.change
        environment.summary.set("added", change.addedCount)
        environment.summary.set("updated", change.updatedCount)
        environment.summary.set("known", change.unchangedCount)
        environment.summary.set("registeredSince", change.supersededCount)
        environment.summary.set("badLines", badLines.count)
        environment.summary.set("leftOut", report.skipped.values.reduce(0) { $0 + UInt64($1) })
        try environment.report(self.text(report, badLines.count))
        if let line = report.stopLine {
            environment.console.emit(
                Diagnostic(
                    .warning,
                    "Stopped early, after line \(line) of \(input.name); to continue, run the same command again: "
                        + "tokens that are on the list already are not changed."
                )
            )
            return .tryAgain
        }
        guard badLines.count > 0 else { return .success }
        return report.change == PurgeChange() && report.skipped.isEmpty ? .dataError : .someRefused
    }

    /// Reads the input until its end or a signal.
    private func read(
        _ input: SendInput,
        into list: PurgeList,
        _ importing: PurgeImport,
        _ badLines: BadLines,
        _ environment: CommandEnvironment
    ) async throws -> PurgeImport.Report {
        let lineCount = NIOLockedValueBox<UInt64>(0)
        let display = ProgressDisplay(environment) {
            var snapshot = ProgressSnapshot(lineCount.withLockedValue { $0 }, "lines")
            if let total = input.byteCountTotal, total > 0 {
                snapshot.fraction = min(1, Double(input.readByteCount) / Double(total))
            }
            return snapshot
        }
        defer { display.end() }
        let reaction = StopReaction(
            first: "Stopping: entries read so far are added to the list; a second signal stops at once.",
            onFirst: { input.abandon() },
            last: "stopped at once; run the same command again"
        )
        return try await environment.stoppable(reaction) {
            try await environment.blocking {
                try importing.read(input, into: list, onProblem: badLines.add) { count in
                    lineCount.withLockedValue { $0 = UInt64(count) }
                }
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
        if badLineCount > 0 { parts.append(badLineCount.counted("invalid line")) }
        let skipped = report.skipped.sorted { $0.key < $1.key }.map { reason, count in
            let name = PurgeImportCommand.isPlain(reason) ? reason : "other reasons"
            return "\(count.counted("line")) skipped: \(name)"
        }
        return ([parts.joined(separator: ", ")] + skipped).map { $0 + "\n" }.joined()
    }

    /// Whether a text looks like a reason, and not like a token or text with control characters.
    private static func isPlain(_ reason: String) -> Bool {
        (1...32).contains(reason.utf8.count) && reason.allSatisfy { $0.isASCII && ($0.isLetter || $0 == " ") }
    }
}
