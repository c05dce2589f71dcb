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
    private let command: SendCommand
    private let environment: CommandEnvironment
    private let say: @Sendable (String) -> Void
    private let onSummary: @Sendable (SendSummary) -> Void
    private var console: Console { self.environment.console }

    /// - Parameters:
    ///   - command: what is asked for.
    ///   - environment: what the command has from its process.
    ///   - onSummary: is told what became of the batch, where that much is known.
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
        try input.begin(expecting: .lines(self.format))
        let payload = try self.commonPayload()
        // What cannot be used is found before any file is touched.
        if let tls, !self.command.delivery.dryRun { _ = try self.sender(tls) }
        if self.command.delivery.dryRun { _ = try self.command.http2.providerToken(self.command.endpoint) }
        let journal = try self.openJournal(input, payload)
        let past = journal.map { $0.past } ?? SendJournal.Past()
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
        if !past.doubted.ranges.isEmpty || past.settled.count > 0 {
            self.say("Going on from \(past.settled.count.counted("line")) that have their outcome.")
        }
        if self.command.delivery.dryRun { source.readThrough() }
        let (ending, failure) = try await self.send(source, input, self.command.delivery.dryRun ? nil : tls)
        badLines.finish()
        let progress = source.progress
        let rejectedCount =
            progress.outcomeCounts[.rejected] - min(past.outcomeCounts[.rejected], progress.outcomeCounts[.rejected])
        var listFailure: CommandFailure?
        do {
            // Of what ends the sending, only the circuit breaker has this status.
            let isBroken = ending?.status == .dataError
            let report = try purge?.record(rejections, progress.outcomeCounts, isBroken: isBroken)
            if let report { self.say(report.description) }
            if self.command.purge.purgeRejected { try journal?.noteListed(rejectedCount) }
        } catch {
            listFailure = CommandFailure(error)
        }
        var summary = SendSummary(
            outcomeCounts: progress.outcomeCounts,
            seconds: (ContinuousClock.now - start) / .seconds(1)
        )
        summary.isResumed = past.settled.count > 0
        summary.hasPurgeList = purge != nil
        summary.isInterrupted = !self.command.delivery.dryRun && !progress.hasReadAll
        self.onSummary(summary)
        let status = try self.report(summary, progress, failure ?? ending)
        guard let purge, let listFailure else { return status }
        self.console.say("apns-legacy send: \(listFailure)")
        let beganAt = past.beganAt ?? purge.startedAt
        try self.warnOfUnlisted(rejectedCount, progress.outcomeCounts, since: beganAt, tls?.identity)
        return failure == nil && ending == nil ? listFailure.status : status
    }

    /// Refuses to write over a file that is read, or two things to one file.
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
        throw CommandFailure(.dataError, "\(path): more than 1,048,576 bytes, expected one payload")
    }

    /// White space does not count to the payload, so its file may be longer than the payload.
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
            throw CommandFailure(.dataError, "\(self.command.batch.payload ?? "--alert"): \(error)")
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

    /// The most memory for frames that are not proved, in bytes, where each is to have a result.
    private static let storeByteCountMaxWithResults = 8 << 20

    /// Whether what was accepted has results, too.
    private var writesAllResults: Bool {
        self.command.report.results != nil && !self.command.report.resultsOnlyExceptions
    }

    private func results(_ journal: SendJournal?) throws -> SendResults {
        let report = self.command.report
        let isDryRun = self.command.delivery.dryRun
        // The journal vouches for what is in the results file, which a look at the batch leaves as it is.
        let isLeft = isDryRun && self.command.delivery.journal != nil
        return try SendResults(
            path: isLeft ? nil : isDryRun ? report.results : (report.results ?? "-"),
            isOnlyExceptions: report.resultsOnlyExceptions || report.results == nil,
            journal: journal,
            retriesIndeterminate: self.command.delivery.delivery == .atLeastOnce,
            standardOutput: self.console.outputDescriptor
        )
    }

    // MARK: Sending

    /// What came to its end.
    private enum Part: Sendable {
        case sending(CommandFailure?, files: CommandFailure?)
        case other
    }

    /// Sends, and ends the files, which may wait for who reads them: signals are heard until then.
    ///
    /// - Returns: why not everything was tried, and why a file could not be written, if so.
    private func send(
        _ source: SendSource,
        _ input: SendInput,
        _ tls: TLSConfiguration?
    ) async throws -> (CommandFailure?, files: CommandFailure?) {
        guard let tls else { return (nil, source.finish().map { CommandFailure($0) }) }
        let sender = try self.sender(tls)
        let interrupts = NIOLockedValueBox(0)
        // Before anything is sent: a signal that comes earlier would end the process without a summary.
        let signals = await self.environment.signals([.sigint, .sigterm])
        return await withThrowingTaskGroup(of: SendRun.Part.self) { group in
            group.addTask {
                var failure: CommandFailure?
                do { try await sender.run(source) } catch { failure = CommandFailure(error) }
                return .sending(failure, files: source.finish().map { CommandFailure($0) })
            }
            group.addTask {
                for await _ in signals {
                    let count = interrupts.withLockedValue { count in
                        count += 1
                        return count
                    }
                    guard count == 1 else {
                        self.endSoon()
                        throw CancellationError()
                    }
                    self.say("Stopping: what was read is sent and proved. The next signal stops at once.")
                    source.end()
                }
                return .other
            }
            if self.console.isTerminal, !self.command.report.quiet {
                group.addTask {
                    try await ProgressBar(total: input.byteCountTotal).show({ source.progress }, on: self.console)
                    return .other
                }
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

    /// Ends the process where nobody takes what it writes, so that it cannot come to its end by itself.
    private func endSoon() {
        // A queue of its own has a thread of its own, also where all others are held up.
        DispatchQueue(label: "apns-legacy.send.end").asyncAfter(deadline: .now() + Self.endDuration) { [environment] in
            environment.console.say("apns-legacy send: what is written is not taken; stopped without a summary.")
            environment.exit(ExitStatus.tryAgain.rawValue)
        }
    }

    /// How long stopping at once may take.
    private static let endDuration = DispatchTimeInterval.seconds(10)

    /// The way out that the command line asks for.
    private func sender(_ tls: TLSConfiguration) throws -> BatchSender {
        switch self.command.http2.transport {
        case .binary: try self.binarySender(tls)
        case .http2: try self.http2Sender(tls)
        }
    }

    /// The format that lines go out in; over HTTP/2 nothing of them is left out.
    private var frameCommand: Command {
        guard self.command.http2.transport == .binary else { return .items }
        return Command(rawValue: UInt8(self.command.batch.command)) ?? .enhanced
    }

    private var logger: Logger { self.environment.logger(isVerbose: self.command.report.verbose) }

    private func http2Sender(_ tls: TLSConfiguration) throws -> BatchSender {
        let (command, delivery) = (self.command, self.command.delivery)
        var configuration = try command.http2.configuration(command.endpoint, tls)
        configuration.connectionCount = delivery.connections
        let requestCountMax = UInt64(delivery.connections * SendRun.requestCountMaxPerConnection)
        configuration.requestCountMax = Int(min(delivery.window, requestCountMax))
        configuration.payloadByteCountMax = self.payloadByteCountMax(tls.identity)
        configuration.voipPayloadByteCountMax = configuration.payloadByteCountMax
        configuration.resendsUnknown = delivery.delivery == .atLeastOnce
        configuration.connectFailureCountMax = delivery.giveUpAfter
        configuration.queueDurationMax = nil
        configuration.onConnectFailure = self.connectFailures()
        var options = HTTP2BatchOptions(requests: RequestRules(topic: self.topic(tls.identity)))
        if let type = command.http2.pushType { options.requests.pushType = .fixed(type) }
        options.invalidTokenRunCountMax = delivery.stopAfterInvalidTokens
        options.tryCountMax = delivery.giveUpAfter
        options.drainDurationMax = command.http2.answerTimeout.duration
        return try BatchSender(http2: configuration, options, logger: self.logger)
    }

    /// Requests without an outcome for each connection: more than it has streams, so that it never runs dry.
    private static let requestCountMaxPerConnection = 2000

    /// The app that requests are for.
    private func topic(_ identity: TLSIdentity?) -> String? {
        self.command.batch.topic ?? identity.flatMap { ProviderIdentity($0.certificate).topic }
    }

    private func payloadByteCountMax(_ identity: TLSIdentity?) -> Int {
        if let byteCount = self.command.batch.payloadMax { return byteCount }
        guard self.command.http2.transport == .http2 else { return WireLimits.payloadByteCountMax }
        let isVoIP =
            self.command.http2.pushType.map { $0 == .voip } ?? self.topic(identity)?.hasSuffix(".voip") ?? false
        return isVoIP ? WireLimits.payloadByteCountMaxVoIP : WireLimits.payloadByteCountMaxHTTP2
    }

    /// Tells of connections that fail, of each failure once where it comes again and again.
    private func connectFailures() -> @Sendable (ConnectionFailure) -> Void {
        let failures = NIOLockedValueBox<ConnectionFailure?>(nil)
        return { failure in
            let isNew = failures.withLockedValue { last in
                defer { last = failure }
                return last != failure
            }
            if isNew { self.say("A connection failed: \(failure)") }
        }
    }

    private func binarySender(_ tls: TLSConfiguration) throws -> BatchSender {
        var configuration = ProviderConfiguration(endpoint: try self.command.endpoint.endpoint(), tls: tls)
        configuration.command = self.frameCommand
        configuration.connectionCount = self.command.delivery.connections
        configuration.limits.policy = self.command.delivery.delivery
        configuration.limits.windowCount = self.command.delivery.window
        configuration.limits.invalidTokenRunCountMax = self.command.delivery.stopAfterInvalidTokens
        configuration.limits.fruitlessConnectionCountMax = self.command.delivery.giveUpAfter
        configuration.payloadByteCountMax = self.payloadByteCountMax(tls.identity)
        // What is proved at a time has its results in memory at a time, however slow the disk.
        if self.writesAllResults { configuration.storeByteCountMax = SendRun.storeByteCountMaxWithResults }
        configuration.proxy = try self.command.endpoint.connection.proxyValue
        return try BatchSender(configuration, logger: self.logger, onFailure: self.connectFailures())
    }

    // MARK: Reporting

    private func report(
        _ summary: SendSummary,
        _ progress: SendProgress,
        _ failure: CommandFailure?
    ) throws -> ExitStatus {
        if let failure { self.console.say("apns-legacy send: \(failure)") }
        if self.command.delivery.dryRun {
            // An input that is refused as a whole has nothing to count.
            if let failure, progress.sentCount == 0, summary.outcomeCounts.total == 0 { return failure.status }
            let count = progress.sentCount.counted("notification")
            let bad = summary.outcomeCounts[.invalid].counted("invalid line")
            let dead = summary.outcomeCounts[.suppressed]
            let remark = dead > 0 ? "; \(dead.counted("token")) on the purge list" : ""
            self.say("\(count) could be sent; \(bad)\(remark). Nothing was sent.")
            return failure?.status ?? (summary.outcomeCounts.total == 0 ? .success : .someRefused)
        }
        self.say(summary.text)
        guard let failure, failure.status != .tryAgain else {
            try self.printJSON(summary)
            return ExitStatus(summary)
        }
        // What failed comes before whatever else fails now.
        try? self.printJSON(summary)
        return failure.status
    }

    private func printJSON(_ summary: SendSummary) throws {
        guard self.command.report.summary == .json else { return }
        try self.console.write(summary.json + "\n")
    }

    /// The list that the batch is held against; `nil` where none is named.
    private func purge(_ identity: TLSIdentity?) throws -> SendPurge? {
        let options = self.command.purge
        guard let path = options.purgeList else { return nil }
        return try SendPurge(
            list: path,
            scopes: try options.scopes(self.command, identity),
            recordsRejected: options.purgeRejected,
            startedAt: self.environment.now()
        )
    }

    /// Tells what is not on the purge list, also where nothing else is told: devices would stay that are dead.
    private func warnOfUnlisted(
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

    private func reportComplete(_ past: SendJournal.Past) throws -> ExitStatus {
        if let results = self.command.report.results { try SendResults.check(results, past) }
        var summary = SendSummary(outcomeCounts: past.outcomeCounts, seconds: 0)
        summary.isResumed = true
        self.onSummary(summary)
        self.say("The journal says that this batch is complete; nothing is sent. Remove it to send everything again.")
        self.say(summary.text)
        try self.printJSON(summary)
        return ExitStatus(summary)
    }
}
