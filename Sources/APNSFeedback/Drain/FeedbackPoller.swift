// SPDX-License-Identifier: Apache-2.0

import APNSTransport
import APNSWire
import Glibc
public import Logging
import NIOConcurrencyHelpers
import NIOCore
import NIOPosix

#if ServiceLifecycleSupport
public import ServiceLifecycle

extension FeedbackPoller: Service {}
#endif

/// Drains several lists, once or again and again, and hands over their pages as ``FeedbackClient/drain(_:)`` does.
///
/// Run it in a `ServiceGroup`: a graceful shutdown waits for the drain that goes on.
///
/// Each list has a time of its own at which it is read next, with some chance in it so that many machines do not come
/// at once. It is kept in the spool: a process that starts again waits for what is left of the time. One drain goes on
/// at a time, and one that fails does not keep the others from their turn.
public final class FeedbackPoller: Sendable {
    /// By how much of the period a time may be earlier or later.
    private static let jitter = 0.1

    /// The clock of the machine may be set, so it is looked at so often.
    private static let waitSecondsMax: Int64 = 60

    private let clients: [FeedbackClient]
    private let period: Duration?
    private let logger: Logger
    private let take: PageConsumer.Body
    private let onOutcome: (@Sendable (FeedbackOutcome) async -> Void)?
    private let state = NIOLockedValueBox(State())

    private struct State {
        var isStopped = false
        /// Ends the wait that goes on.
        var woken: EventLoopPromise<Void>?
    }

    /// Makes a poller.
    ///
    /// - Parameters:
    ///   - clients: the lists, in order; the time of the next drain of each is in its spool.
    ///   - period: how long from a drain to the next of the same list, give or take a tenth; at least 1 s. `nil` for
    ///     one drain of each, whenever the last one was.
    ///   - logger: gets debug messages, and without `onOutcome` what went wrong.
    ///   - take: is given the pages, one at a time, as by ``FeedbackClient/drain(_:)``.
    ///   - onOutcome: is told of each drain before the next begins; by default failures are logged as errors.
    public init(
        _ clients: [FeedbackClient],
        every period: Duration?,
        logger: Logger = .current,
        take: @escaping @Sendable (_ page: DeadTokenPage) async throws -> Void,
        onOutcome: (@Sendable (_ outcome: FeedbackOutcome) async -> Void)? = nil
    ) {
        self.clients = clients
        self.period = period.map { max($0, .seconds(1)) }
        self.logger = logger
        self.take = take
        self.onOutcome = onOutcome
    }

    /// Ends ``run()`` when the drain that goes on is done.
    public func finish() {
        let woken = self.state.withLockedValue { state in
            state.isStopped = true
            return state.woken
        }
        woken?.succeed(())
    }

    private var isStopped: Bool { Task.isCancelled || self.state.withLockedValue(\.isStopped) }

    /// Drains until all were, or for ever where there is a period; until graceful shutdown, ``finish()`` or
    /// cancellation, which also ends the drain that goes on.
    ///
    /// Without a period, those that had no turn by then have an outcome that says ``FeedbackError/stopped``.
    ///
    /// - Throws: ``SpoolError`` where the times cannot be kept.
    public func run() async throws {
        try await withTaskCancellationHandler {
            try await withShutdownHandler {
                guard let period = self.period else { return await self.drainOnce() }
                while !self.isStopped { try await self.drainDue(Int64(clamping: period.components.seconds)) }
            } onGracefulShutdown: {
                self.finish()
            }
        } onCancel: {
            self.finish()
        }
    }

    /// Of one that had no turn nobody else would tell.
    private func drainOnce() async {
        for client in self.clients {
            if self.isStopped {
                await self.tell(FeedbackOutcome(stopped: client.scope), client)
            } else {
                await self.tell(client.outcome(of: self.take), client)
            }
        }
    }

    private func tell(_ outcome: FeedbackOutcome, _ client: FeedbackClient) async {
        if let onOutcome = self.onOutcome { return await onOutcome(outcome) }
        client.log(outcome)
        if let failure = outcome.failure {
            let metadata: Logger.Metadata = [LogKey.topic: "\(outcome.scope.topic)", LogKey.failure: "\(failure)"]
            self.logger.error("feedback failed", metadata: metadata)
        }
    }

    /// Drains what is due, then waits for what is next.
    private func drainDue(_ seconds: Int64) async throws {
        let spread = Int64(Double(seconds) * FeedbackPoller.jitter)
        var nextTime = Int64.max
        for client in self.clients where !self.isStopped {
            let schedule = FeedbackSchedule(client.scope, in: client.spool)
            let now = Int64(time(nil))
            var due = try schedule.next() ?? now
            // Another period, or another clock, made that one.
            if due > now + seconds + spread { due = now }
            if due <= now {
                await self.tell(client.outcome(of: self.take), client)
                due = Int64(time(nil)) + seconds + Int64.random(in: -spread...spread)
                try schedule.store(due)
                self.logger.debug("next drain", metadata: [LogKey.nextDrain: "\(due)"])
            }
            nextTime = min(nextTime, due)
        }
        await self.wait(seconds: min(max(nextTime - Int64(time(nil)), 0), FeedbackPoller.waitSecondsMax))
    }

    private func wait(seconds: Int64) async {
        guard seconds > 0, !self.isStopped else { return }
        let woken = MultiThreadedEventLoopGroup.singleton.any().makePromise(of: Void.self)
        let timer = woken.futureResult.eventLoop.scheduleTask(in: .seconds(seconds)) { woken.succeed(()) }
        let isStopped = self.state.withLockedValue { state in
            state.woken = woken
            return state.isStopped
        }
        if isStopped { woken.succeed(()) }
        try? await woken.futureResult.get()
        self.state.withLockedValue { $0.woken = nil }
        timer.cancel()
    }
}

extension FeedbackPoller: CustomStringConvertible, CustomReflectable {
    /// How many lists it reads, in one line.
    public var description: String { "poller of \(self.clients.count) lists of dead tokens" }

    /// Nothing that is not in ``description``, so that `dump` prints one line.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}
