// SPDX-License-Identifier: Apache-2.0

public import APNSProvider
public import APNSSession
import APNSTransport
public import APNSWire
public import Logging
import NIOConcurrencyHelpers
public import NIOCore
public import NIOPosix

#if ServiceLifecycleSupport
public import ServiceLifecycle

extension RequestClient: Service {}
#endif

/// Sends notifications over the HTTP/2 provider API, and says what became of each.
///
/// ``run()`` does the work. While it runs, ``send(_:)`` waits for one outcome, and ``submit(_:onReport:)`` takes many
/// without waiting. It may be lent with ``withClient(_:eventLoopGroup:logger:_:)``, or run as a service of
/// swift-service-lifecycle, whose graceful shutdown waits for what was taken.
public final class RequestClient: Sendable {
    private let group: any EventLoopGroup
    private let shared: HTTP2ConnectionWorker.Shared
    private let phase = NIOLockedValueBox(Phase.new)

    private enum Phase {
        case new
        /// Something waits for ``run()``, and is looked after meanwhile.
        case waited
        case started
    }

    /// Prepares a client; nothing is connected before the first request.
    ///
    /// - Parameters:
    ///   - configuration: where and how to send.
    ///   - eventLoopGroup: the threads that do it; NIO's own by default.
    ///   - logger: is told of connections and of every request that is not accepted, at debug level, and of the others
    ///     at trace level; by the names of the requests.
    /// - Throws: `ProviderError` of kind `configuration` for values out of their range, of kind `tls` for
    ///   certificates and keys that cannot be used.
    public convenience init(
        _ configuration: PushConfiguration,
        eventLoopGroup: any EventLoopGroup = MultiThreadedEventLoopGroup.singleton,
        logger: Logger = .current
    ) throws(ProviderError) {
        try self.init(configuration, eventLoopGroup: eventLoopGroup, logger: logger, observer: .init(.requests))
    }

    init(
        _ configuration: PushConfiguration,
        eventLoopGroup: any EventLoopGroup,
        logger: Logger,
        observer: DeliveryObserver
    ) throws(ProviderError) {
        self.group = eventLoopGroup
        self.shared = .init(configuration, try configuration.makeOpener(), observer: observer, logger: logger)
    }

    /// Counts what is sent.
    var observer: DeliveryObserver { self.shared.observer }

    private var configuration: PushConfiguration { self.shared.configuration }
    private var queue: PushQueue { self.shared.queue }

    /// Keeps the connections until ``finish()`` was called and everything is settled; may be called once.
    ///
    /// When the task is cancelled, sending stops at once: what was written is indeterminate, the rest unsent. A
    /// graceful shutdown does what ``finish()`` does.
    ///
    /// - Throws: where it ran before, and where going on is of no use. Every request has its report by then, too.
    public func run() async throws(ProviderError) {
        let isFirst = self.phase.withLockedValue { phase in
            defer { phase = .started }
            if case .started = phase { return false }
            return true
        }
        guard isFirst else { throw .alreadyRan }
        let pool = WorkerPool(
            count: self.configuration.connectionCount,
            on: self.group,
            HTTP2ConnectionWorker.factory(self.shared)
        )
        _ = await withShutdownHandler {
            await pool.endings()
        } onGracefulShutdown: {
            self.finish()
        }
        self.queue.stop(self.queue.failure?.reason ?? .stopped)
        if let failure = self.queue.failure { throw failure }
    }

    /// Whether a request would be taken now.
    public var hasRoom: Bool { self.queue.hasRoom }

    /// Calls back once when there is room, or when the client takes nothing any more; at once where that is so now.
    ///
    /// There is room again, for those who were told that there is none, when half of
    /// ``PushConfiguration/requestCountMax`` is settled.
    ///
    /// - Parameter callback: called from any thread; it must not wait.
    public func whenRoom(_ callback: @escaping @Sendable () -> Void) { self.queue.whenRoom(callback) }

    /// Takes a request without waiting.
    ///
    /// - Parameters:
    ///   - request: what to send.
    ///   - onReport: is told once what became of it, where the request is taken: from an event loop of the client, or
    ///     at once on the caller's thread where the request is invalid. It must not wait.
    /// - Returns: whether it was taken.
    public func submit(
        _ request: PushRequest,
        onReport: @escaping @Sendable (DeliveryReport) -> Void
    ) -> SubmissionReceipt {
        let limit = self.configuration.payloadByteCountMax(of: request.pushType)
        if let problem = request.problem(payloadByteCountMax: limit) {
            return self.settleHere(.invalid(problem), onReport)
        }
        let deadline = self.configuration.queueDurationMax.map { NIODeadline.now() + TimeAmount($0) } ?? .distantFuture
        let receipt = self.queue.put(Submission(request, deadline: deadline, from: .caller(onReport)))
        self.lookAfterWaiting()
        return receipt
    }

    /// Submits a request as ``submit(_:onReport:)`` does, and measures the time to its outcome.
    package func submitMeasured(
        _ request: PushRequest,
        onReport: @escaping @Sendable (DeliveryReport) -> Void
    ) -> SubmissionReceipt {
        let (observer, start) = (self.observer, self.observer.startTime)
        return self.submit(request) { report in
            observer.took(report.outcome, since: start)
            onReport(report)
        }
    }

    /// Gives a request an outcome that never leaves this process.
    func settleHere(
        _ outcome: DeliveryOutcome,
        _ onReport: @Sendable (DeliveryReport) -> Void
    ) -> SubmissionReceipt {
        self.shared.observer.settled(outcome)
        onReport(DeliveryReport(outcome))
        return .taken(self.queue.passBy())
    }

    /// Sees to it that nothing waits for too long while nothing runs.
    private func lookAfterWaiting() {
        guard let limit = self.configuration.queueDurationMax else { return }
        let isFirst = self.phase.withLockedValue { phase in
            guard case .new = phase else { return false }
            phase = .waited
            return true
        }
        if isFirst { self.settleOverdue(every: TimeAmount(limit / Self.overdueLookCount)) }
    }

    /// How many looks there are, before ``run()``, in the time that a request may wait.
    private static let overdueLookCount = 8

    private func settleOverdue(every interval: TimeAmount) {
        self.group.next().scheduleTask(in: interval) { [weak self] in
            guard let self, self.phase.withLockedValue({ if case .waited = $0 { true } else { false } }) else { return }
            let overdue = self.queue.takeOverdue(at: .now())
            for push in overdue {
                self.shared.observer.settled(.unsent(.deadline))
                push.settle(.unsent(.deadline))
            }
            self.queue.settled(overdue.count)
            self.settleOverdue(every: interval)
        }
    }

    /// Sends a request, and waits for its outcome; for room first, where there is none.
    ///
    /// - Parameter request: what to send.
    /// - Returns: what became of it. Where the task is cancelled while there is no room, it is unsent; once it was
    ///   taken, cancellation does not end the wait, which ``PushConfiguration/queueDurationMax`` and
    ///   ``PushConfiguration/answerDurationMax`` bound.
    public func send(_ request: PushRequest) async -> DeliveryOutcome { await self.report(of: request).outcome }

    /// Sends a request as ``send(_:)`` does.
    ///
    /// - Parameter request: what to send.
    /// - Returns: what became of it, and how.
    public func report(of request: PushRequest) async -> DeliveryReport {
        let start = self.observer.startTime
        let report = await self.outcome(of: request)
        self.observer.took(report.outcome, since: start)
        return report
    }

    private func outcome(of request: PushRequest) async -> DeliveryReport {
        while !Task.isCancelled {
            let report = await withCheckedContinuation { (continuation: CheckedContinuation<DeliveryReport?, Never>) in
                switch self.submit(request, onReport: { continuation.resume(returning: $0) }) {
                case .taken: break
                case .full: continuation.resume(returning: nil)
                case .ended(let reason): continuation.resume(returning: DeliveryReport(.unsent(reason)))
                }
            }
            if let report { return report }
            await self.waitForRoom()
        }
        return DeliveryReport(.unsent(.stopped))
    }

    /// Waits until there is room, the client takes nothing any more, or the task is cancelled.
    public func waitForRoom() async { await self.queue.waitForRoom() }

    /// Waits until everything has its outcome and nothing more comes, or the task is cancelled.
    func waitForEnd() async -> DeliveryOutcome.Reason? { await self.queue.waitForEnd() }

    /// Says that nothing more comes: what was taken gets its outcome, then ``run()`` returns.
    public func finish() { self.queue.finish() }

    /// Says that nothing more is to be sent: what waits for its turn is unsent, what was written gets its outcome, then
    /// ``run()`` returns.
    public func abandon() { self.queue.stop(.stopped) }

    /// Ends ``run()`` at once, as cancelling its task does: what was written is indeterminate, the rest unsent.
    public func stop() { self.queue.stop(.stopped, isAtOnce: true) }
}

extension RequestClient {
    /// Lends a running client, and afterwards waits for what was taken, on every way out but cancellation.
    ///
    /// - Parameters:
    ///   - configuration: where and how to send.
    ///   - eventLoopGroup: the threads that do it; NIO's own by default.
    ///   - logger: as for ``init(_:eventLoopGroup:logger:)``.
    ///   - body: is lent the client.
    /// - Returns: what `body` returns.
    /// - Throws: what `body` throws, and what ``run()`` throws.
    public static func withClient<Value: Sendable>(
        _ configuration: PushConfiguration,
        eventLoopGroup: any EventLoopGroup = MultiThreadedEventLoopGroup.singleton,
        logger: Logger = .current,
        _ body: @Sendable (RequestClient) async throws -> Value
    ) async throws -> Value {
        let client = try RequestClient(configuration, eventLoopGroup: eventLoopGroup, logger: logger)
        async let running: Void = client.run()
        let result: Result<Value, any Error>
        do { result = .success(try await body(client)) } catch { result = .failure(error) }
        client.finish()
        try await running
        return try result.get()
    }
}

extension RequestClient: CustomStringConvertible, CustomReflectable {
    /// Where it sends to, in one line.
    public var description: String { "request client for \(self.configuration.endpoint)" }

    /// Nothing that is not in ``description``, so that `dump` prints one line.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}
