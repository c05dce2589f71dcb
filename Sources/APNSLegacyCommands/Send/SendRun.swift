// SPDX-License-Identifier: Apache-2.0

import APNSJSON
import APNSPayload
import APNSProvider
import APNSProviderHTTP2
import APNSSession
import APNSWire
import Batch
import Dispatch
import Logging
import NIOConcurrencyHelpers
import OpenSSLTLS

/// One run of `apns-legacy send`.
struct SendRun {
    let command: SendCommand
    let environment: CommandEnvironment
    /// Writes a message, unless `--quiet` asks for errors only.
    let emit: @Sendable (Diagnostic) -> Void
    var console: Console { self.environment.console }
    /// How connections are made, and what is known of them.
    let connections: SendConnections

    init(_ command: SendCommand, _ environment: CommandEnvironment) {
        self.command = command
        self.environment = environment
        let (isQuiet, console) = (command.quiet, environment.console)
        let emit: @Sendable (Diagnostic) -> Void = { if !isQuiet { console.emit($0) } }
        self.emit = emit
        self.connections = SendConnections(
            endpoint: command.endpoint,
            client: command.client,
            http2: command.http2,
            limits: command.limits,
            version: command.part.version,
            topicName: command.batch.topic,
            payloadMax: command.batch.payloadMax,
            writesAllResults: command.report.results != nil && !command.report.resultsOnlyExceptions,
            logger: environment.logger(isVerbose: command.verbose),
            emit: emit
        )
    }

    func run() async throws -> ExitStatus {
        let start = ContinuousClock.now
        let tls =
            try self.command.delivery.dryRun && self.command.endpoint.certificate == nil
            ? nil : self.command.endpoint.tls(self.command.client, now: self.environment.now())
        let input = try self.console.open(self.command.batch.path)
        try self.checkOutputs(input)
        try input.begin(expecting: self.command.batch.tokens == nil ? .batch(self.command.batch.inputFormat) : .tokens)
        let payload = try self.command.batch.commonPayload(self.console)
        // Options that cannot be used are reported before any file is changed.
        if let tls, !self.command.delivery.dryRun { _ = try self.connections.sender(tls) }
        if self.command.delivery.dryRun { _ = try self.command.http2.providerToken(self.command.endpoint) }
        // An input that is refused as a whole leaves all files as they are.
        let batch = try OpenedBatch(input, self.reader(payload, tls?.identity))
        let journal = try self.openJournal(input, payload)
        let past = journal.map { $0.past } ?? SendJournal.Past(firstLine: self.command.part.fromLine)
        let leftCount = past.unlistedCount - min(past.unlistedCount, past.listableCount)
        try self.warnOfUnlisted(leftCount, past.outcomeCounts, since: past.beganAt, tls?.identity)
        if let journal, past.isComplete {
            try self.listRejected(batch, journal, tls?.identity)
            return try self.reportComplete(past)
        }
        let purge = try self.purge(tls?.identity)
        defer { purge?.close() }
        let rejections = try purge?.rejections()
        let badLines = BadLines(of: input.name, advice: self.badLinesAdvice, self.emit)
        let batchState = BatchSendState(
            input: input,
            batch: batch,
            results: try self.results(journal),
            policy: self.command.limits.delivery,
            suppressesRejectedTokens: true,
            isDead: purge?.isDead,
            onRejectedToken: rejections?.recorder,
            onEarlierRejectedToken: past.beganAt.flatMap { rejections?.earlierRecorder(since: $0) },
            command: self.connections.frameCommand,
            onDropped: self.reportDropped(from: input.name),
            onBadLine: badLines.add
        )
        let source = SendSource(input: input, batchState: batchState)
        source.prepare()
        self.reportStart(past, self.command.part.fromLine, hasJournal: journal != nil)
        let (ending, failure) = try await self.sendShowingProgress(source, past, tls)
        badLines.finish()
        let progress = source.progress
        let newCount =
            progress.outcomeCounts[.rejected] - min(past.outcomeCounts[.rejected], progress.outcomeCounts[.rejected])
        let rejectedCount = newCount + (rejections?.earlierCount ?? 0)
        var listFailure: CommandFailure?
        do {
            // Of all that ends a batch early, only the circuit breaker has this status.
            let report = try purge?.record(rejections, progress.outcomeCounts, isBroken: ending?.status == .dataError)
            if let report { self.emit("\(report)") }
            if self.command.purge.purgeRejected { try journal?.recordListed(rejectedCount) }
        } catch {
            listFailure = CommandFailure(error)
        }
        var summary = self.summary(source, since: start)
        summary.isResumed = journal != nil && past.settled.count > 0
        summary.hasPurgeList = purge != nil
        self.record(summary)
        if failure == nil, ending == nil { try self.requireNotifications(progress, input) }
        let status = self.report(summary, source, failure ?? ending, past: past.outcomeCounts)
        guard let purge, let listFailure else { return status }
        self.console.emit(listFailure.diagnostic)
        let beganAt = past.beganAt ?? purge.startedAt
        try self.warnOfUnlisted(rejectedCount, progress.outcomeCounts, since: beganAt, tls?.identity)
        return failure == nil && ending == nil ? listFailure.status : status
    }

    private func summary(_ source: SendSource, since start: ContinuousClock.Instant) -> SendSummary {
        let progress = source.progress
        let seconds = (ContinuousClock.now - start) / .seconds(1)
        var summary = SendSummary(outcomeCounts: progress.outcomeCounts, seconds: seconds)
        let isDryRun = self.command.delivery.dryRun
        let isStopped = self.environment.stops.count > 0
        let isIncomplete = !progress.hasReadAll || source.resumePoint != nil
        summary.isInterrupted =
            isDryRun
            ? !progress.hasReadAll && isStopped
            : isIncomplete || isStopped && progress.outcomeCounts[.indeterminate] > 0
        if isDryRun { summary.readyCount = progress.sentCount }
        return summary
    }

    private func reportDropped(from name: String) -> @Sendable (Int, String) -> Void {
        { [emit] in emit(Diagnostic(.warning, at: .init(file: name, line: $0), $1)) }
    }

    private func reportStart(_ past: SendJournal.Past, _ firstLine: UInt64, hasJournal: Bool) {
        if firstLine > 1 { self.emit("Starting at line \(firstLine.grouped).") }
        guard hasJournal, !past.doubted.ranges.isEmpty || past.settled.count > 0 else { return }
        let count = past.settled.count
        self.emit("Resuming: \(count.counted("line")) already \(count == 1 ? "has" : "have") an outcome.")
    }

    /// Refuses a `--from-line` behind the end, since a mistyped line must not pass for a batch without errors.
    ///
    /// The line after the last one is where a run continues that was stopped when it had just sent everything.
    private func requireNotifications(_ progress: SendProgress, _ input: SendInput) throws {
        let line = self.command.part.fromLine
        guard line > 1, progress.hasReadAll, progress.outcomeCounts.total == 0, progress.sentCount == 0,
            line != progress.lineCount + 1
        else { return }
        let text = "--from-line \(line): \(input.name) has no notification from this line on; nothing was sent"
        throw CommandFailure(.dataError, text)
    }

    /// Refuses an output that is also an input, or two outputs to one file.
    private func checkOutputs(_ input: SendInput) throws {
        let (endpoint, batch) = (self.command.endpoint, self.command.batch)
        let read = [
            batch.input, batch.tokens, batch.payload, endpoint.certificate, endpoint.key, endpoint.passphraseFile,
            self.command.client.trust, self.command.http2.p8Key,
        ]
        // SQLite writes two files next to the list.
        let lists = self.command.purge.purgeList.map { list in ["", "-wal", "-shm"].map { list + $0 } } ?? []
        let written = [
            ("--results", self.command.report.results), ("--journal", self.command.delivery.journal),
            ("--metrics-file", self.command.metrics.metricsFile),
        ]
        let outputs = written.compactMap { option, path in path.map { (option: option, path: $0) } }
        try input.check(outputs: outputs.filter { $0.path != "-" }, read: read.compactMap { $0 } + lists)
    }

    // MARK: What to send

    private func reader(_ payload: [UInt8]?, _ identity: TLSIdentity?) throws -> BatchReader {
        var options = BatchOptions(now: UInt32(clamping: self.environment.now()))
        options.rules = PayloadRules(byteCountMax: self.connections.payloadByteCountMax(identity))
        options.commonPayload = payload
        options.fixedTopic = self.connections.fixedTopic(identity)
        options.requestFields = self.connections.requestFields(
            identity,
            hasPurgeList: self.command.purge.purgeList != nil
        )
        return try self.command.batch.reader(options)
    }

    /// Where to find the invalid lines that are not reported.
    private var badLinesAdvice: String {
        let (report, delivery) = (self.command.report, self.command.delivery)
        if delivery.dryRun, delivery.journal != nil { return "for all of them, omit --journal and add --results FILE" }
        switch report.results {
        case nil where delivery.dryRun: return "for all of them, add --results FILE"
        case nil, "-": return "all are in the results on standard output"
        case let path?: return "all are in \(path)"
        }
    }

    private func openJournal(_ input: SendInput, _ payload: [UInt8]?) throws -> SendJournal? {
        guard let path = self.command.delivery.journal else { return nil }
        if self.command.delivery.dryRun {
            try SendJournal.checkKind(path)
            return nil
        }
        return try SendJournal(path: path, of: input, payload: payload, results: self.command.report.results)
    }

    private func results(_ journal: SendJournal?) throws -> SendResults {
        let report = self.command.report
        let isDryRun = self.command.delivery.dryRun
        // The journal describes the results file, so a dry run does not change that.
        let isLeft = isDryRun && self.command.delivery.journal != nil
        return try SendResults(
            path: isLeft ? nil : isDryRun ? report.results : (report.results ?? "-"),
            isOnlyExceptions: report.resultsOnlyExceptions || report.results == nil,
            journal: journal,
            firstLine: self.command.part.fromLine,
            retriesIndeterminate: self.command.limits.delivery == .atLeastOnce,
            onOperation: self.console.onOutput,
            standardOutput: self.console.outputDescriptor
        )
    }

    // MARK: Sending

    private func sendShowingProgress(
        _ source: SendSource,
        _ past: SendJournal.Past,
        _ tls: TLSConfiguration?
    ) async throws -> (CommandFailure?, files: CommandFailure?) {
        let (isDryRun, monitor) = (self.command.delivery.dryRun, self.connections.monitor)
        var display: ProgressDisplay?
        if !self.command.quiet {
            display = ProgressDisplay(
                self.environment,
                isPlain: self.command.verbose,
                delay: isDryRun ? .seconds(1) : .zero
            ) {
                ProgressSnapshot(
                    source.progress,
                    earlierCounts: past.outcomeCounts,
                    connection: monitor.state(at: .now),
                    isDryRun: isDryRun
                )
            }
        }
        defer { display?.end() }
        return try await self.send(source, isDryRun ? nil : tls)
    }

    /// Sends, and ends the files, which may wait for their reader: signals are heard until then.
    ///
    /// Returns why not everything was tried, and why a file could not be written, if so.
    private func send(
        _ source: SendSource,
        _ tls: TLSConfiguration?
    ) async throws -> (CommandFailure?, files: CommandFailure?) {
        var reaction = StopReaction(
            first: "Stopping: waiting for the outcome of what was sent; a second signal stops at once.",
            onFirst: { source.end() },
            last: "stopped at once, without a summary; the outcome of what was sent last is unknown",
            endDuration: Self.endDuration
        )
        if tls == nil {
            reaction.first = "Stopping: nothing was sent; a second signal stops at once."
            reaction.last = "stopped at once; nothing was sent"
        }
        if self.command.quiet { reaction.first = nil }
        let sender = try tls.map { try self.connections.sender($0) }
        return try await self.environment.stoppable(reaction) {
            var failure: CommandFailure?
            if let sender {
                do throws(ProviderError) {
                    try await sender.run(source)
                } catch {
                    failure = CommandFailure(error)
                    source.settleUngiven(error.reason)
                }
            } else {
                try await self.environment.blocking { source.readThrough() }
            }
            return (failure, files: source.finish().map { CommandFailure($0) })
        }
    }

    /// How long stopping at once may take.
    private static let endDuration = DispatchTimeInterval.seconds(10)
}
