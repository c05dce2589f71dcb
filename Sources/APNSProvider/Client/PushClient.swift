// SPDX-License-Identifier: Apache-2.0

import APNSPayload
public import APNSSession
import APNSTransport
public import APNSWire
public import Logging
import NIOConcurrencyHelpers
public import NIOCore
public import NIOPosix

#if ServiceLifecycleSupport
public import ServiceLifecycle

extension PushClient: Service {}
#endif

/// Sends notifications, and reports the verified outcome of each.
///
/// ``run()`` does the work: call it in a child task, let ``withClient(_:eventLoopGroup:logger:_:)`` call it, or run the
/// client as a service of swift-service-lifecycle if the package trait `ServiceLifecycleSupport` is enabled, as it is
/// by default. While it runs, ``send(_:)-(PushNotification)`` can be called from any task. The configuration selects
/// the protocol.
///
/// A client survives outages: it reopens failed connections, with increasing delays. A notification that waits too long
/// for that is unsent, and its outcome contains the reason.
public final class PushClient: Sendable {
    let transport: any ClientTransport
    /// `nil` if payloads are not checked.
    let check: PayloadValidator?
    let name: String

    /// Creates a client; it connects only in ``run()``.
    ///
    /// - Parameters:
    ///   - configuration: the service and the options.
    ///   - eventLoopGroup: the event loops; NIO's singleton by default.
    ///   - logger: receives outages, and connections at debug level; the current task's logger by default.
    /// - Throws: ``ProviderError/Kind/configuration`` for values out of range, ``ProviderError/Kind/tls(_:)`` for
    ///   certificates and keys that cannot be used.
    public init(
        _ configuration: PushClientConfiguration,
        eventLoopGroup: any EventLoopGroup = MultiThreadedEventLoopGroup.singleton,
        logger: Logger = .current
    ) throws(ProviderError) {
        self.transport = try configuration.makeTransport(eventLoopGroup, logger)
        self.check = PayloadValidator(configuration.payloadChecks, self.transport.fixedTopic, logger)
        self.name = configuration.description
    }

    /// Keeps connections open until ``finish()`` was called and everything is settled; can be called once.
    ///
    /// A graceful shutdown has the effect of ``finish()``. When the task is cancelled, sending stops immediately: what
    /// may have been processed is indeterminate, the rest unsent.
    ///
    /// - Throws: `CancellationError` if the task is cancelled; ``ProviderError`` if sending cannot succeed, for example
    ///   because a certificate has expired. Every notification has its outcome then, too.
    public func run() async throws {
        do {
            try await withShutdownHandler {
                try await self.transport.run()
            } onGracefulShutdown: {
                self.transport.finish()
            }
        } catch {
            try Task.checkCancellation()
            // The caller of stop() knows that.
            guard (error as? ProviderError)?.kind == .stopped else { throw error }
        }
        try Task.checkCancellation()
    }

    /// Sends a notification, and waits for its outcome.
    ///
    /// Notifications sent at the same time are verified together. By default this takes 20 ms plus the time to open a
    /// connection if no others follow, and up to 1 s under continuous load.
    ///
    /// If the task is cancelled, the wait ends at once: the notification is withdrawn and `unsent(.cancelled)`, so that
    /// it is never sent, or `indeterminate(.cancelled)` if a connection has already taken it.
    ///
    /// - Parameter notification: the notification.
    /// - Returns: the outcome.
    public func send(_ notification: PushNotification) async -> DeliveryOutcome {
        await self.report(of: notification).outcome
    }

    /// Sends a notification in the same way as ``send(_:)-(PushNotification)``.
    ///
    /// - Parameter notification: the notification.
    /// - Returns: the outcome, with details.
    public func report(of notification: PushNotification) async -> DeliveryReport {
        let submission = self.submission(notification)
        // Each closure around it would cost a tenth of the time of the whole.
        guard self.isObserved || self.transport.sendsIdentifiers else { return await submission.report() }
        return await self.observing(notification) { await submission.report() }
    }

    /// Sends a notification in the same way as ``send(_:)-(PushNotification)``, and waits for its outcome until a
    /// deadline.
    ///
    /// - Parameters:
    ///   - notification: the notification.
    ///   - deadline: when to stop waiting, such as `.now + .seconds(5)`.
    ///   - clock: the clock of the deadline; by default the continuous clock.
    /// - Returns: the outcome. At the deadline, it is as after a cancellation, with the reason `.deadline`, or
    ///   `.unavailable` and the last failure if connections fail.
    public func send<C: Clock>(
        _ notification: PushNotification,
        deadline: C.Instant,
        clock: C = ContinuousClock()
    ) async -> DeliveryOutcome {
        await self.report(of: notification, deadline: deadline, clock: clock).outcome
    }

    /// Sends a notification in the same way as ``send(_:deadline:clock:)``.
    ///
    /// - Parameters:
    ///   - notification: the notification.
    ///   - deadline: when to stop waiting, such as `.now + .seconds(5)`.
    ///   - clock: the clock of the deadline; by default the continuous clock.
    /// - Returns: the outcome, with details; after a deadline or a cancellation, with those known so far.
    public func report<C: Clock>(
        of notification: PushNotification,
        deadline: C.Instant,
        clock: C = ContinuousClock()
    ) async -> DeliveryReport {
        await self.observing(notification) {
            await self.submission(notification).report(until: deadline, clock: clock)
        }
    }

    private func submission(_ notification: PushNotification) -> NotificationSubmission {
        NotificationSubmission(
            notification: notification,
            local: self.check?.outcome(of: notification),
            transport: self.transport
        )
    }

    /// Sends notifications with identifiers of the caller.
    ///
    /// Nothing is read from `rows` before the first record is requested, and only a limited number is in progress or
    /// unread; when the loop over the records is left, sending ends. If the client ends first, as on a graceful
    /// shutdown, the loop ends with a ``ProviderError`` and the rest of `rows` is not read.
    ///
    /// - Parameters:
    ///   - rows: identifiers and notifications.
    ///   - filter: the notifications that get records; by default all.
    /// - Returns: the outcome of each, in the order in which they are verified.
    public func send<Rows: AsyncSequence & Sendable, ID: Sendable>(
        _ rows: Rows,
        only filter: DeliveryFilter = .all
    ) -> DeliveryRecords<Rows, ID> where Rows.Element == (id: ID, notification: PushNotification) {
        DeliveryRecords(rows, filter, self.transport, self.check)
    }

    /// Verifies now what was sent before, without waiting for the delay of the configuration.
    ///
    /// Over HTTP/2, it does nothing, since each notification has its own answer.
    public func checkpoint() { self.transport.checkpoint() }

    /// Permits sending to a rejected token before its suppression ends: a device may register again with the same
    /// token.
    ///
    /// - Parameter token: the token.
    public func allow(_ token: DeviceToken) { self.transport.allow(token) }

    /// Ends submissions: what was submitted gets its outcome, then ``run()`` returns.
    public func finish() { self.transport.finish() }

    /// Ends ``run()`` immediately, without an error: what may have been processed is indeterminate, the rest unsent,
    /// even if it is not running yet.
    public func stop() { self.transport.stop() }
}

extension PushClient {
    /// Runs a client for the duration of a closure, and afterwards waits for all outcomes, unless the task is
    /// cancelled.
    ///
    /// - Parameters:
    ///   - configuration: the service and the options.
    ///   - eventLoopGroup: the event loops; NIO's singleton by default.
    ///   - logger: as for ``init(_:eventLoopGroup:logger:)``.
    ///   - body: receives the running client; it runs in the task and on the actor of the caller.
    /// - Returns: the result of `body`, also if the client ends with an error. The outcomes contain its reason, and it
    ///   is logged.
    /// - Throws: the errors of `body` and of ``init(_:eventLoopGroup:logger:)``.
    public static func withClient<Value>(
        _ configuration: PushClientConfiguration,
        eventLoopGroup: any EventLoopGroup = MultiThreadedEventLoopGroup.singleton,
        logger: Logger = .current,
        _ body: (PushClient) async throws -> Value
    ) async throws -> Value {
        let client = try PushClient(configuration, eventLoopGroup: eventLoopGroup, logger: logger)
        return try await withRunning(client.run, logger: logger, end: client.finish) { try await body(client) }
    }
}

extension PushClient: CustomStringConvertible, CustomReflectable {
    /// The address of the service.
    public var description: String { "push client for \(self.name)" }

    /// Empty, so that `dump` prints only the ``description``.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}

/// A notification whose outcome a task awaits.
private struct NotificationSubmission: AwaitedSubmission {
    let notification: PushNotification
    /// Its outcome if it must not be sent.
    let local: DeliveryOutcome?
    let transport: any ClientTransport

    func submit(_ receiver: any SubmissionReceiver) -> SubmissionReceipt {
        self.local.map { self.transport.settleLocally($0, receiver, key: 0) }
            ?? self.transport.submit(self.notification, receiver, key: 0)
    }

    func withdraw(_ receiver: any SubmissionReceiver, in numbers: Range<UInt64>, _ reason: DeliveryOutcome.Reason) {
        self.transport.withdraw(receiver, in: numbers, reason)
    }

    func waitForRoom() async { await self.transport.waitForRoom() }

    var outage: ConnectionFailure? { self.transport.outage }
}
