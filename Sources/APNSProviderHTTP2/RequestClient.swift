// SPDX-License-Identifier: Apache-2.0

package import APNSProvider
package import APNSSession
import APNSWire
package import Logging
import NIOConcurrencyHelpers
package import NIOCore
import NIOPosix

/// Sends requests over the HTTP/2 provider API, and reports the outcome of each: the part that a client and a gateway
/// share.
///
/// ``run()`` does the work.
package final class RequestClient: Sendable {
    private let group: any EventLoopGroup
    private let shared: HTTP2ConnectionWorker.Shared
    /// The time after which a request that was not sent is given up; `nil` if it waits for as long as it takes.
    private let queueTimeout: TimeAmount?
    private let payloadLimits: HTTP2Configuration.PayloadLimits
    private let phase = NIOLockedValueBox(Phase.new)

    private enum Phase {
        case new
        /// Requests wait for ``run()``, and their deadlines are checked.
        case waited
        case started
    }

    /// Creates a client; it connects only for the first request.
    ///
    /// - Throws: `ProviderError` of kind `configuration` for values out of range, of kind `tls` for certificates and
    ///   keys that cannot be used.
    package init(
        _ configuration: HTTP2Configuration,
        eventLoopGroup: any EventLoopGroup = MultiThreadedEventLoopGroup.singleton,
        logger: Logger = .current,
        observer: DeliveryObserver = DeliveryObserver(.requests),
        outages: OutageLog? = nil
    ) throws(ProviderError) {
        self.group = eventLoopGroup
        self.queueTimeout = configuration.queueTimeout.map { TimeAmount($0) }
        self.payloadLimits = configuration.payloadLimits
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

    private var configuration: HTTP2Configuration { self.shared.configuration }

    /// Keeps connections open until ``finish()`` was called and everything is settled; can be called once.
    ///
    /// When the task is cancelled, sending stops immediately: what was written is indeterminate, the rest unsent.
    ///
    /// - Throws: an error if it was called before, or if sending cannot succeed. Every request has its report then,
    ///   too.
    package func run() async throws(ProviderError) {
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
        _ = await pool.endings()
        self.shared.queue.stop(self.shared.queue.failure?.reason ?? .stopped)
        if let failure = self.shared.queue.failure { throw failure }
    }

    /// Whether a request would be accepted now.
    package var hasRoom: Bool { self.shared.queue.hasRoom }

    /// Calls back once when there is room, or submissions have ended; immediately if that is so now.
    ///
    /// For callers that were refused, there is room again when half of ``HTTP2Configuration/requestCountMax`` is
    /// settled.
    package func whenRoom(_ callback: @escaping @Sendable () -> Void) { self.shared.queue.whenRoom(callback) }

    /// Submits a request without waiting; the receiver may withdraw it.
    ///
    /// Returns whether it was accepted.
    package func submit(
        _ request: PushRequest,
        for receiver: (any SubmissionReceiver)? = nil,
        onReport: @escaping @Sendable (DeliveryReport) -> Void
    ) -> SubmissionReceipt {
        let limit = self.payloadLimits.byteCountMax(of: request.pushType)
        // Those about channels are checked before.
        if request.channel == nil, let problem = request.problem(payloadByteCountMax: limit) {
            return self.settleLocally(.invalid(problem), onReport)
        }
        let deadline = self.queueTimeout.map { .now() + $0 } ?? NIODeadline.distantFuture
        let receipt = self.shared.queue.enqueue(
            Submission(request, deadline: deadline, from: .caller(onReport), for: receiver)
        )
        self.checkWaitingRequests()
        return receipt
    }

    /// Submits a request in the same way as ``submit(_:onReport:)``, and measures the time to its outcome.
    package func submitMeasured(
        _ request: PushRequest,
        onReport: @escaping @Sendable (DeliveryReport) -> Void
    ) -> SubmissionReceipt {
        // Not all that is shared, which holds the requests and with them this callback.
        let (observer, start) = (self.shared.observer, self.shared.observer.startTime)
        return self.submit(request) { report in
            observer.recordLatency(report.outcome, since: start)
            onReport(report)
        }
    }

    /// Settles the waiting requests of a receiver.
    func withdraw(_ receiver: any SubmissionReceiver, in numbers: Range<UInt64>, _ reason: DeliveryOutcome.Reason) {
        self.shared.queue.withdraw(receiver, in: numbers, reason)
    }

    /// Settles a request that is not sent.
    func settleLocally(
        _ outcome: DeliveryOutcome,
        _ onReport: @Sendable (DeliveryReport) -> Void
    ) -> SubmissionReceipt {
        self.shared.observer.settled(outcome)
        onReport(DeliveryReport(outcome))
        return .submitted(self.shared.queue.assignNumber())
    }

    /// Checks the deadlines of waiting requests while the client does not run.
    private func checkWaitingRequests() {
        guard let limit = self.queueTimeout else { return }
        let isFirst = self.phase.withLockedValue { phase in
            guard case .new = phase else { return false }
            phase = .waited
            return true
        }
        if isFirst { self.settleOverdue(every: .nanoseconds(limit.nanoseconds / Self.overdueLookCount)) }
    }

    /// The number of deadline checks before ``run()`` during the maximum waiting time of a request.
    private static let overdueLookCount: Int64 = 8

    private func settleOverdue(every interval: TimeAmount) {
        self.group.next().scheduleTask(in: interval) { [weak self] in
            guard let self, self.phase.withLockedValue({ if case .waited = $0 { true } else { false } }) else { return }
            self.shared.queue.abandon(self.shared.queue.takeOverdue(at: .now()), .deadline)
            self.settleOverdue(every: interval)
        }
    }

    /// Why connections fail; `nil` if they work.
    var outage: ConnectionFailure? { self.shared.queue.outage }

    /// Waits until there is room, submissions have ended, or the task is cancelled.
    func waitForRoom() async { await self.shared.queue.waitForRoom() }

    /// Waits until everything is settled and submissions have ended, or the task is cancelled.
    func waitForEnd() async -> DeliveryOutcome.Reason? { await self.shared.queue.waitForEnd() }

    /// Ends submissions: what was submitted gets its outcome, then ``run()`` returns.
    package func finish() { self.shared.queue.finish() }

    /// Stops sending: waiting requests are unsent, written ones get their outcome, then ``run()`` returns.
    package func abandon() { self.shared.queue.stop(.stopped) }

    /// Ends ``run()`` immediately, as cancelling its task does: what was written is indeterminate, the rest unsent.
    package func stop() { self.shared.queue.stop(.stopped, isAtOnce: true) }
}
