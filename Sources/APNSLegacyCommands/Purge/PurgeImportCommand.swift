// SPDX-License-Identifier: Apache-2.0

import APNSWire
import ArgumentParser
import BatchFiles
import TokenStore

/// `apns-legacy purge import`: puts on the list what others know.
struct PurgeImportCommand: PurgeSubcommand {
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
                .noInput, .cannotCreate, .ioError, .tryAgain
            ))
            """
    )

    @OptionGroup var file: PurgeFileOptions

    @Argument(help: .value("input", "The file to import, or - for standard input."), completion: .file())
    var input: String

    @Option(help: .value("format", "The format of the input. (default: from its name or first line)"))
    var format: BatchFormat?

    @Option(help: .value("bundle-id", "The topic of lines that have none."))
    var topic: String?

    @Option(help: .value("name", "The environment of lines that have none."))
    var environment: Environment?

    @Option(help: .value("time", "When tokens failed whose lines do not have a time."))
    var failedAt: TimeText?

    @Flag(help: "Import BadDeviceToken too. Tokens of the wrong environment have this reason, and are alive.")
    var includeBadDeviceTokens = false

    @OptionGroup(title: "Output")
    package var reporting: ReportingOptions

    func run(in environment: CommandEnvironment) throws -> ExitStatus {
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
        let report = try importing.read(input, into: list, onProblem: badLines.add)
        let change = report.change
        environment.summary.set("added", change.addedCount)
        environment.summary.set("updated", change.updatedCount)
        environment.summary.set("known", change.unchangedCount)
        environment.summary.set("registeredSince", change.supersededCount)
        environment.summary.set("badLines", badLines.count)
        environment.summary.set("leftOut", report.skipped.values.reduce(0) { $0 + UInt64($1) })
        try environment.report(self.text(report, badLines.count))
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
        if badLineCount > 0 { parts.append(badLineCount.counted("bad line")) }
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
