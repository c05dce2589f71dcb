// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import APNSSession
import APNSTransport
import APNSWire
import ArgumentParser
import Batch
import Dispatch
import Glibc
import Logging
import NIOConcurrencyHelpers
import OpenSSLTLS
import TokenStore

/// `apns-legacy queue work`: sends the batches of a queue.
struct QueueWorkCommand: QueueSubcommand {
    static let configuration = CommandConfiguration(
        commandName: "work",
        abstract: "Send batches of the queue, beside other workers.",
        discussion: """
            Examples:
              apns-legacy queue work --database postgresql://app@db.example.com/app \\
                  --transport http2 --environment production --certificate push.pem
              apns-legacy queue work --database postgresql://app@db.example.com/app \\
                  --until-done --host gateway.example.com --certificate push.pem --topic com.example.app

            The worker sends the batches of one topic and environment until a signal comes, or until they are done. It \
            finishes the chunks that it holds at the first signal. Results are those of send. A notification without \
            an outcome is left to the next worker.

            If a worker dies, what it was sending may have arrived. By default, another worker sends it again, and \
            flags it with possibleDuplicate; with --delivery at-most-once, its outcome is indeterminate instead.

            \(ExitStatus.list(
                [
                    .success: "all notifications of this worker were accepted, or there were none",
                    .someRefused: "some notifications were rejected",
                    .dataError: "there is no queue, or a chunk is damaged",
                    .tryAgain: "the database cannot be reached, or some notifications are indeterminate",
                ],
                .noInput, .unavailable, .cannotCreate, .ioError, .notPermitted, .configuration
            ))
            """
    )

    @OptionGroup(title: "Queue") var queue: QueueOptions
    @OptionGroup(title: "Queue") var work: QueueWorkOptions
    @OptionGroup(title: "Gateway") var endpoint: EndpointOptions
    @OptionGroup(title: "Gateway") var client: ClientTLSOptions
    @OptionGroup(title: "Results") var report: SendReportOptions
    @OptionGroup(title: "Results") var verbosity: VerbosityOptions
    @OptionGroup(title: "Delivery") var limits: SendLimitOptions
    @OptionGroup(title: "Delivery") var version: FrameVersionOptions
    @OptionGroup(title: "HTTP/2") var http2: SendHTTP2Options
    @OptionGroup(title: "Output") package var reporting: ReportingOptions

    package var earlyStop: EarlyStop? { .before("anything was sent") }

    func validate() throws {
        guard self.http2.p8Key == nil || self.work.topic != nil else {
            throw ValidationError("--p8-key needs --topic BUNDLE-ID")
        }
        guard self.http2.p8Key == nil || self.endpoint.certificate == nil else {
            throw ValidationError("--certificate and --p8-key exclude each other; use one of them")
        }
    }
}

/// Which batches a worker sends, and how it works with others.
struct QueueWorkOptions: ParsableArguments, Sendable {
    @Option(help: .value("bundle-id", "The topic of the batches to send. (default: from the certificate)"))
    var topic: String?

    @Option(
        help: .value(
            "name",
            "The environment of the batches to send. (default: that of --environment, or production)"
        )
    )
    var batchEnvironment: PushEnvironment?

    @Flag(help: "End when no batch has anything left, instead of waiting for the next one.")
    var untilDone = false

    @Option(help: .value("duration", "After how long others take over from a worker that does not answer."))
    var lease = DurationArgument(seconds: 30)

    @Option(
        help: .value(
            "address",
            "Be told of new batches, by a session at this address of the database without a pooler. (default: ask each "
                + "second)"
        )
    )
    var listen: String?

    func validate() throws {
        try self.listen.map { try QueueOptions.check($0, of: "--listen") }
        try TopicCheck.check(self.topic)
        guard (.seconds(1)...(.seconds(3600))).contains(self.lease.duration) else {
            throw ValidationError("--lease must be from 1s to 1h")
        }
    }
}

#if PostgreSQL
extension QueueWorkCommand {
    package func run(in environment: CommandEnvironment) async throws -> ExitStatus {
        try environment.requireConnections(self.limits.connections)
        return try await QueueWorkRun(self, environment).run()
    }
}

/// One run of `apns-legacy queue work`.
private struct QueueWorkRun {
    let command: QueueWorkCommand
    let environment: CommandEnvironment
    let connections: SendConnections
    let emit: @Sendable (Diagnostic) -> Void
    private let limits: SendLimitOptions
    /// The worker that sends now.
    let worker = NIOLockedValueBox<QueueWorker?>(nil)
    var console: Console { self.environment.console }

    init(_ command: QueueWorkCommand, _ environment: CommandEnvironment) {
        self.command = command
        self.environment = environment
        let (isQuiet, console) = (command.verbosity.quiet, environment.console)
        let emit: @Sendable (Diagnostic) -> Void = { if !isQuiet { console.emit($0) } }
        self.emit = emit
        // A window that is larger than what the worker holds would never be full.
        var limits = command.limits
        limits.window = min(limits.window, UInt64(QueueWorkerStateMachine.Limits().heldCountMax))
        self.limits = limits
        self.connections = SendConnections(
            endpoint: command.endpoint,
            client: command.client,
            http2: command.http2,
            limits: limits,
            version: command.version,
            topicName: command.work.topic,
            payloadMax: nil,
            writesAllResults: command.report.results != nil && !command.report.resultsOnlyExceptions,
            verifiesPauses: true,
            logger: environment.logger(isVerbose: command.verbosity.verbose),
            emit: emit
        )
    }

    private var rules: QueueRules {
        var rules = QueueRules()
        rules.takeover = self.command.limits.delivery == .atLeastOnce ? .resend : .hold
        return rules
    }

    private func scope(_ identity: TLSIdentity?) throws -> QueueScope {
        guard let topic = self.connections.topic(identity) else {
            throw CommandFailure(.usage, "the certificate names no topic; add --topic BUNDLE-ID")
        }
        // Over the binary protocol, the service takes the certificate's topic, whatever the batch has.
        let provider = identity.map { ProviderIdentity($0.certificate) }
        let isBinary = self.command.http2.transport == .binary
        let topics = isBinary ? provider?.topic.map { [$0] } ?? [] : provider?.topics ?? []
        guard topics.isEmpty || topics.contains(topic) else {
            let names = topics.joined(separator: ", ")
            throw CommandFailure(
                .configuration,
                "the certificate is for \(names), so it cannot send batches of \(topic)"
            )
        }
        return QueueScope(
            topic: topic,
            environment: self.command.work.batchEnvironment ?? self.command.endpoint.environment ?? .production,
            payloadByteCountMax: self.connections.payloadByteCountMax(identity)
        )
    }

    func run() async throws -> ExitStatus {
        let start = ContinuousClock.now
        let tls = try self.command.endpoint.tls(self.command.client, now: self.environment.now())
        _ = try self.connections.sender(tls)
        let scope = try self.scope(tls.identity)
        let database = try QueueDatabase(self.command.queue.database)
        try self.warnOfLongPayloads(database, scope)
        // Earlier results of the same worker stay.
        let file = try OutputFile(
            path: self.command.report.results ?? "-",
            isKept: true,
            onOperation: self.console.onOutput,
            standardOutput: self.console.outputDescriptor
        )
        let results = QueueResults(file: file, isOnlyExceptions: !self.connections.writesAllResults)
        self.emit("Sending batches of \(scope.topic) (\(scope.environment.rawValue)) from \(database.name).")
        let report = try await self.workShowingProgress(tls, database, scope, results)
        let failure = report.failure.map { CommandFailure($0) }
        if var diagnostic = failure?.diagnostic {
            diagnostic.endpoint = failure?.connection.flatMap(self.connections.address)
            self.console.emit(diagnostic)
        }
        let seconds = (ContinuousClock.now - start) / .seconds(1)
        var summary = SendSummary(outcomeCounts: results.outcomeCounts, seconds: seconds)
        summary.isInterrupted = report.ending != .stopped
        self.environment.summary.set(summary.json)
        self.emit("\(summary.text)")
        if let failure, failure.status != .tryAgain { return failure.status }
        let status = ExitStatus(summary)
        guard status == .success, self.command.work.untilDone else { return status }
        return try database.batchesTooLong(scope).isEmpty ? .success : .someRefused
    }

    private func warnOfLongPayloads(_ database: QueueDatabase, _ scope: QueueScope) throws {
        for batch in try database.batchesTooLong(scope) {
            let limit = scope.payloadByteCountMax.grouped
            let text = "batch \(batch) has payloads of more than \(limit) bytes, which this worker cannot send"
            self.console.emit(.warning(text))
        }
    }

    private func workShowingProgress(
        _ tls: TLSConfiguration,
        _ database: QueueDatabase,
        _ scope: QueueScope,
        _ results: QueueResults
    ) async throws -> QueueWorker.Report {
        let (worker, monitor) = (self.worker, self.connections.monitor)
        let isQuiet = self.command.verbosity.quiet
        let snapshot: @Sendable () -> ProgressSnapshot = {
            let progress = worker.withLockedValue { $0?.progress } ?? QueueProgress()
            var snapshot = ProgressSnapshot(UInt64(clamping: progress.provedCount), "notifications")
            snapshot.total = .exact(UInt64(clamping: progress.notificationCount))
            snapshot.fraction = Double(progress.provedCount) / Double(max(1, progress.notificationCount))
            snapshot.connection = monitor.state(at: .now)
            return snapshot
        }
        let isPlain = self.command.verbosity.verbose
        let display = isQuiet ? nil : ProgressDisplay(self.environment, isPlain: isPlain, snapshot)
        defer { display?.end() }
        let reaction = StopReaction(
            first: isQuiet
                ? nil : "Stopping after the chunks of this worker; a second signal stops at once.",
            onFirst: { worker.withLockedValue { $0 }?.end() },
            last: "stopped at once; other workers send the rest, and flag it as possible duplicates",
            endDuration: .seconds(10)
        )
        return try await self.environment.stoppable(reaction) { try await self.work(tls, database, scope, results) }
    }

    /// Works until the end; a worker whose lease ended, or whose chunk another worker has, is replaced by a new one.
    private func work(
        _ tls: TLSConfiguration,
        _ database: QueueDatabase,
        _ scope: QueueScope,
        _ results: QueueResults
    ) async throws -> QueueWorker.Report {
        var limits = QueueWorkerStateMachine.Limits()
        limits.lease = self.command.work.lease.duration
        limits.endsWhenEmpty = self.command.work.untilDone
        limits.heldCountMax = Int(clamping: self.limits.window)
        while true {
            let worker = QueueWorker(
                database,
                scope,
                limits,
                rules: self.rules,
                results: results,
                host: Self.host,
                listener: self.command.work.listen.map { QueueListener($0) }
            ) { [console] in
                let warning = Diagnostic(.warning, "\($0)")
                console.emit(QueueDatabase.isTransient($0) ? warning.about("Retrying") : warning)
            }
            self.worker.withLockedValue { $0 = worker }
            if self.environment.stops.count > 0 { worker.end() }
            let report = try await worker.work(self.connections.sender(tls))
            switch report.ending {
            case .fenced where self.environment.stops.count == 0:
                self.console.emit(.warning("another worker has taken over a chunk of this one, which starts again"))
            case .leaseExpired where self.environment.stops.count == 0:
                self.console.emit(.warning("the lease of this worker ended before it was renewed; it starts again"))
            default: return report
            }
        }
    }

    /// The name of this host.
    private static var host: String {
        var name = utsname()
        guard unsafe uname(&name) == 0 else { return "?" }
        return unsafe withUnsafeBytes(of: &name.nodename) { bytes in
            unsafe String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
        }
    }
}
#endif
