// SPDX-License-Identifier: Apache-2.0

import APNSPayload
import APNSProvider
import APNSProviderHTTP2
import APNSSession
import APNSWire
import BatchFiles
import Dispatch
import Logging
import NIOConcurrencyHelpers
import OpenSSLTLS
import UnixSignals

/// One run of `apns-legacy send`.
struct SendRun {
    let command: SendCommand
    let environment: CommandEnvironment
    /// Writes a message, unless `--quiet` asks for errors only.
    let say: @Sendable (String) -> Void
    let onSummary: @Sendable (SendSummary) -> Void
    var console: Console { self.environment.console }
    /// Follows the connections, for the progress bar.
    let monitor = ConnectionMonitor()
    /// The failure to connect that was reported last.
    let lastFailure = NIOLockedValueBox<ConnectionFailure?>(nil)
    /// How many signals asked this run to stop.
    let signalCount = NIOLockedValueBox(0)

    /// - Parameters:
    ///   - command: the command line.
    ///   - environment: the process that the command runs in.
    ///   - onSummary: is given the outcomes of the batch, if it came that far.
    init(
        _ command: SendCommand,
        _ environment: CommandEnvironment,
        onSummary: @escaping @Sendable (SendSummary) -> Void = { _ in }
    ) {
        self.onSummary = onSummary
        self.command = command
        self.environment = environment
        let (isQuiet, console) = (command.report.quiet, environment.console)
        self.say = { if !isQuiet { console.say($0) } }
    }

    func run() async throws -> ExitStatus {
        let start = ContinuousClock.now
        let tls =
            try self.command.delivery.dryRun && self.command.endpoint.certificate == nil
            ? nil : self.command.endpoint.tls(now: self.environment.now())
        let input = try self.console.open(self.command.batch.tokens ?? self.command.batch.input ?? "-")
        try self.checkOutputs(input)
        try input.begin(expecting: self.command.batch.tokens == nil ? .batch(self.format) : .tokens)
        let payload = try self.commonPayload()
        // Options that cannot be used are reported before any file is changed.
        if let tls, !self.command.delivery.dryRun { _ = try self.sender(tls) }
        if self.command.delivery.dryRun { _ = try self.command.http2.providerToken(self.command.endpoint) }
        let journal = try self.openJournal(input, payload)
        let firstLine = self.command.batch.fromLine
        let past = journal.map { $0.past } ?? SendJournal.Past(firstLine: firstLine)
        try self.warnOfUnlisted(past.unlistedCount, past.outcomeCounts, since: past.beganAt, tls?.identity)
        if past.isComplete { return try self.reportComplete(past) }
        let purge = try self.purge(tls?.identity)
        defer { purge?.close() }
        let rejections = try purge?.rejections()
        let badLines = BadLines(of: input.name, advice: self.badLinesAdvice, self.say)
        let batchState = BatchSendState(
            input: input,
            reader: try self.reader(payload, tls?.identity),
            results: try self.results(journal),
            policy: self.command.delivery.delivery,
            suppressesRejectedTokens: true,
            isDead: purge?.isDead,
            onRejectedToken: rejections?.take,
            command: self.frameCommand,
            onDropped: self.say,
            onBadLine: badLines.add
        )
        let source = SendSource(input: input, batchState: batchState)
        source.prepare()
        self.sayStart(past, firstLine, hasJournal: journal != nil)
        let (ending, failure) = try await self.sendShowingProgress(source, past, tls)
        badLines.finish()
        let progress = source.progress
        let rejectedCount =
            progress.outcomeCounts[.rejected] - min(past.outcomeCounts[.rejected], progress.outcomeCounts[.rejected])
        var listFailure: CommandFailure?
        do {
            // Of all that ends a batch early, only the circuit breaker has this status.
            let isBroken = ending?.status == .dataError
            let report = try purge?.record(rejections, progress.outcomeCounts, isBroken: isBroken)
            if let report { self.say(report.description) }
            if self.command.purge.purgeRejected { try journal?.recordListed(rejectedCount) }
        } catch {
            listFailure = CommandFailure(error)
        }
        var summary = SendSummary(
            outcomeCounts: progress.outcomeCounts,
            seconds: (ContinuousClock.now - start) / .seconds(1)
        )
        summary.isResumed = journal != nil && past.settled.count > 0
        summary.hasPurgeList = purge != nil
        summary.isInterrupted = !self.command.delivery.dryRun && !progress.hasReadAll
        self.onSummary(summary)
        self.environment.summary.set(object: summary.json)
        if failure == nil, ending == nil { try self.requireNotifications(progress, input) }
        let status = try self.report(summary, source, failure ?? ending)
        guard let purge, let listFailure else { return status }
        self.console.say("apns-legacy send: \(listFailure)")
        let beganAt = past.beganAt ?? purge.startedAt
        try self.warnOfUnlisted(rejectedCount, progress.outcomeCounts, since: beganAt, tls?.identity)
        return failure == nil && ending == nil ? listFailure.status : status
    }

    private func sayStart(_ past: SendJournal.Past, _ firstLine: UInt64, hasJournal: Bool) {
        if firstLine > 1 { self.say("Starting at line \(firstLine.grouped).") }
        guard hasJournal, !past.doubted.ranges.isEmpty || past.settled.count > 0 else { return }
        self.say("Resuming: \(past.settled.count.counted("line")) already have an outcome.")
    }

    /// Refuses a `--from-line` behind the end, since a mistyped line must not pass for a batch without errors.
    private func requireNotifications(_ progress: SendProgress, _ input: SendInput) throws {
        let line = self.command.batch.fromLine
        guard line > 1, progress.hasReadAll, progress.outcomeCounts.total == 0, progress.sentCount == 0 else { return }
        let text = "--from-line \(line): \(input.name) has no notification from this line on; nothing was sent"
        throw CommandFailure(.dataError, text)
    }

    /// Refuses an output that is also an input, or two outputs to one file.
    private func checkOutputs(_ input: SendInput) throws {
        let (endpoint, batch) = (self.command.endpoint, self.command.batch)
        let read = [
            batch.input, batch.tokens, batch.payload, endpoint.certificate, endpoint.key, endpoint.passphraseFile,
            endpoint.trust, self.command.purge.purgeList, self.command.http2.p8Key,
        ]
        let written = [
            ("--results", self.command.report.results), ("--journal", self.command.delivery.journal),
            ("--metrics-file", self.command.report.metricsFile),
        ]
        let outputs = written.compactMap { option, path in path.map { (option: option, path: $0) } }
        try input.check(outputs: outputs.filter { $0.path != "-" }, read: read.compactMap { $0 })
    }

    // MARK: What to send

    private func commonPayload() throws -> [UInt8]? {
        if let alert = self.command.batch.alert {
            return Array("{\"aps\":{\"alert\":\(JSONWriter.quoted(alert))}}".utf8)
        }
        guard let path = self.command.batch.payload else { return nil }
        let bytes = try self.console.open(path).readAll(byteCountMax: SendRun.payloadFileByteCountMax)
        if let bytes { return bytes }
        throw CommandFailure(.dataError, "\(path) is too large for a payload (limit: 1 MiB)")
    }

    /// White space does not count, so the file may be longer than the payload.
    private static let payloadFileByteCountMax = 1 << 20

    private func reader(_ payload: [UInt8]?, _ identity: TLSIdentity?) throws -> BatchReader {
        var options = BatchOptions(now: UInt32(clamping: self.environment.now()))
        options.rules = PayloadRules(byteCountMax: self.payloadByteCountMax(identity))
        options.commonPayload = payload
        options.columns = try self.command.batch.columns.names()
        options.ignoresUnknownColumns = self.command.batch.columns.ignoreUnknownColumns
        do {
            return try BatchReader(format: self.format, options: options)
        } catch {
            throw CommandFailure(
                .dataError,
                self.command.batch.payload.map { "\($0), \(error)" } ?? "--alert: \(error)"
            )
        }
    }

    /// The format of the batch; `nil` if its first line decides.
    private var format: BatchFormat? {
        if self.command.batch.tokens != nil { return .tokens }
        return self.command.batch.format ?? self.command.batch.input.flatMap { BatchFormat(fileName: $0) }
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
        guard let path = self.command.delivery.journal, !self.command.delivery.dryRun else { return nil }
        return try SendJournal(path: path, of: input, payload: payload, results: self.command.report.results)
    }

    /// The most memory for frames without a verified outcome, in bytes, if each has a line in the results.
    static let storeByteCountMaxWithResults = 8 << 20

    /// Whether what was accepted has results, too.
    var writesAllResults: Bool {
        self.command.report.results != nil && !self.command.report.resultsOnlyExceptions
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
            firstLine: self.command.batch.fromLine,
            retriesIndeterminate: self.command.delivery.delivery == .atLeastOnce,
            operations: self.console.outputOperations,
            standardOutput: self.console.outputDescriptor
        )
    }

    // MARK: Sending

    /// What came to its end.
    private enum Part: Sendable {
        case sending(CommandFailure?, files: CommandFailure?)
        case other
    }

    private func sendShowingProgress(
        _ source: SendSource,
        _ past: SendJournal.Past,
        _ tls: TLSConfiguration?
    ) async throws -> (CommandFailure?, files: CommandFailure?) {
        let (isDryRun, monitor) = (self.command.delivery.dryRun, self.monitor)
        var display: ProgressDisplay?
        if !self.command.report.quiet {
            display = ProgressDisplay(
                self.environment,
                isPlain: self.command.report.verbose,
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
        if isDryRun { source.readThrough() }
        return try await self.send(source, isDryRun ? nil : tls)
    }

    /// Sends, and ends the files, which may wait for their reader: signals are heard until then.
    ///
    /// - Returns: why not everything was tried, and why a file could not be written, if so.
    private func send(
        _ source: SendSource,
        _ tls: TLSConfiguration?
    ) async throws -> (CommandFailure?, files: CommandFailure?) {
        guard let tls else { return (nil, source.finish().map { CommandFailure($0) }) }
        let sender = try self.sender(tls)
        // Before anything is sent: a signal that comes earlier would end the process without a summary.
        let signals = await self.environment.signals([.sigint, .sigterm])
        return await withThrowingTaskGroup(of: SendRun.Part.self) { group in
            group.addTask {
                var failure: CommandFailure?
                do throws(ProviderError) {
                    try await sender.run(source)
                } catch {
                    failure = CommandFailure(error)
                    source.settleUngiven(error.reason)
                }
                return .sending(failure, files: source.finish().map { CommandFailure($0) })
            }
            group.addTask {
                for await _ in signals {
                    let count = self.signalCount.withLockedValue { count in
                        count += 1
                        return count
                    }
                    guard count == 1 else {
                        self.endSoon()
                        throw CancellationError()
                    }
                    // Without asking the source, which may wait for the reader of the results.
                    self.console.briefly { _ in
                        self.say("Stopping: waiting for the outcome of what was sent; a second signal stops at once.")
                    }
                    source.end()
                }
                return .other
            }
            defer { group.cancelAll() }
            while let next = await group.nextResult() {
                switch next {
                case .success(.sending(let failure, let files)): return (failure, files)
                case .success(.other): continue
                case .failure: group.cancelAll()
                }
            }
            return (nil, nil)
        }
    }

    /// Ends the process if it cannot end by itself, as when a file or a reader of its output holds it up.
    private func endSoon() {
        // A queue of its own has a thread of its own, also where all others are held up.
        DispatchQueue(label: "apns-legacy.send.end").asyncAfter(deadline: .now() + Self.endDuration) { [environment] in
            environment.console.briefly { console in
                console.endBar()
                console.say(
                    "apns-legacy send: stopped without a summary: the run did not end in time; "
                        + "the outcome of what was sent last is unknown"
                )
            }
            environment.exit(ExitStatus.tryAgain.rawValue)
        }
    }

    /// How long stopping at once may take.
    private static let endDuration = DispatchTimeInterval.seconds(10)
}
