// SPDX-License-Identifier: Apache-2.0

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

/// Sends notifications, and says what became of each once that is proved.
///
/// ``run()`` does the work: as a child task, lent with ``withClient(_:eventLoopGroup:logger:_:)``, or as a service of
/// swift-service-lifecycle, where the package's trait `ServiceLifecycleSupport` is on, as it is by default. Meanwhile
/// ``send(_:)`` may be called from any task. The protocol is the configuration's choice.
///
/// A client outlives outages: connections that fail are opened again, after pauses that grow. A notification that waits
/// for too long meanwhile is unsent, and its outcome says why.
public final class PushClient: Sendable {
    private let transport: any ClientTransport
    private let name: String

    /// Prepares a client; nothing is connected before ``run()``.
    ///
    /// - Parameters:
    ///   - configuration: where and how to send.
    ///   - eventLoopGroup: the threads that do it; NIO's own by default.
    ///   - logger: is told of outages, and of connections at debug level; the current task's logger by default.
    /// - Throws: ``ProviderError/Kind/configuration`` for values out of their range, ``ProviderError/Kind/tls(_:)`` for
    ///   certificates and keys that cannot be used.
    public init(
        _ configuration: PushClientConfiguration,
        eventLoopGroup: any EventLoopGroup = MultiThreadedEventLoopGroup.singleton,
        logger: Logger = .current
    ) throws(ProviderError) {
        let transport = try configuration.makeTransport(eventLoopGroup, logger)
        self.transport = configuration.checksPayloads ? CheckingClient(transport) : transport
        self.name = configuration.description
    }

    /// Keeps the connections until ``finish()`` was called and everything is settled; may be called once.
    ///
    /// A graceful shutdown does what ``finish()`` does. When the task is cancelled, sending stops at once: what may
    /// have been processed is indeterminate, the rest unsent.
    ///
    /// - Throws: `CancellationError` where the task is cancelled; ``ProviderError`` where sending is of no use, as with
    /// a certificate that has expired. Every notification has its outcome by then, too.
    public func run() async throws {
        do {
            try await withShutdownHandler {
                try await self.transport.run()
            } onGracefulShutdown: {
                self.transport.finish()
            }
        } catch {
            try Task.checkCancellation()
            // Who called stop() knows that.
            guard (error as? ProviderError)?.kind == .stopped else { throw error }
        }
        try Task.checkCancellation()
    }

    /// Sends a notification, and waits for its outcome.
    ///
    /// Notifications that are sent at the same time share their proof. By default it comes within 100 ms and the time
    /// of a connection, and within 1 s where many are sent all the time.
    ///
    /// - Parameter notification: what to send.
    /// - Returns: what became of it. Where the task is cancelled while there is no room, it is unsent; once it was
    ///   taken, cancellation does not end the wait, which the deadlines of the configuration bound.
    public func send(_ notification: PushNotification) async -> DeliveryOutcome {
        await self.report(of: notification).outcome
    }

    /// Sends a notification as ``send(_:)`` does.
    ///
    /// - Parameter notification: what to send.
    /// - Returns: what became of it, and how.
    public func report(of notification: PushNotification) async -> DeliveryReport {
        let start = self.transport.observer.startTime
        let report = await self.outcome(of: notification)
        self.transport.observer.took(report.outcome, since: start)
        return report
    }

    private func outcome(of notification: PushNotification) async -> DeliveryReport {
        let local = self.transport.localOutcome(of: notification)
        while !Task.isCancelled {
            let report = await withCheckedContinuation { (continuation: CheckedContinuation<DeliveryReport?, Never>) in
                let receiver = AwaitedOutcome(continuation)
                let receipt =
                    local.map { self.transport.settleHere($0, receiver, key: 0) }
                    ?? self.transport.submit(notification, receiver, key: 0)
                switch receipt {
                case .taken: break
                case .full: continuation.resume(returning: nil)
                case .ended(let reason): continuation.resume(returning: DeliveryReport(.unsent(reason)))
                }
            }
            if let report { return report }
            await self.transport.waitForRoom()
        }
        return DeliveryReport(.unsent(.stopped))
    }

    /// Sends notifications that have identifiers of the caller's own, as they come.
    ///
    /// Nothing is asked of `rows` before the first record is asked for, and no more than are sent, or unread, at a
    /// time; the end of the loop over the records is the end of sending. Where the client ends first, as in a graceful
    /// shutdown, the loop ends with a ``ProviderError`` and the rest of `rows` is not taken.
    ///
    /// - Parameters:
    ///   - rows: identifiers and notifications.
    ///   - filter: of which notifications there are records; by default of each.
    /// - Returns: what became of each, in the order in which that was proved.
    public func send<Rows: AsyncSequence & Sendable, ID: Sendable>(
        _ rows: Rows,
        only filter: DeliveryFilter = .all
    ) -> DeliveryRecords<Rows, ID> where Rows.Element == (id: ID, notification: PushNotification) {
        DeliveryRecords(rows, filter, self.transport)
    }

    /// Proves now what was sent before, without waiting for the delay of the configuration.
    ///
    /// Over HTTP/2, where each notification has its own answer, it does nothing.
    public func checkpoint() { self.transport.checkpoint() }

    /// Sends to a token again that was rejected, before its time has passed: a device may register with the token it
    /// had.
    ///
    /// - Parameter token: the token.
    public func allow(_ token: DeviceToken) { self.transport.allow(token) }

    /// Says that nothing more comes: what was taken gets its outcome, then ``run()`` returns.
    public func finish() { self.transport.finish() }

    /// Ends ``run()`` at once, without an error: what may have been processed is indeterminate, the rest unsent, also
    /// where it did not run yet.
    public func stop() { self.transport.stop() }
}

extension PushClient {
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
        _ configuration: PushClientConfiguration,
        eventLoopGroup: any EventLoopGroup = MultiThreadedEventLoopGroup.singleton,
        logger: Logger = .current,
        _ body: @Sendable (PushClient) async throws -> Value
    ) async throws -> Value {
        let client = try PushClient(configuration, eventLoopGroup: eventLoopGroup, logger: logger)
        async let running: Void = client.run()
        let result: Result<Value, any Error>
        do { result = .success(try await body(client)) } catch { result = .failure(error) }
        client.finish()
        try await running
        return try result.get()
    }
}

extension PushClient: CustomStringConvertible, CustomReflectable {
    /// Where it sends to.
    public var description: String { "push client for \(self.name)" }

    /// Nothing that is not in ``description``, so that `dump` prints one line.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}

/// One who waits for the outcome of one notification.
private final class AwaitedOutcome: SubmissionReceiver {
    private let continuation: CheckedContinuation<DeliveryReport?, Never>

    init(_ continuation: CheckedContinuation<DeliveryReport?, Never>) { self.continuation = continuation }

    func settle(_ keys: Range<UInt64>, _ report: DeliveryReport) { self.continuation.resume(returning: report) }
}
