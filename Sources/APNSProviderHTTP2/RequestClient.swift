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

/// Sends notifications over the HTTP/2 provider API, and reports the outcome of each.
///
/// ``run()`` does the work. While it runs, ``send(_:)`` waits for one outcome, and ``submit(_:onReport:)`` accepts many
/// requests without waiting. Let ``withClient(_:eventLoopGroup:logger:_:)`` run the client, or run it as a service of
/// swift-service-lifecycle; a graceful shutdown waits for all outcomes.
public final class RequestClient: Sendable {
    private let group: any EventLoopGroup
    private let shared: HTTP2ConnectionWorker.Shared
    private let phase = NIOLockedValueBox(Phase.new)

    private enum Phase {
        case new
        /// Requests wait for ``run()``, and their deadlines are checked.
        case waited
        case started
    }

    /// Creates a client; it connects only for the first request.
    ///
    /// - Parameters:
    ///   - configuration: the service and the options.
    ///   - eventLoopGroup: the event loops; NIO's singleton by default.
    ///   - logger: receives connections and requests that are not accepted at debug level, and other requests at trace
    ///     level, with the identifiers of the requests.
    /// - Throws: `ProviderError` of kind `configuration` for values out of range, of kind `tls` for certificates and
    ///   keys that cannot be used.
    public convenience init(
        _ configuration: PushConfiguration,
        eventLoopGroup: any EventLoopGroup = MultiThreadedEventLoopGroup.singleton,
        logger: Logger = .current
    ) throws(ProviderError) {
        try self.init(configuration, eventLoopGroup: eventLoopGroup, logger: logger, outages: nil)
    }

    init(
        _ configuration: PushConfiguration,
        eventLoopGroup: any EventLoopGroup,
        logger: Logger,
        observer: DeliveryObserver = DeliveryObserver(.requests),
        outages: OutageLog? = nil
    ) throws(ProviderError) {
        self.group = eventLoopGroup
        self.shared = .init(
            configuration,
            try configuration.makeOpener(),
            outages: outages,
            observer: observer,
            logger: logger
        )
    }

    /// The metrics of this client.
    var observer: DeliveryObserver { self.shared.observer }

    private var configuration: PushConfiguration { self.shared.configuration }
    private var queue: PushQueue { self.shared.queue }

    /// Keeps connections open until ``finish()`` was called and everything is settled; can be called once.
    ///
    /// When the task is cancelled, sending stops immediately: what was written is indeterminate, the rest unsent. A
    /// graceful shutdown has the effect of ``finish()``.
    ///
    /// - Throws: an error if it was called before, or if sending cannot succeed. Every request has its report then,
    ///   too.
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

    /// Whether a request would be accepted now.
    public var hasRoom: Bool { self.queue.hasRoom }

    /// Calls back once when there is room, or submissions have ended; immediately if that is so now.
    ///
    /// For callers that were refused, there is room again when half of ``PushConfiguration/requestCountMax`` is
    /// settled.
    ///
    /// - Parameter callback: called on any thread; it must not block.
    public func whenRoom(_ callback: @escaping @Sendable () -> Void) { self.queue.whenRoom(callback) }

    /// Submits a request without waiting.
    ///
    /// - Parameters:
    ///   - request: the request.
    ///   - onReport: is called once with the outcome, if the request was accepted: on an event loop of the client, or
    ///     immediately on the caller's thread if the request is invalid. It must not block.
    /// - Returns: whether it was accepted.
    public func submit(
        _ request: PushRequest,
        onReport: @escaping @Sendable (DeliveryReport) -> Void
    ) -> SubmissionReceipt {
        let limit = self.configuration.payloadByteCountMax(of: request.pushType)
        if let problem = request.problem(payloadByteCountMax: limit) {
            return self.settleLocally(.invalid(problem), onReport)
        }
        let deadline = self.configuration.queueDurationMax.map { NIODeadline.now() + TimeAmount($0) } ?? .distantFuture
        let receipt = self.queue.put(Submission(request, deadline: deadline, from: .caller(onReport)))
        self.checkWaitingRequests()
        return receipt
    }

    /// Submits a request in the same way as ``submit(_:onReport:)``, and measures the time to its outcome.
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

    /// Settles a request that is not sent.
    func settleLocally(
        _ outcome: DeliveryOutcome,
        _ onReport: @Sendable (DeliveryReport) -> Void
    ) -> SubmissionReceipt {
        self.shared.observer.settled(outcome)
        onReport(DeliveryReport(outcome))
        return .taken(self.queue.assignNumber())
    }

    /// Checks the deadlines of waiting requests while the client does not run.
    private func checkWaitingRequests() {
        guard let limit = self.configuration.queueDurationMax else { return }
        let isFirst = self.phase.withLockedValue { phase in
            guard case .new = phase else { return false }
            phase = .waited
            return true
        }
        if isFirst { self.settleOverdue(every: TimeAmount(limit / Self.overdueLookCount)) }
    }

    /// The number of deadline checks before ``run()`` during the maximum waiting time of a request.
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

    /// Sends a request, and waits for its outcome; if there is no room, waits for room first.
    ///
    /// - Parameter request: the request.
    /// - Returns: the outcome. If the task is cancelled while there is no room, it is unsent; after it was accepted,
    ///   cancellation does not end the wait, which ``PushConfiguration/queueDurationMax`` and
    ///   ``PushConfiguration/answerDurationMax`` limit.
    public func send(_ request: PushRequest) async -> DeliveryOutcome { await self.report(of: request).outcome }

    /// Sends a request in the same way as ``send(_:)``.
    ///
    /// - Parameter request: the request.
    /// - Returns: the outcome, with details.
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

    /// Waits until there is room, submissions have ended, or the task is cancelled.
    public func waitForRoom() async { await self.queue.waitForRoom() }

    /// Waits until everything is settled and submissions have ended, or the task is cancelled.
    func waitForEnd() async -> DeliveryOutcome.Reason? { await self.queue.waitForEnd() }

    /// Ends submissions: what was submitted gets its outcome, then ``run()`` returns.
    public func finish() { self.queue.finish() }

    /// Stops sending: waiting requests are unsent, written ones get their outcome, then ``run()`` returns.
    public func abandon() { self.queue.stop(.stopped) }

    /// Ends ``run()`` immediately, as cancelling its task does: what was written is indeterminate, the rest unsent.
    public func stop() { self.queue.stop(.stopped, isAtOnce: true) }
}

extension RequestClient {
    /// Runs a client for the duration of a closure, and afterwards waits for all outcomes, unless the task is
    /// cancelled.
    ///
    /// - Parameters:
    ///   - configuration: the service and the options.
    ///   - eventLoopGroup: the event loops; NIO's singleton by default.
    ///   - logger: as for ``init(_:eventLoopGroup:logger:)``.
    ///   - body: receives the running client.
    /// - Returns: the result of `body`.
    /// - Throws: the errors of `body` and of ``run()``.
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
    /// The address of the service, in one line.
    public var description: String { "request client for \(self.configuration.endpoint)" }

    /// Empty, so that `dump` prints only the ``description``.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}
