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

/// Drains several lists, once or periodically, and delivers their pages in the same way as
/// ``FeedbackClient/drain(_:)``.
///
/// Run it in a `ServiceGroup`: a graceful shutdown waits for the current drain.
///
/// Each list has its own time for the next drain, with jitter so that many machines do not connect at the same time.
/// The time is stored in the spool: a restarted process waits for the remaining time. There is one drain at a time, and
/// a failed one does not prevent the others.
public final class FeedbackPoller: Sendable {
    /// The maximum jitter, as a fraction of the period.
    private static let jitter = 0.1

    /// The maximum time between checks of the clock, which may be adjusted.
    private static let waitSecondsMax: Int64 = 60

    private let clients: [FeedbackClient]
    private let period: Duration?
    private let logger: Logger
    private let onPage: PageConsumer.Body
    private let onReport: (@Sendable (FeedbackReport) async -> Void)?
    private let state = NIOLockedValueBox(State())

    private struct State {
        var isStopped = false
        /// Ends the current wait.
        var woken: EventLoopPromise<Void>?
    }

    /// Creates a poller.
    ///
    /// - Parameters:
    ///   - clients: the lists, in order; the time of each next drain is in its spool.
    ///   - period: the time between two drains of the same list, plus or minus a tenth; at least 1 s. `nil` for one
    ///     drain of each, whenever the last one was.
    ///   - logger: receives debug messages, and errors if there is no `onReport`.
    ///   - onPage: receives the pages, one at a time, as in ``FeedbackClient/drain(_:)``.
    ///   - onReport: is called for each drain before the next begins; by default failures are logged as errors.
    public init(
        _ clients: [FeedbackClient],
        every period: Duration?,
        logger: Logger = .current,
        onPage: @escaping @Sendable (_ page: DeadTokenPage) async throws -> Void,
        onReport: (@Sendable (_ report: FeedbackReport) async -> Void)? = nil
    ) {
        self.clients = clients
        self.period = period.map { max($0, .seconds(1)) }
        self.logger = logger
        self.onPage = onPage
        self.onReport = onReport
    }

    /// Ends ``run()`` after the current drain.
    public func finish() {
        let woken = self.state.withLockedValue { state in
            state.isStopped = true
            return state.woken
        }
        woken?.succeed(())
    }

    private var isStopped: Bool { Task.isCancelled || self.state.withLockedValue(\.isStopped) }

    /// Drains all lists, or repeats that forever if there is a period; until graceful shutdown, ``finish()`` or
    /// cancellation, which also ends the current drain.
    ///
    /// Without a period, lists without a turn until then have a report with ``FeedbackError/stopped``.
    ///
    /// - Throws: ``SpoolError`` if the times cannot be stored.
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

    /// Drains each list once; lists without a turn are reported, too.
    private func drainOnce() async {
        for client in self.clients {
            if self.isStopped {
                await self.report(FeedbackReport(stopped: client.scope), client)
            } else {
                await self.report(client.report(of: self.onPage), client)
            }
        }
    }

    private func report(_ report: FeedbackReport, _ client: FeedbackClient) async {
        if let onReport = self.onReport { return await onReport(report) }
        client.log(report)
        if let failure = report.failure {
            let metadata: Logger.Metadata = [LogKey.topic: "\(report.scope.topic)", LogKey.failure: "\(failure)"]
            self.logger.error("feedback failed", metadata: metadata)
        }
    }

    /// Drains what is due, then waits for the next time.
    private func drainDue(_ seconds: Int64) async throws {
        let spread = Int64(Double(seconds) * FeedbackPoller.jitter)
        var nextTime = Int64.max
        for client in self.clients where !self.isStopped {
            let schedule = FeedbackSchedule(client.scope, in: client.spool)
            let now = Int64(time(nil))
            var due = try schedule.next() ?? now
            // This time results from another period or clock.
            if due > now + seconds + spread { due = now }
            if due <= now {
                await self.report(client.report(of: self.onPage), client)
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
    /// The number of lists, in one line.
    public var description: String { "poller of \(self.clients.count) lists of dead tokens" }

    /// Empty, so that `dump` prints only the ``description``.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}

/// The time of the next drain of a topic's list, stored in the spool so that it survives the process.
struct FeedbackSchedule {
    private let path: String
    private let folder: String

    /// The maximum number of bytes to read from its file.
    private static let contentByteCountMax = 32

    init(_ scope: TokenScope, in spool: FeedbackSpool) {
        self.path = spool.path(scope.fileStem + ".next")
        self.folder = spool.folder
    }

    /// The time in seconds since 1970; `nil` if it is unknown.
    func next() throws(SpoolError) -> Int64? {
        guard unsafe access(self.path, F_OK) == 0 else { return nil }
        let content = try SpoolFile(path: self.path, O_RDONLY).read(byteCount: Self.contentByteCountMax, at: 0)
        return Int64(String(decoding: content.prefix { $0 != 0x0A }, as: UTF8.self))
    }

    func store(_ time: Int64) throws(SpoolError) {
        let new = self.path + "-new"
        let file = try SpoolFile(path: new, O_WRONLY | O_CREAT | O_TRUNC)
        try file.write(Array("\(time)\n".utf8))
        try file.synchronize()
        try SpoolNames.rename(new, to: self.path)
        try SpoolNames.synchronize(folder: self.folder)
    }
}
