// SPDX-License-Identifier: Apache-2.0

import APNSJSON
import APNSPayload
public import APNSProvider
public import APNSSession
import APNSTransport
public import APNSWire
import Glibc
public import Logging
public import NIOCore
public import NIOPosix

#if ServiceLifecycleSupport
public import ServiceLifecycle

extension BroadcastClient: Service {}
#endif

/// Manages the broadcast channels of an app, and sends broadcasts to them.
///
/// Devices subscribe to a channel with ActivityKit, since iOS 18. One broadcast then updates the Live Activity of all
/// of them. Channels are created and deleted at one service, and broadcasts are sent to another. The client connects to
/// each with the first request to it.
///
/// ``run()`` does the work: let ``withClient(_:eventLoopGroup:logger:_:)`` call it, or run the client as a service of
/// swift-service-lifecycle. All other methods can be called from any task. If the task is cancelled or the deadline
/// passes, they stop waiting at once, with what is known.
///
/// - SeeAlso: "Sending channel management requests to APNs", "Sending broadcast push notification requests to APNs".
public final class BroadcastClient: Sendable {
    private let bundleID: String
    private let sending: RequestClient
    private let management: RequestClient
    private let name: String

    /// The maximum number of open requests about channels on a connection, since some responses are long.
    private static let managementStreamCountMax = 32

    /// The number of channels that an app may have in each environment: 10,000.
    public static let channelCountMax = 10_000

    /// Creates a client; it connects only in ``run()``.
    ///
    /// - Parameters:
    ///   - configuration: the app, the services and the options.
    ///   - eventLoopGroup: the event loops; NIO's singleton by default.
    ///   - logger: receives outages, and connections at debug level; the current task's logger by default.
    /// - Throws: `ProviderError` of kind `configuration` for values out of range, of kind `tls` for certificates and
    ///   keys that cannot be used.
    public init(
        _ configuration: BroadcastConfiguration,
        eventLoopGroup: any EventLoopGroup = MultiThreadedEventLoopGroup.singleton,
        logger: Logger = .current
    ) throws(ProviderError) {
        guard TopicFamily.isTopic(configuration.bundleID) else {
            throw .configuration("invalid bundleID, expected letters, digits, hyphens and periods")
        }
        var management = configuration.management
        management.streamCountMax = min(management.streamCountMax, Self.managementStreamCountMax)
        management.resendsUnknown = false
        management.keepsLongResponses = true
        self.bundleID = configuration.bundleID
        self.name = "\(configuration)"
        self.sending = try Self.client(configuration.sending, eventLoopGroup, logger)
        self.management = try Self.client(management, eventLoopGroup, logger)
    }

    private static func client(
        _ configuration: HTTP2Configuration,
        _ group: any EventLoopGroup,
        _ logger: Logger
    ) throws(ProviderError) -> RequestClient {
        let outages = OutageLog(configuration.endpoint.address, logger)
        return try RequestClient(configuration, eventLoopGroup: group, logger: logger, outages: outages)
    }

    // MARK: Running

    /// Keeps connections open until ``finish()`` was called and everything has its outcome; can be called once.
    ///
    /// A graceful shutdown has the effect of ``finish()``. When the task is cancelled, requests that may have been
    /// processed are indeterminate, the rest unsent.
    ///
    /// - Throws: `CancellationError` if the task is cancelled; `ProviderError` if one of the services cannot be used,
    ///   for example because it rejects the certificate. Every request has its outcome then, too.
    public func run() async throws {
        do {
            try await withShutdownHandler {
                try await withThrowingTaskGroup(of: Void.self) { group in
                    for client in [self.sending, self.management] { group.addTask { try await client.run() } }
                    // If one ends with an error, the other is cancelled.
                    for try await _ in group {}
                }
            } onGracefulShutdown: {
                self.finish()
            }
        } catch {
            try Task.checkCancellation()
            // The caller of stop() knows that.
            guard (error as? ProviderError)?.kind == .stopped else { throw error }
        }
        try Task.checkCancellation()
    }

    /// Ends submissions: what was submitted gets its outcome, then ``run()`` returns.
    public func finish() {
        self.sending.finish()
        self.management.finish()
    }

    /// Ends ``run()`` immediately, without an error: what may have been processed is indeterminate, the rest unsent.
    public func stop() {
        self.sending.stop()
        self.management.stop()
    }

    /// Runs a client for the duration of a closure, and afterwards waits for all outcomes, unless the task is
    /// cancelled.
    ///
    /// - Parameters:
    ///   - configuration: the app, the services and the options.
    ///   - eventLoopGroup: the event loops; NIO's singleton by default.
    ///   - logger: as for ``init(_:eventLoopGroup:logger:)``.
    ///   - body: receives the running client; it runs in the task and on the actor of the caller.
    /// - Returns: the result of `body`, also if the client ends with an error, which is logged.
    /// - Throws: the errors of `body` and of ``init(_:eventLoopGroup:logger:)``.
    public static func withClient<Value>(
        _ configuration: BroadcastConfiguration,
        eventLoopGroup: any EventLoopGroup = MultiThreadedEventLoopGroup.singleton,
        logger: Logger = .current,
        _ body: (BroadcastClient) async throws -> Value
    ) async throws -> Value {
        let client = try BroadcastClient(configuration, eventLoopGroup: eventLoopGroup, logger: logger)
        return try await withRunning(client.run, logger: logger, end: client.finish) { try await body(client) }
    }

    // MARK: Channels

    /// Creates a channel.
    ///
    /// An app may have ``channelCountMax`` channels in each environment: delete those that are no longer used.
    ///
    /// - Parameters:
    ///   - storagePolicy: what the service stores for devices that are offline; it cannot be changed later.
    ///   - requestID: the `apns-request-id`; a random one by default.
    ///   - deadline: when to stop waiting, such as `.now + .seconds(5)`; by default only the limits of the
    ///     configuration apply.
    /// - Returns: the channel.
    /// - Throws: ``BroadcastError``. If its outcome is indeterminate, there may be a channel: see
    ///   ``channelIDs(requestID:deadline:)``.
    public func createChannel(
        storing storagePolicy: MessageStoragePolicy,
        requestID: PushIdentifier? = nil,
        deadline: ContinuousClock.Instant? = nil
    ) async throws(BroadcastError) -> BroadcastChannel {
        let body = JSONObject { object in
            object.add("message-storage-policy", storagePolicy.rawValue)
            object.add("push-type", "LiveActivity")
        }
        let request = self.request(.create, nil, requestID, body: body.bytes)
        let report = try await self.report(of: request, deadline)
        guard let id = report.responseFields?.apnsChannelID.flatMap({ ChannelID($0) }) else {
            throw Self.unreadable(report, .create, "has no apns-channel-id, so that the new channel is not known")
        }
        return BroadcastChannel(id: id, storagePolicy: storagePolicy)
    }

    /// Reads the configuration of a channel.
    ///
    /// - Parameters:
    ///   - id: the channel.
    ///   - requestID: the `apns-request-id`; a random one by default.
    ///   - deadline: when to stop waiting; by default only the limits of the configuration apply.
    /// - Returns: the channel.
    /// - Throws: ``BroadcastError``; its rejection has the reason `.channelNotRegistered` if there is no such channel.
    public func channel(
        _ id: ChannelID,
        requestID: PushIdentifier? = nil,
        deadline: ContinuousClock.Instant? = nil
    ) async throws(BroadcastError) -> BroadcastChannel {
        let report = try await self.report(of: self.request(.read, id, requestID), deadline)
        guard let policy: Int = Self.fields(report)?.integer("message-storage-policy") else {
            throw Self.unreadable(report, .read, "has no message-storage-policy")
        }
        return BroadcastChannel(id: id, storagePolicy: MessageStoragePolicy(rawValue: policy))
    }

    /// Deletes a channel.
    ///
    /// That cannot be undone: its identifier is not used again. Broadcasts that the service has stored may still
    /// arrive.
    ///
    /// - Parameters:
    ///   - id: the channel.
    ///   - requestID: the `apns-request-id`; a random one by default.
    ///   - deadline: when to stop waiting; by default only the limits of the configuration apply.
    /// - Throws: ``BroadcastError``; its rejection has the reason `.channelNotRegistered` if there is no such channel.
    public func deleteChannel(
        _ id: ChannelID,
        requestID: PushIdentifier? = nil,
        deadline: ContinuousClock.Instant? = nil
    ) async throws(BroadcastError) {
        _ = try await self.report(of: self.request(.delete, id, requestID), deadline)
    }

    /// Lists all channels of the app in the environment.
    ///
    /// A response of more than 768 KiB is not accepted; identifiers of 78 characters would be that long.
    ///
    /// - Parameters:
    ///   - requestID: the `apns-request-id`; a random one by default.
    ///   - deadline: when to stop waiting; by default only the limits of the configuration apply.
    /// - Returns: their identifiers, in the order of the response.
    /// - Throws: ``BroadcastError``.
    public func channelIDs(
        requestID: PushIdentifier? = nil,
        deadline: ContinuousClock.Instant? = nil
    ) async throws(BroadcastError) -> [ChannelID] {
        let report = try await self.report(of: self.request(.list, nil, requestID), deadline)
        guard let value = try? JSONValue(parsing: Self.body(report)), case .object(let members) = value,
            case .array(let elements)? = members["channels"]
        else { throw Self.unreadable(report, .list, "has no list of channels") }
        var ids: [ChannelID] = []
        for element in elements {
            guard case .string(let text) = element, let id = ChannelID(text) else {
                throw Self.unreadable(report, .list, "has a channel whose identifier is not base64")
            }
            ids.append(id)
        }
        return ids
    }

    // MARK: Broadcasts

    /// Sends a broadcast, and waits for its outcome.
    ///
    /// - Parameters:
    ///   - notification: the broadcast.
    ///   - deadline: when to stop waiting, such as `.now + .seconds(5)`; by default only the limits of the
    ///     configuration apply.
    /// - Returns: the outcome: `accepted` means that the service has taken it for all subscribers. A broadcast with an
    ///   expiry that the policy of its channel does not permit, or without a Live Activity, is `invalid` and not sent.
    public func send(
        _ notification: BroadcastNotification,
        deadline: ContinuousClock.Instant? = nil
    ) async -> DeliveryOutcome {
        await self.report(of: notification, deadline: deadline).outcome
    }

    /// Sends a broadcast in the same way as ``send(_:deadline:)``.
    ///
    /// - Parameters:
    ///   - notification: the broadcast.
    ///   - deadline: when to stop waiting; by default only the limits of the configuration apply.
    /// - Returns: the outcome, with details; its `apnsID` is the `apns-request-id`.
    public func report(
        of notification: BroadcastNotification,
        deadline: ContinuousClock.Instant? = nil
    ) async -> DeliveryReport {
        let request = notification.request(bundleID: self.bundleID, now: Int64(time(nil)))
        guard let problem = notification.problem else { return await self.sending.report(of: request, deadline) }
        var report = DeliveryReport(.invalid(problem))
        report.apnsID = request.apnsID
        return report
    }

    // MARK: Requests

    private func request(
        _ operation: ChannelFields.Operation,
        _ id: ChannelID?,
        _ requestID: PushIdentifier?,
        body: [UInt8] = []
    ) -> PushRequest {
        let fields = ChannelFields(operation, bundleID: self.bundleID, channelID: id)
        return PushRequest(fields, body: ByteBuffer(bytes: body), id: requestID)
    }

    /// Sends a request about channels; returns the report of its success.
    private func report(
        of request: PushRequest,
        _ deadline: ContinuousClock.Instant?
    ) async throws(BroadcastError) -> DeliveryReport {
        let report = await self.management.report(of: request, deadline)
        guard report.outcome == .accepted else {
            throw BroadcastError(report, isRead: request.channel?.operation.isRead == true)
        }
        return report
    }

    private static func body(_ report: DeliveryReport) -> [UInt8] {
        Array(report.responseFields?.body.readableBytesView ?? ByteBuffer().readableBytesView)
    }

    private static func fields(_ report: DeliveryReport) -> JSONFields? { JSONFields(Self.body(report)) }

    /// The error for a response that reports success without the expected content.
    private static func unreadable(
        _ report: DeliveryReport,
        _ operation: ChannelFields.Operation,
        _ problem: String
    ) -> BroadcastError {
        var report = report
        report.outcome = .indeterminate(.other("the response of the service \(problem)"))
        return BroadcastError(report, isRead: operation.isRead)
    }
}

extension BroadcastError {
    /// The error of a request; one that only reads can be repeated, whatever became of it.
    fileprivate init(_ report: DeliveryReport, isRead: Bool) {
        var advice = report.retryAdvice
        if isRead, case .mayDuplicate = advice { advice = .safe }
        self.init(outcome: report.outcome, retryAdvice: advice, requestID: report.apnsID)
    }
}

extension RequestClient {
    /// Sends a request, and waits for its outcome until a deadline or until the task is cancelled.
    fileprivate func report(of request: PushRequest, _ deadline: ContinuousClock.Instant?) async -> DeliveryReport {
        let start = self.observer.startTime
        let submission = RequestSubmission(request: request, client: self)
        var report =
            if let deadline {
                await submission.report(until: deadline, clock: ContinuousClock())
            } else {
                await submission.report()
            }
        self.observer.recordLatency(report.outcome, since: start)
        report.apnsID = request.apnsID
        return report
    }
}

/// A request whose outcome a task awaits.
private struct RequestSubmission: AwaitedSubmission {
    let request: PushRequest
    let client: RequestClient

    func submit(_ receiver: any SubmissionReceiver) -> SubmissionReceipt {
        self.client.submit(self.request, for: receiver) { receiver.settle(0..<1, $0) }
    }

    func withdraw(_ receiver: any SubmissionReceiver, in numbers: Range<UInt64>, _ reason: DeliveryOutcome.Reason) {
        self.client.withdraw(receiver, in: numbers, reason)
    }

    func waitForRoom() async { await self.client.waitForRoom() }

    var outage: ConnectionFailure? { self.client.outage }
}

extension BroadcastClient: CustomStringConvertible, CustomReflectable {
    /// The app and the addresses, in one line.
    public var description: String { "client for \(self.name)" }

    /// Empty, so that `dump` prints only the ``description``.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}
