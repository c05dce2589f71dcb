// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import APNSSession
import APNSWire
import BatchFiles
import Glibc
import NIOConcurrencyHelpers
import OpenSSLTLS

extension SendRun {
    /// Reports the end of a run.
    ///
    /// - Parameters:
    ///   - summary: the outcomes.
    ///   - source: the batch, of which everything that was taken has its outcome.
    ///   - failure: why not everything was tried; `nil` where everything was.
    /// - Returns: the exit code.
    /// - Throws: an error of the console.
    func report(
        _ summary: SendSummary,
        _ source: SendSource,
        _ failure: CommandFailure?
    ) throws -> ExitStatus {
        if let failure {
            self.console.say("apns-legacy send: \(self.text(of: failure))")
            self.environment.summary.set("error", failure.description)
        }
        if self.command.delivery.dryRun {
            // An input that is refused as a whole has nothing to count.
            if let failure, source.progress.sentCount == 0, summary.outcomeCounts.total == 0 { return failure.status }
            let count = source.progress.sentCount.counted("notification")
            let bad = summary.outcomeCounts[.invalid].counted("invalid line")
            let dead = summary.outcomeCounts[.suppressed]
            let remark = dead > 0 ? ", \(dead.counted("token")) on the purge list" : ""
            self.say("\(count) ready to send, \(bad)\(remark). Nothing was sent.")
            return failure?.status ?? (summary.outcomeCounts.total == 0 ? .success : .someRefused)
        }
        self.say(summary.text)
        let command = self.continueCommand
        for line in self.stopReport(source.resumePoint, summary.outcomeCounts, command) { self.say(line) }
        guard let failure, failure.status != .tryAgain else { return ExitStatus(summary) }
        return failure.status
    }

    /// Why not everything was tried, without what was reported already.
    private func text(of failure: CommandFailure) -> String {
        let count = self.command.delivery.giveUpAfter
        guard failure.status == .unavailable, !self.command.report.quiet, count > 1,
            let last = self.lastFailure.withLockedValue({ $0 }), failure.connection == last
        else { return failure.description }
        return "gave up after \(count.grouped) failed connections in a row (--give-up-after \(count))"
    }

    // MARK: Stopped early

    /// What is left, and how to continue, in a line each; empty where nothing is left.
    private func stopReport(
        _ point: ResumePoint?,
        _ counts: OutcomeCounts,
        _ command: ContinueCommand
    ) -> [String] {
        let hasJournal = self.command.delivery.journal != nil
        let isResending = hasJournal && self.command.delivery.delivery == .atLeastOnce
        var lines: [String] = []
        if self.signalCount.withLockedValue({ $0 }) > 1, counts[.indeterminate] > 0 {
            let count = counts[.indeterminate].counted("notification")
            let rest = isResending ? "the next run sends them again, as possible duplicates" : self.resultsPlace
            lines.append("Stopped at once: \(count) may have arrived, the outcome is unknown; \(rest).")
        }
        if hasJournal {
            guard point != nil || isResending && counts[.indeterminate] > 0 else { return lines }
            let place = point.map { $0.isAtBeginning ? "" : ", \(self.place($0))" } ?? ""
            return lines + ["Stopped early\(place); to continue: \(command.sameCommand)"] + self.passwordLines(command)
        }
        guard let point else { return lines }
        lines += self.continueLines(point, command)
        let open = [(point.unsentCount, "unsent"), (point.indeterminateCount, "indeterminate")].filter { $0.0 > 0 }
        if !open.isEmpty, !point.isAtBeginning {
            let counts = open.map { "\($0.0.grouped) \($0.1)" }.joined(separator: ", ")
            lines.append("Not continued, up to line \(point.position.nextLine - 1): \(counts); \(self.resultsPlace).")
        }
        return lines
    }

    /// How a run without a journal continues.
    private func continueLines(_ point: ResumePoint, _ command: ContinueCommand) -> [String] {
        let place = self.place(point)
        guard !point.isAtBeginning else { return ["Stopped early, \(place); to start again, run the same command."] }
        let line = point.position.nextLine
        // What a pipe gave is gone.
        guard Self.isFile(self.inputPath) else {
            return [
                "Stopped early, \(place); to continue, send the same input again with --from-line \(line).",
                "With a file as input, --journal FILE makes this automatic.",
            ]
        }
        return ["Stopped early, \(place); to continue: \(command.rest(from: line))"] + self.passwordLines(command)
            + ["With --journal FILE, the same command continues where it stopped."]
    }

    private func passwordLines(_ command: ContinueCommand) -> [String] {
        command.hidesPassword ? ["In this command, replace PASSWORD by the password of the proxy."] : []
    }

    private func place(_ point: ResumePoint) -> String {
        let name = self.inputPath == "-" ? "standard input" : self.inputPath
        return point.isAtBeginning
            ? "before the first line of \(name)" : "after line \(point.position.nextLine - 1) of \(name)"
    }

    /// Where the results are of what has no verified outcome.
    private var resultsPlace: String {
        let path = self.command.report.results ?? "-"
        return path == "-" ? "their results are on standard output" : "their results are in \(path)"
    }

    /// Whether a path leads to a file, not to a pipe or a device.
    private static func isFile(_ path: String) -> Bool {
        var status = stat()
        return unsafe path != "-" && stat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFREG
    }

    private var inputPath: String { self.command.batch.tokens ?? self.command.batch.input ?? "-" }

    private var continueCommand: ContinueCommand {
        ContinueCommand(
            commandLine: self.environment.commandLine,
            results: self.command.report.results.flatMap { Self.isFile($0) ? $0 : nil }
        ) { path in unsafe access(path, F_OK) == 0 }
    }

    /// The list of dead tokens to compare the batch with; `nil` where none is named.
    func purge(_ identity: TLSIdentity?) throws -> SendPurge? {
        let options = self.command.purge
        guard let path = options.purgeList else { return nil }
        return try SendPurge(
            list: path,
            scopes: try options.scopes(self.command, identity),
            recordsRejected: options.purgeRejected,
            startedAt: self.environment.now()
        )
    }

    /// Reports what is not on the purge list, even with `--quiet`: dead tokens would stay in use.
    func warnOfUnlisted(
        _ count: UInt64,
        _ outcomeCounts: OutcomeCounts,
        since beganAt: Int64?,
        _ identity: TLSIdentity?
    ) throws {
        let options = self.command.purge
        guard options.purgeRejected, let list = options.purgeList, count > 0 else { return }
        let advice = SendPurge.advice(
            list: list,
            scope: try options.scopes(self.command, identity)[0],
            results: self.command.report.results,
            count: count,
            acceptedCount: outcomeCounts[.accepted],
            beganAt: beganAt
        )
        self.console.say(advice)
    }

    func reportComplete(_ past: SendJournal.Past) throws -> ExitStatus {
        if let results = self.command.report.results { try SendResults.check(results, past) }
        var summary = SendSummary(outcomeCounts: past.outcomeCounts, seconds: 0)
        summary.isResumed = true
        self.onSummary(summary)
        let path = self.command.delivery.journal ?? "the journal"
        self.say("This batch is complete, so nothing was sent. To send all of it again, delete \(path).")
        self.say(summary.text)
        self.environment.summary.set(object: summary.json)
        return ExitStatus(summary)
    }
}
