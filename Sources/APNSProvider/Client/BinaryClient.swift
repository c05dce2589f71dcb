// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSTransport
import APNSWire
import Logging
import NIOConcurrencyHelpers
import NIOCore

/// A client transport for the legacy binary protocol.
struct BinaryClient: ClientTransport {
    private enum Phase {
        case new
        case running(WorkerPool)
        case over
    }

    private let transport: BinaryTransport
    private let queue: SubmissionQueue
    let fixedTopic: FixedTopic?
    private let group: any EventLoopGroup
    private let phase = NIOLockedValueBox(Phase.new)

    init(
        _ configuration: BinaryConfiguration,
        eventLoopGroup: any EventLoopGroup,
        logger: Logger,
        observer: DeliveryObserver = DeliveryObserver(.notifications)
    ) throws(ProviderError) {
        self.transport = try BinaryTransport(configuration, observer: observer, logger: logger)
        self.queue = SubmissionQueue(
            configuration,
            observer: observer,
            logger: logger,
            eventLoop: eventLoopGroup.next()
        )
        self.group = eventLoopGroup
        self.fixedTopic = configuration.tls.identity
            .flatMap { ProviderIdentity($0.certificate).topic }
            .map { FixedTopic($0) }
    }

    var observer: DeliveryObserver { self.transport.observer }

    var sendsIdentifiers: Bool { false }

    func submit(
        _ notification: borrowing PushNotification,
        _ receiver: any SubmissionReceiver,
        key: UInt64
    ) -> SubmissionReceipt {
        // The protocol has no push type: a notification is of the type of the certificate's topic. If it has none, that
        // of its payload is checked with the payload.
        if let type = notification.pushType, let problem = self.fixedTopic?.problem(of: type) {
            return self.queue.settleLocally(.invalid(problem), receiver, key)
        }
        return self.queue.enqueue(notification, receiver, key: key)
    }

    func settleLocally(
        _ outcome: DeliveryOutcome,
        _ receiver: any SubmissionReceiver,
        key: UInt64
    ) -> SubmissionReceipt {
        self.queue.settleLocally(outcome, receiver, key)
    }

    func withdraw(_ receiver: any SubmissionReceiver, in numbers: Range<UInt64>, _ reason: DeliveryOutcome.Reason) {
        self.queue.withdraw(receiver, in: numbers, reason)
    }

    var outage: ConnectionFailure? { self.queue.outage }

    func waitForRoom() async { await self.queue.waitForRoom() }

    func waitForEnd() async -> DeliveryOutcome.Reason? { await self.queue.waitForEnd() }

    func allow(_ token: DeviceToken) { self.queue.allow(token) }

    func checkpoint() { self.pool?.checkpoint() }

    /// A service makes checkpoints in time anyway, and keeps their interval even if many short sequences end.
    func endSequence() { if self.transport.configuration.limits.life == .batch { self.checkpoint() } }

    func finish() { self.queue.finish() }

    func stop() {
        // This also settles what waits while nothing runs.
        self.queue.stop()
        self.pool?.abandon()
    }

    private var pool: WorkerPool? {
        self.phase.withLockedValue { if case .running(let pool) = $0 { pool } else { nil } }
    }

    func run() async throws(ProviderError) {
        let pool = self.phase.withLockedValue { phase -> WorkerPool? in
            guard case .new = phase else { return nil }
            let pool = WorkerPool(count: self.transport.workerCount, on: self.group, self.transport.begin(self.queue))
            phase = .running(pool)
            return pool
        }
        guard let pool else { throw .alreadyRan }
        self.queue.start { pool.wake() }
        let endings = await pool.endings()
        self.phase.withLockedValue { $0 = .over }
        let failure = self.transport.failure(of: endings)
        self.queue.stop(failure?.reason ?? .stopped)
        if let failure { throw failure }
    }
}
