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

    @Argument(help: ArgumentHelp("A file, or - for standard input.", valueName: "input"))
    var input: String

    @Option(help: ArgumentHelp("The format, where name and first line do not tell.", valueName: "jsonl|csv|tokens"))
    var format: BatchFormat?

    @Option(help: ArgumentHelp("The topic of lines that have none.", valueName: "bundle-id"))
    var topic: String?

    @Option(help: ArgumentHelp("The environment of lines that have none.", valueName: "production|sandbox"))
    var environment: Environment?

    @Option(
        help: ArgumentHelp(
            "When tokens failed whose lines do not say it: now, a time, or an age such as 1d.",
            valueName: "time"
        )
    )
    var failedAt: TimeText?

    @Flag(help: "Take BadDeviceToken for dead too. Tokens of the wrong environment are all bad, and alive.")
    var includeBadDeviceTokens = false

    /// So many entries are recorded in one transaction.
    private static let portionCount = 65_536
    /// So many reasons are counted one by one.
    private static let reasonCountMax = 32

    func run(in environment: CommandEnvironment) throws -> ExitStatus {
        let input = try environment.console.open(self.input)
        guard !input.isSameFile(as: self.file.purgeList) else {
            throw CommandFailure(.usage, "\(self.input) is the list itself.")
        }
        let list = try self.file.open(isMade: true)
        var reader = PurgeLineReader(input)
        let name = reader.name
        let format = self.format ?? BatchFormat(fileName: self.input)
        var importing = PurgeImport(format: format, defaults: self.defaults(now: environment.now()))
        var problems = PurgeProblems(name: name, environment.console)
        var change = PurgeChange()
        var skipped: [String: UInt64] = [:]
        var portion: [PurgeEntry] = []
        try reader.forEachLine(onProblem: { problems.add($0, line: $1) }) { text, line in
            let outcome = try importing.read(text)
            guard !importing.lacksTokens else {
                throw CommandFailure(
                    .dataError,
                    "\(name), line \(line): the header has no column token; are its columns separated by commas?"
                )
            }
            guard !importing.lacksTimes else {
                throw CommandFailure(
                    .usage,
                    "Nothing in \(name) says when its tokens failed. Say it with --failed-at: now, a time, or an age "
                        + "such as 1d. A row that registered later is not pruned."
                )
            }
            switch outcome {
            case .entry(let entry): portion.append(entry)
            case .skipped(let reason):
                let isListed = skipped[reason] != nil || skipped.count < Self.reasonCountMax
                skipped[isListed ? reason : "other reasons", default: 0] += 1
            case .header: break
            case .problem(let problem): problems.add(problem, line: line)
            }
            guard portion.count >= Self.portionCount else { return }
            change += try list.record(portion)
            portion.removeAll(keepingCapacity: true)
        }
        change += try list.record(portion)
        return try self.report(change, skipped, problems, environment.console)
    }

    private func defaults(now: Int64) -> PurgeImport.Defaults {
        let name = self.input.split(separator: "/").last.map(String.init) ?? self.input
        return PurgeImport.Defaults(
            topic: self.topic,
            environment: self.environment,
            failedAt: self.failedAt?.seconds,
            source: "import:\(self.input == "-" ? "stdin" : name)",
            now: now,
            includesBadDeviceTokens: self.includeBadDeviceTokens
        )
    }

    private func report(
        _ change: PurgeChange,
        _ skipped: [String: UInt64],
        _ problems: PurgeProblems,
        _ console: Console
    ) throws -> ExitStatus {
        let superseded = change.supersededCount
        var parts = [
            "\(SendSummary.counted(UInt64(change.addedCount), "token")) added",
            "\(SendSummary.grouped(UInt64(change.updatedCount))) updated",
            "\(SendSummary.grouped(UInt64(change.unchangedCount))) known",
        ]
        if superseded > 0 { parts.append("\(SendSummary.grouped(UInt64(superseded))) registered since") }
        if problems.count > 0 { parts.append(SendSummary.counted(problems.count, "bad line")) }
        var text = parts.joined(separator: ", ") + "\n"
        for (reason, count) in skipped.sorted(by: { $0.key < $1.key }) {
            let name = PurgeImportCommand.isPlain(reason) ? reason : "other reasons"
            text += "\(SendSummary.counted(count, "line")) left out: \(name)\n"
        }
        try console.write(text)
        guard problems.count > 0 else { return .success }
        let isNothing = change == PurgeChange() && skipped.isEmpty
        return isNothing ? .dataError : .someRefused
    }

    /// Whether a reason looks like one, and not like a token or what breaks a terminal.
    private static func isPlain(_ reason: String) -> Bool {
        (1...32).contains(reason.utf8.count) && reason.allSatisfy { $0.isASCII && ($0.isLetter || $0 == " ") }
    }
}
