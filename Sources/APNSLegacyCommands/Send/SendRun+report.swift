// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import APNSSession
import APNSWire
import Batch
import GatewayService
import Glibc
import NIOConcurrencyHelpers
import OpenSSLTLS

extension SendRun {
    /// Reports the end of a run.
    func report(
        _ summary: SendSummary,
        _ source: SendSource,
        _ failure: CommandFailure?,
        past: OutcomeCounts
    ) -> ExitStatus {
        let counts = summary.outcomeCounts
        let hasOutcome = counts.total > past.total
        let isUnsent = counts.total - counts[.unsent] <= past.total && counts.possibleDuplicateCount == 0
        if let failure {
            self.console.emit(self.diagnostic(of: failure))
            self.environment.summary.set("error", failure.description)
            // The same would happen again, and the error says what to do about it.
            let isComplete = source.progress.hasReadAll || counts.total == past.total
            if isUnsent, isComplete, summary.readyCount ?? 0 == 0, Self.permanent.contains(failure.status) {
                return failure.status
            }
        }
        if failure == nil, source.progress.hasReadAll, source.progress.sentCount == 0, summary.outcomeCounts.total == 0
        {
            self.reportNothingToSend(source.progress)
            return .success
        }
        if self.command.delivery.dryRun { return self.reportDryRun(summary, source, failure) }
        // Without a sent one, the indeterminate notifications are of an earlier run.
        if failure == nil, counts.addsOnlyIndeterminate(to: past), source.progress.sentCount > 0,
            self.command.http2.transport == .binary, self.environment.stops.count == 0
        {
            self.reportNothingVerified()
        }
        if failure == nil || hasOutcome { self.emit("\(summary.text)") }
        if !source.isFileLost {
            self.reportStop(source.resumePoint, summary.outcomeCounts)
        }
        guard let failure, failure.status != .tryAgain else { return ExitStatus(summary) }
        return failure.status
    }

    /// What another run with the same input and options fails with, too.
    private static let permanent: Set<ExitStatus> = [.dataError, .notPermitted, .configuration]

    /// Warns that a batch has no notifications, which a job that exports them may have left out by mistake.
    private func reportNothingToSend(_ progress: SendProgress) {
        let line = self.command.part.fromLine
        guard line == 1 else {
            // With `--quiet`, too: the line may be mistyped.
            let sentence = "--from-line \(line): \(self.inputName) ends before this line: nothing to send"
            return self.console.emit(.warning(sentence))
        }
        let what = progress.hasContent ? "has no notifications" : "is empty"
        self.emit(.warning("\(self.inputName) \(what): nothing to send"))
    }

    /// Explains that no outcome came, where no notification was left to find out why.
    private func reportNothingVerified() {
        let names = self.command.endpoint.certificate.map { "certificate \($0)" } ?? "the certificate"
        self.console.emit(
            .error(
                "every connection ended before any outcome was known; check that the port is for sending, not "
                    + "feedback, and that \(names) is for this app and environment",
                .tryAgain
            )
        )
    }

    private func reportDryRun(_ summary: SendSummary, _ source: SendSource, _ failure: CommandFailure?) -> ExitStatus {
        let count = source.progress.sentCount.counted("notification")
        let bad = summary.outcomeCounts[.invalid].counted("invalid line")
        let dead = summary.outcomeCounts[.suppressed]
        let remark = dead > 0 ? ", \(dead.counted("token")) on the purge list" : ""
        self.emit("\(count) ready to send, \(bad)\(remark). Nothing was sent.")
        if let failure { return failure.status }
        guard let point = source.resumePoint else {
            return summary.outcomeCounts.total == 0 ? .success : .someRefused
        }
        self.warn("Stopped early, \(self.place(point)); to check all of it, run the same command again.")
        return .tryAgain
    }

    /// Why not everything was tried, without what was reported already.
    private func diagnostic(of failure: CommandFailure) -> Diagnostic {
        let count = self.command.limits.giveUpAfter
        guard failure.status == .unavailable, !self.command.quiet, count > 1,
            let last = self.connections.lastFailure.withLockedValue({ $0 }), failure.connection == last
        else {
            var diagnostic = failure.diagnostic
            diagnostic.endpoint = failure.connection.flatMap(self.connections.address)
            return diagnostic
        }
        var diagnostic = Diagnostic.error(
            "gave up after \(count.grouped) failed connections in a row (--give-up-after \(count))",
            failure.status
        )
        diagnostic.cause = failure.diagnostic.cause
        return diagnostic
    }

    // MARK: Stopped early

    private func warn(_ sentence: String) { self.console.emit(Diagnostic(.warning, sentence)) }

    /// Reports what a run that stopped early left, and how to continue; with `--quiet`, too: the batch is not done.
    private func reportStop(_ point: ResumePoint?, _ counts: OutcomeCounts) {
        let (command, summary) = (self.continueCommand, self.environment.summary)
        let hasJournal = self.command.delivery.journal != nil
        let isResending = hasJournal && self.command.limits.delivery == .atLeastOnce
        if let point { summary.set("continueFromLine", point.isAtBeginning ? 1 : point.position.nextLine) }
        if self.environment.stops.count > 1, counts[.indeterminate] > 0 {
            let count = counts[.indeterminate].counted("notification")
            let rest = isResending ? "the next run sends them again, as possible duplicates" : self.resultsPlace
            self.warn("Stopped at once: \(count) may have arrived, but the outcome is unknown; \(rest).")
        }
        if hasJournal {
            let isLeft = counts[.unsent] > 0 || isResending && counts[.indeterminate] > 0
            guard point != nil || isLeft else { return }
            let place = point.map { $0.isAtBeginning ? "" : ", \(self.place($0))" } ?? ""
            summary.set("continueCommand", command.sameCommand)
            self.warn("Stopped early\(place); to continue: \(command.sameCommand)")
            self.reportPassword(command)
        } else if let point {
            self.reportContinuation(from: point, command)
        } else if counts[.unsent] > 0 {
            let count = counts[.unsent].counted("notification")
            self.warn("Not everything was sent: \(count) unsent; \(self.resultsPlace).")
        }
    }

    /// Reports how a run without a journal continues, and what the command that continues does not send again.
    private func reportContinuation(from point: ResumePoint, _ command: ContinueCommand) {
        let (place, line, isFile) = (self.place(point), point.position.nextLine, Self.isFile(self.inputPath))
        let next = point.isAtBeginning ? command.sameCommand : command.rest(from: line)
        if isFile { self.environment.summary.set("continueCommand", next) }
        guard !point.isAtBeginning else {
            return self.warn("Stopped early, \(place); to start again, run the same command.")
        }
        let again = "to continue, send the same input again with --from-line \(line)."
        self.warn("Stopped early, \(place); \(isFile ? "to continue: \(next)" : again)")
        let open = [(point.unsentCount, "unsent"), (point.indeterminateCount, "indeterminate")].filter { $0.0 > 0 }
        if !open.isEmpty {
            let counts = open.map { "\($0.0.counted("\($0.1) notification"))" }.joined(separator: " and ")
            self.console.emit("The command skips \(counts) up to line \(line - 1); \(self.resultsPlace).")
        }
        if isFile { self.reportPassword(command) }
        self.emit(
            isFile
                ? "With --journal FILE, the same command continues where it stopped."
                : "With a file as input, --journal FILE makes this automatic."
        )
    }

    private func reportPassword(_ command: ContinueCommand) {
        if command.hidesPassword { self.emit("In this command, replace PASSWORD by the password of the proxy.") }
    }

    private func place(_ point: ResumePoint) -> String {
        point.isAtBeginning
            ? "before the first line of \(self.inputName)"
            : "after line \(point.position.nextLine - 1) of \(self.inputName)"
    }

    private var inputName: String { self.inputPath == "-" ? "standard input" : self.inputPath }

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

    private var inputPath: String { self.command.batch.path }

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
        let purge = try SendPurge(
            list: path,
            scopes: try options.scopes(self.command, identity),
            recordsRejected: options.purgeRejected,
            startedAt: self.environment.now()
        )
        try self.console.warn(of: purge.list)
        return purge
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
        self.console.emit(advice)
    }

    /// Adds the tokens that a killed run left to the purge list, once the batch is complete.
    func listRejected(
        _ batch: consuming OpenedBatch,
        _ journal: SendJournal,
        _ identity: TLSIdentity?
    ) throws {
        let past = journal.past
        guard self.command.purge.purgeRejected, past.listableCount > 0, let beganAt = past.beganAt,
            let purge = try self.purge(identity)
        else { return }
        defer { purge.close() }
        let rejections = try purge.rejections()
        if let rejections {
            try batch.forEachRejected(past, rejections.earlierRecorder(since: beganAt))
        }
        let report = try purge.record(rejections, past.outcomeCounts, isBroken: false)
        if let report { self.emit("\(report)") }
        try journal.recordListed(rejections?.earlierCount ?? 0)
    }

    /// Records the outcomes for the summary and the metrics file.
    func record(_ summary: SendSummary) {
        self.environment.summary.set(summary.json)
        let counts = summary.outcomeCounts
        func sample(_ name: String, _ dimensions: [(String, String)], _ count: UInt64) -> GatewayMetrics.Sample {
            GatewayMetrics.Sample(name: "apns_legacy_send_\(name)", dimensions: dimensions, value: Double(count))
        }
        let outcomes = DeliveryOutcome.Kind.allCases.map {
            sample("notifications", [("outcome", "\($0.name)")], counts[$0])
        }
        let statuses = counts.statuses.map { sample("rejections", [("status", "\($0)")], $1) }
        let duplicates = sample("possible_duplicates", [], counts.possibleDuplicateCount)
        self.environment.samples.withLockedValue { $0 = outcomes + statuses + [duplicates] }
    }

    func reportComplete(_ past: SendJournal.Past) throws -> ExitStatus {
        if let results = self.command.report.results { try SendResults.check(results, past) }
        var summary = SendSummary(outcomeCounts: past.outcomeCounts, seconds: 0)
        summary.isResumed = true
        let path = self.command.delivery.journal ?? "the journal"
        self.emit("This batch is complete, so nothing was sent. To send all of it again, delete \(path).")
        self.emit("\(summary.text)")
        self.record(summary)
        return ExitStatus(summary)
    }
}
