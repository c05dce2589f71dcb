// SPDX-License-Identifier: Apache-2.0

import APNSFeedback
import APNSWire
import BatchFiles
import Logging
import NIOConcurrencyHelpers
import TokenStore
import UnixSignals

/// One run of `apns-legacy feedback`.
struct FeedbackRun {
    private let command: FeedbackCommand
    private let environment: CommandEnvironment
    private let logger: Logger
    private let onOutcome: @Sendable (FeedbackOutcome, PurgeChange) -> Void
    private var console: Console { self.environment.console }

    /// - Parameters:
    ///   - command: what is asked for.
    ///   - environment: what the command has from its process.
    ///   - onOutcome: is told of each drain.
    init(
        _ command: FeedbackCommand,
        _ environment: CommandEnvironment,
        onOutcome: @escaping @Sendable (FeedbackOutcome, PurgeChange) -> Void = { _, _ in }
    ) {
        self.onOutcome = onOutcome
        self.command = command
        self.environment = environment
        self.logger = environment.logger(isVerbose: command.verbose)
    }

    func run() async throws -> ExitStatus {
        let files = try self.command.endpoint.files()
        var worst = ExitStatus.success
        var configurations: [FeedbackConfiguration] = []
        for (certificate, key) in files {
            do {
                var configuration = try self.command.endpoint.configuration(
                    certificate: certificate,
                    key: key,
                    now: self.environment.now()
                )
                configuration.silence = self.silence
                configuration.requiresCloseNotify = !self.command.withoutCloseNotify
                configuration.deadline = self.command.deadline.duration
                configuration.byteCountMax = self.command.maxBytes
                configuration.pageTokenCountMax = PurgeListSink.pageTokenCountMax
                configurations.append(configuration)
            } catch {
                let failure = CommandFailure(error)
                // What cannot be read says its name itself.
                let name = failure.description.contains(certificate) ? "" : "\(certificate): "
                self.console.say("apns-legacy feedback: \(name)\(failure)")
                worst = worst.worse(failure.status)
            }
        }
        guard !configurations.isEmpty else { return worst }
        let list = try PurgeList(path: self.command.purgeList)
        // One file is left, whoever still holds this object for an instant.
        defer { list.close() }
        let spool = self.command.spool ?? self.command.purgeList + ".spool"
        let clients = try configurations.map { try FeedbackClient($0, spool: spool, logger: self.logger) }
        let printer = self.command.output.map { FeedbackPrinter($0, self.console) }
        var onPage: (@Sendable (PurgeListSink.Entries) throws -> Void)?
        if let printer { onPage = { try printer.print($0) } }
        let sink = PurgeListSink(list, onPage: onPage)
        let status = try await self.poll(clients, sink)
        // A header that stands alone is written too.
        try printer?.flush()
        return worst.worse(status)
    }

    private func poll(_ clients: [FeedbackClient], _ sink: PurgeListSink) async throws -> ExitStatus {
        let worst = NIOLockedValueBox(ExitStatus.success)
        let isDaemon = self.command.every != nil
        let poller = FeedbackPoller(clients, every: self.command.every?.duration, logger: self.logger) { page in
            try await sink.take(page)
        } onOutcome: { outcome in
            var outcome = outcome
            if outcome.failure == nil {
                do { try await sink.finish(outcome.scope) } catch { outcome.failure = .notTaken(underlying: error) }
            }
            // One drain goes on at a time, so all of that is its own.
            let change = sink.takeChange()
            self.onOutcome(outcome, change)
            self.report(outcome, change)
            let status = self.isDoubtful(outcome) ? .unavailable : ExitStatus(outcome)
            // A daemon that is told to end has no drain to answer for.
            if !isDaemon { worst.withLockedValue { $0 = $0.worse(status) } }
        }
        try await withThrowingTaskGroup(of: Bool.self) { group in
            group.addTask {
                try await poller.run()
                return true
            }
            group.addTask {
                var count = 0
                for await _ in await self.environment.signals([.sigint, .sigterm]) {
                    count += 1
                    guard count == 1 else { return true }
                    poller.finish()
                }
                return false
            }
            // The second signal ends the drain that goes on, too.
            while let isOver = try await group.next(), !isOver {}
            group.cancelAll()
        }
        return worst.withLockedValue { $0 }
    }

    private var silence: Duration { (self.command.silence ?? FeedbackCommand.silenceDefault).duration }

    /// Whether this may be no feedback service: it said nothing and stayed, and nobody said that it would.
    private func isDoubtful(_ outcome: FeedbackOutcome) -> Bool {
        guard self.command.silence == nil, outcome.failure == nil, let ending = outcome.ending else { return false }
        return ending.cause == .silence && ending.byteCount == 0
    }

    // MARK: Telling

    private func report(_ outcome: FeedbackOutcome, _ change: PurgeChange) {
        let name = "\(outcome.scope)"
        for leftover in outcome.leftovers { self.console.say("apns-legacy feedback: \(name): \(leftover)") }
        if let failure = outcome.failure {
            self.console.say("apns-legacy feedback: \(name): \(CommandFailure(failure))")
        }
        if self.isDoubtful(outcome) {
            let port = self.command.endpoint.port
            self.console.say(
                "apns-legacy feedback: \(name): What listens on port \(port) said nothing for "
                    + "\(FeedbackCommand.silenceDefault) and did not close. A feedback service closes behind its list, "
                    + "also an empty one: check --host and --port (feedback is usually 2196, and 2195 is for sending). "
                    + "If this one stays open, say --silence 5s."
            )
        }
        let isWell = outcome.failure == nil && outcome.leftovers.isEmpty
        guard !self.command.quiet || !isWell else { return }
        guard outcome.failure == nil || outcome.tupleCount + outcome.replayedTupleCount > 0 else { return }
        self.console.say("\(name): \(FeedbackRun.summary(outcome, change))")
    }

    /// What was read and what it changed, in one line.
    static func summary(_ outcome: FeedbackOutcome, _ change: PurgeChange) -> String {
        let total = outcome.tupleCount + outcome.replayedTupleCount
        var parts = [total.counted("dead token")]
        if outcome.replayedTupleCount > 0 {
            parts.append("\(outcome.replayedTupleCount.grouped) of them from the spool")
        }
        if total > 0 {
            parts.append("\(change.addedCount.grouped) new")
            parts.append("\(change.updatedCount.grouped) with a newer time")
            parts.append("\(change.unchangedCount.grouped) known")
            if change.supersededCount > 0 {
                parts.append("\(change.supersededCount.grouped) registered since")
            }
        }
        if outcome.futureTupleCount > 0 {
            parts.append("\(outcome.futureTupleCount.grouped) with a time in the future, taken as now")
        }
        switch outcome.ending?.cause {
        case .closed, .malformed, .failed, .refused, nil: break
        case .silence: parts.append("the service went silent and did not close")
        case .deadline: parts.append("the time was over, there may be more")
        case .stopped: parts.append("stopped, there may be more")
        case .limit:
            parts.append(
                "--max-bytes was reached before the service ended its list, there may be more; raise it to read on"
            )
        }
        return parts.joined(separator: ", ")
    }
}
