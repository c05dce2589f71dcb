// SPDX-License-Identifier: Apache-2.0

import APNSFeedback
import APNSWire
import Batch
import Dispatch
import Glibc
import Logging
import NIOConcurrencyHelpers
import TokenStore

/// One run of `apns-legacy feedback`.
struct FeedbackRun {
    private let command: FeedbackCommand
    private let environment: CommandEnvironment
    private let logger: Logger
    private let readByteCount = NIOLockedValueBox<UInt64>(0)
    private var console: Console { self.environment.console }

    init(_ command: FeedbackCommand, _ environment: CommandEnvironment) {
        self.command = command
        self.environment = environment
        self.logger = environment.logger(isVerbose: command.verbose)
    }

    func run() async throws -> ExitStatus {
        self.count(nil, PurgeChange())
        let files = try self.command.endpoint.files(self.command.client)
        var worst = ExitStatus.success
        var configurations: [FeedbackConfiguration] = []
        for (certificate, key) in files {
            do {
                var configuration = try self.command.endpoint.configuration(
                    self.command.client,
                    certificate: certificate,
                    key: key,
                    now: self.environment.now()
                )
                configuration.idleTimeout = self.silence
                configuration.requiresCloseNotify = !self.command.withoutCloseNotify
                configuration.readTimeout = self.command.deadline.duration
                configuration.byteCountMax = self.command.maxBytes
                configuration.pageTokenCountMax = PurgeListSink.pageTokenCountMax
                configuration.onRead = { [readByteCount] count in
                    readByteCount.withLockedValue { $0 = $0.saturating(adding: UInt64(count)) }
                }
                configurations.append(configuration)
            } catch {
                let failure = CommandFailure(error)
                // The error of an unreadable file already contains its name.
                let isNamed = failure.description.contains(certificate)
                self.console.emit(isNamed ? failure.diagnostic : failure.diagnostic.about(certificate))
                worst = worst.worse(failure.status)
            }
        }
        guard !configurations.isEmpty else { return worst }
        let list = try PurgeList(path: self.command.purgeList)
        try self.console.warn(of: list)
        // Closed here to leave a single file, although other tasks may keep the object a moment longer.
        defer { list.close() }
        let spool = self.command.spool ?? self.command.purgeList + ".spool"
        let clients = try configurations.map { configuration in
            var configuration = configuration
            configuration.lease = PurgeList.isAddress(list.path) ? Self.lease(in: list) : nil
            return try FeedbackClient(configuration, spool: spool, logger: self.logger)
        }
        let printer = try self.command.output.map { try FeedbackPrinter($0, self.console) }
        var onPage: (@Sendable (PurgeListSink.Entries) throws -> Void)?
        if let printer { onPage = { try printer.print($0) } }
        let sink = PurgeListSink(list, onPage: onPage)
        let display =
            self.command.quiet || self.command.every != nil
            ? nil
            : ProgressDisplay(self.environment, isPlain: self.command.verbose) { [readByteCount] in
                ProgressSnapshot(readByteCount.withLockedValue { $0 }, "bytes read")
            }
        defer { display?.end() }
        let status = try await self.poll(clients, sink)
        // A header is written even without entries.
        try printer?.flush()
        return worst.worse(status)
    }

    private static var hostName: String {
        var name = [CChar](repeating: 0, count: Int(HOST_NAME_MAX) + 1)
        guard unsafe gethostname(&name, name.count - 1) == 0 else { return "an unnamed host" }
        return String(decoding: name.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    /// How hosts with a shared list agree on who reads a list of the service.
    private static func lease(in list: PurgeList) -> FeedbackLease.Acquisition {
        let holder = "\(Self.hostName), process \(getpid())"
        return { fingerprint, endpoint, duration in
            let name = "\(fingerprint) \(endpoint.host.lowercased()):\(endpoint.port)"
            switch try list.acquireLease(of: name, for: duration, holder: holder) {
            case .acquired(let lease):
                return FeedbackLease { duration in
                    guard try list.renew(lease, for: duration) else {
                        throw FeedbackError.heldElsewhere(endpoint, host: nil)
                    }
                } release: {
                    _ = try list.renew(lease, for: .zero)
                }
            case .held(let host): throw FeedbackError.heldElsewhere(endpoint, host: host)
            case nil:
                return FeedbackLease { _ in
                } release: {
                }
            }
        }
    }

    private func poll(_ clients: [FeedbackClient], _ sink: PurgeListSink) async throws -> ExitStatus {
        let worst = NIOLockedValueBox(ExitStatus.success)
        let isDaemon = self.command.every != nil
        let poller = FeedbackPoller(clients, every: self.command.every?.duration, logger: self.logger) { page in
            try await sink.add(page)
        } onReport: { report in
            var report = report
            if report.failure == nil {
                do { try await sink.finish(report.scope) } catch { report.failure = .notDelivered(underlying: error) }
            }
            // Drains run one at a time, so the whole change is from this one.
            let change = sink.takeChange()
            self.count(report, change)
            self.report(report, change, clients.first { $0.scope == report.scope }?.configuration.tls)
            let status = self.isDoubtful(report) ? .unavailable : ExitStatus(report)
            // A daemon that is stopped has no drain whose exit code it could report.
            if !isDaemon { worst.withLockedValue { $0 = $0.worse(status) } }
        }
        let reaction = StopReaction(
            first: "Stopping: a list that is being read is finished first; a second signal stops at once.",
            onFirst: { poller.finish() },
            last: "stopped at once; what was read is in the spool; run the same command again",
            endDuration: Self.endDuration
        )
        try await self.environment.stoppable(reaction) {
            // The second signal cancels it, and each list says how far it was read.
            do { try await poller.run() } catch is CancellationError {}
            if self.environment.stops.count > 1 {
                self.console.emit(
                    Diagnostic(.warning, "Stopped at once: what was read is in the spool; the next run continues.")
                )
            }
        }
        return worst.withLockedValue { $0 }
    }

    /// How long a drain may take to end at the second signal, which includes what was read being put on the list.
    private static let endDuration = DispatchTimeInterval.seconds(5)

    private var silence: Duration { (self.command.silence ?? FeedbackCommand.silenceDefault).duration }

    /// Whether the host may not be a feedback service.
    ///
    /// It sent nothing and did not close the connection, and `--silence` does not expect that.
    private func isDoubtful(_ report: FeedbackReport) -> Bool {
        guard self.command.silence == nil, report.failure == nil, let ending = report.ending else { return false }
        return ending.reason == .silence && ending.byteCount == 0
    }

    // MARK: Reporting

    /// Adds the result of one list to the summary and the metrics.
    private func count(_ report: FeedbackReport?, _ change: PurgeChange) {
        let summary = self.environment.summary
        summary.add("lists", report == nil ? 0 : 1)
        let readCount = summary.add("tokens", report.map { $0.tupleCount + $0.replayedTupleCount } ?? 0)
        let newCount = summary.add("added", change.addedCount)
        summary.add("updated", change.updatedCount)
        summary.add("known", change.unchangedCount)
        self.environment.setSamples([
            ("apns_legacy_feedback_read_tokens", readCount), ("apns_legacy_feedback_new_tokens", newCount),
        ])
    }

    private func report(_ report: FeedbackReport, _ change: PurgeChange, _ tls: TLSConfiguration?) {
        let name = "\(report.scope)"
        for leftover in report.leftovers { self.console.emit(.error("\(name): \(leftover)", .dataError)) }
        if let failure = report.failure { self.console.emit(CommandFailure(failure, tls).diagnostic.about(name)) }
        if self.isDoubtful(report) {
            let port = self.command.endpoint.port
            self.console.emit(
                .error(
                    "\(name): the server on port \(port) sent nothing for \(FeedbackCommand.silenceDefault) and did "
                        + "not close the connection; is this the feedback port (usually 2196, not 2195)? If your "
                        + "service stays open, use --silence 5s",
                    .unavailable
                )
            )
        }
        let isWell = report.failure == nil && report.leftovers.isEmpty
        guard !self.command.quiet || !isWell else { return }
        guard report.failure == nil || report.tupleCount + report.replayedTupleCount > 0 else { return }
        self.console.emit("\(name): \(FeedbackRun.summary(report, change))")
    }

    /// The tokens read and the changes to the list, in one line.
    static func summary(_ report: FeedbackReport, _ change: PurgeChange) -> String {
        let total = report.tupleCount + report.replayedTupleCount
        var parts = [total.counted("dead token")]
        if report.replayedTupleCount > 0 {
            parts.append("\(report.replayedTupleCount.grouped) from the spool")
        }
        if total > 0 {
            parts.append("\(change.addedCount.grouped) new")
            parts.append("\(change.updatedCount.grouped) updated")
            parts.append("\(change.unchangedCount.grouped) already listed")
            if change.supersededCount > 0 {
                parts.append("\(change.supersededCount.grouped) ignored: registered later")
            }
        }
        if report.futureTupleCount > 0 {
            parts.append("\(report.futureTupleCount.grouped) with a future timestamp, recorded as now")
        }
        switch report.ending?.reason {
        case .closed, .malformed, .failed, .refused, nil: break
        case .silence?: parts.append("\(FeedbackEnding.Reason.silence)")
        case .deadline: parts.append("--deadline reached, there may be more")
        case .stopped: parts.append("stopped early, there may be more; run again")
        case .limit: parts.append("--max-bytes reached, there may be more; increase it and run again")
        }
        return parts.joined(separator: ", ")
    }
}
