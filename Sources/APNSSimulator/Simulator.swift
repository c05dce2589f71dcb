// SPDX-License-Identifier: Apache-2.0

public import APNSServer
public import APNSWire
public import Logging
import NIOCore

/// A gateway without a service behind it: its devices are in memory, and what goes wrong is decided beforehand.
///
/// Each notification that it counts was processed, and nothing behind the first failing message of a connection ever
/// is, so a test can compare what a provider claims with its counters.
public struct Simulator: Sendable {
    /// The port of the binary listener.
    public let gatewayPort: Int

    /// The port of the feedback listener.
    public let feedbackPort: Int

    /// The port of the HTTP/2 listener.
    public let pushPort: Int

    /// The binary listener.
    public let listener: Listener

    /// The HTTP/2 listener.
    public let push: Listener

    let registry: DeviceRegistry
    let schedule: FaultSchedule
    private let connectionHistory: ConnectionHistory
    private let policy: ServicePolicy
    private let onChange: (@Sendable (SimulatorChange) -> Void)?

    /// Runs a simulator while `body` runs, and ends it on every way out.
    ///
    /// - Parameters:
    ///   - configuration: what it is made of.
    ///   - logger: is told of connections, at debug level.
    ///   - body: is called when the simulator listens.
    /// - Returns: what `body` returns.
    /// - Throws: what `body` throws, `ServerError` where a listener cannot listen,
    ///   ``SimulatorError/fault(index:reason:)`` for a fault that can happen nowhere, or
    ///   ``SimulatorError/tooManyDeviceTokens(countMax:)``.
    public static func withRunning<Value: Sendable>(
        _ configuration: SimulatorConfiguration,
        logger: Logger = .current,
        _ body: @escaping @Sendable (Simulator) async throws -> Value
    ) async throws -> Value {
        let revision = Revision()
        let devices = try DeviceRegistry(configuration, revision: revision)
        let schedule = try FaultSchedule(
            configuration.plannedFaults,
            now: configuration.now,
            revision: revision,
            onChange: configuration.onChange
        )
        let policy = ServicePolicy(configuration)
        let faults = ConnectionFaults(schedule)
        let backend = SimulatorBackend(devices: devices, faults: faults, policy: policy)
        let store = SimulatorFeedbackStore(devices: devices, policy: policy, schedule: schedule)
        let service = SimulatorPushService(devices: devices, schedule: schedule, policy: policy)
        let onChange = configuration.onChange
        var (listener, feedback, push) = (configuration.listener, configuration.feedback, configuration.push)
        push.addsUniqueIdentifier = configuration.environment == .sandbox
        policy.configure(&push)
        faults.configure(&listener.listener, as: .binary)
        faults.configure(&feedback.listener, as: .feedback)
        faults.configure(&push.listener, as: .http2)
        let connections = ConnectionHistory(configuration, devices)
        connections.configure(&listener.listener, as: .binary)
        connections.configure(&feedback.listener, as: .feedback)
        connections.configure(&push.listener, as: .http2)
        return try await Listener(listener, backend: backend, logger: logger).withRunning { [feedback, push] listener in
            try await Listener(feedback, store: store, logger: logger).withRunning { feedback in
                try await Listener(push, service: service, logger: logger).withRunning { server in
                    let simulator = Simulator(
                        gatewayPort: try await listener.boundAddress.port ?? 0,
                        feedbackPort: try await feedback.boundAddress.port ?? 0,
                        pushPort: try await server.boundAddress.port ?? 0,
                        listener: listener,
                        push: server,
                        registry: devices,
                        schedule: schedule,
                        connectionHistory: connections,
                        policy: policy,
                        onChange: onChange
                    )
                    // All end at the same time, rather than one after the other.
                    defer {
                        devices.recorder.end()
                        for listener in [listener, feedback, server] { listener.stop() }
                    }
                    return try await body(simulator)
                }
            }
        }
    }

    /// What it has seen so far.
    public var statistics: SimulatorStatistics { self.registry.statistics }

    // MARK: Connections

    /// The connections whose handshake was done: the open ones, and the last 1000 that were closed; the one that was
    /// opened first first.
    public var connections: [ConnectionRecord] { self.connectionHistory.records }

    /// Ends a connection.
    ///
    /// - Parameters:
    ///   - number: its number at its listener.
    ///   - listener: where it came.
    ///   - ending: what is done to it; by default what its protocol asks for.
    /// - Returns: whether it was open.
    @discardableResult
    public func endConnection(
        _ number: UInt64,
        of listener: SimulatorListener,
        _ ending: FaultReport.Ending = .orderly
    ) -> Bool {
        self.connectionHistory.end(number, of: listener, ending)
    }

    /// The certificates that are revoked, by the SHA-256 digests in lower-case hexadecimal digits.
    public var revokedFingerprints: Set<String> { self.policy.revocations.fingerprints }

    /// Revokes a certificate, until it is restored.
    ///
    /// New connections with it to the gateway and the feedback service are closed behind the handshake; those that the
    /// gateway has end as at a shutdown. Over HTTP/2 each request is answered with BadCertificate.
    ///
    /// - Parameter fingerprint: its SHA-256 digest in hexadecimal digits, with or without colons.
    public func revoke(_ fingerprint: String) {
        self.policy.revocations.add(fingerprint)
        self.onChange?(.revocations(self.revokedFingerprints))
        _ = self.listener.readmit()
    }

    /// Takes back that a certificate was revoked.
    ///
    /// - Parameter fingerprint: its SHA-256 digest in hexadecimal digits, with or without colons.
    /// - Returns: whether it was revoked.
    @discardableResult
    public func restore(_ fingerprint: String) -> Bool {
        let wasRevoked = self.policy.revocations.remove(fingerprint)
        if wasRevoked { self.onChange?(.revocations(self.revokedFingerprints)) }
        return wasRevoked
    }

    /// Forgets the connections that are closed.
    package func removeClosedConnections() { self.connectionHistory.removeClosed() }

    // MARK: Devices

    /// The devices as they are now, in the order in which they were registered.
    public var devices: [SimulatedDevice] { self.registry.devices }

    /// A device as it is now.
    ///
    /// - Parameter identifier: what it is called.
    /// - Returns: `nil` where there is none of that name.
    public func device(_ identifier: String) -> SimulatedDevice? { self.registry.device(identifier) }

    /// The device that has a token of the service that the simulator plays.
    ///
    /// - Parameter token: the token.
    /// - Returns: `nil` where no device has it.
    public func device(of token: DeviceToken) -> SimulatedDevice? { self.registry.device(of: token) }

    /// Registers an app at a device; an app that was removed is there again.
    ///
    /// From now on, on the binary protocol and over HTTP/2, notifications for the token and its topic are taken.
    ///
    /// - Parameters:
    ///   - topic: the app.
    ///   - identifier: the device, which is made where there is none of that name; by default a new one.
    /// - Returns: the token of 32 bytes, of the service that the simulator plays: the one that the app has there, or
    ///   else a new one, which no other service can make.
    /// - Precondition: there are fewer device tokens than ``SimulatorConfiguration/deviceTokenCountMax``.
    @discardableResult
    public func register(topic: String, on identifier: String? = nil) -> DeviceToken {
        do throws(SimulatorError) {
            return try self.registry.register(topic: topic, token: nil, on: identifier).token
        } catch {
            preconditionFailure("\(error)")
        }
    }

    /// Registers a device with tokens of your own, or changes one that is registered.
    ///
    /// A device without a name is the one that has one of its tokens, whose other apps stay as they are, or else a new
    /// one. An app that was removed is there again: notifications are taken, over HTTP/2 as well, and feedback has no
    /// entry of it any more. Where ``SimulatedApp/removalTimestamp`` is set, the app is gone, as after
    /// ``remove(_:at:)``.
    ///
    /// - Parameter device: the device, its apps and their tokens.
    /// - Returns: the device as it is now.
    /// - Precondition: there are fewer device tokens than ``SimulatorConfiguration/deviceTokenCountMax``, and the
    ///   device has at most ``SimulatedDevice/appCountMax`` apps.
    @discardableResult
    public func register(_ device: SimulatedDevice) -> SimulatedDevice {
        do throws(SimulatorError) {
            return try self.registry.register(device)
        } catch {
            preconditionFailure("\(error)")
        }
    }

    /// Gives an app a new token; the one before is not taken any more: 410 ExpiredToken over HTTP/2, and an entry of
    /// feedback on the binary protocol.
    ///
    /// - Parameters:
    ///   - topic: the app.
    ///   - identifier: its device.
    /// - Returns: the new token; `nil` where there is no such app.
    /// - Precondition: there are fewer device tokens than ``SimulatorConfiguration/deviceTokenCountMax``.
    @discardableResult
    public func renewToken(topic: String, on identifier: String) -> DeviceToken? {
        do throws(SimulatorError) {
            return try self.registry.renewToken(topic: topic, on: identifier)?.token
        } catch {
            preconditionFailure("\(error)")
        }
    }

    /// Connects a device to the service, or disconnects it.
    ///
    /// While it is offline, the service keeps the last notification of each app, until its expiry; one that expires
    /// immediately is not kept. It is delivered when the device is back.
    ///
    /// - Parameters:
    ///   - isOnline: whether it is connected.
    ///   - identifier: the device.
    /// - Returns: whether there is such a device.
    @discardableResult
    public func setOnline(_ isOnline: Bool, device identifier: String) -> Bool {
        self.registry.setOnline(identifier, isOnline)
    }

    /// Removes a device; its tokens are those of apps that were removed.
    ///
    /// - Parameter identifier: the device.
    /// - Returns: whether there was such a device.
    @discardableResult
    public func removeDevice(_ identifier: String) -> Bool { self.registry.removeDevice(identifier) }

    /// Removes an app from its device, until it is registered again.
    ///
    /// What providers meet from now on:
    /// - over HTTP/2, the answer 410 Unregistered with the time in milliseconds;
    /// - on the binary protocol, nothing: the gateway takes notifications for it, with
    ///   ``ReceivedNotification/isDead``;
    /// - at the feedback service, a tuple with the time in seconds, from the next notification for it on the binary
    ///   protocol on, and until a provider has read it.
    ///
    /// - Parameters:
    ///   - token: the token that the app had there, of the service that the simulator plays.
    ///   - timestamp: when, in milliseconds since 1970 (UTC); by default now, as ``SimulatorConfiguration/now`` says.
    /// - Returns: whether it was there.
    @discardableResult
    public func remove(_ token: DeviceToken, at timestamp: UInt64? = nil) -> Bool {
        self.registry.remove(token, at: timestamp)
    }

    /// The dead tokens that were sent something since they died, the one that died first first.
    ///
    /// - Parameters:
    ///   - topic: the app.
    ///   - environment: the service.
    /// - Returns: the tokens, with the time since when each is dead.
    public func feedback(topic: String, environment: Environment) -> [FeedbackTuple] {
        self.registry.feedback(topic: topic, environment: environment).map(\.tuple)
    }

    /// Makes devices, feedback, faults, counts, limits, revoked certificates and the record of notifications as they
    /// were at the start; connections stay.
    ///
    /// Numbers go on, those of notifications and those of devices: what is still on its way to a device of before does
    /// not reach one of after.
    public func reset() {
        self.policy.reset()
        self.schedule.reset()
        self.registry.reset()
    }

    // MARK: What arrived

    /// The notifications that were taken, the newest last; so many of the last as
    /// ``SimulatorConfiguration/receivedCountMax`` says.
    public var receivedNotifications: [ReceivedNotification] {
        self.registry.expire()
        return self.notifications { $0.isRejected = false }
    }

    /// The notifications that were refused, as far as they are kept, the newest last.
    public var rejectedNotifications: [ReceivedNotification] {
        self.notifications { $0.isRejected = true }
    }

    private func notifications(_ change: (inout NotificationQuery) -> Void) -> [ReceivedNotification] {
        var query = NotificationQuery()
        change(&query)
        return self.registry.recorder.notifications(query, countMax: .max) { _ in true }
    }

    /// Forgets the notifications that came, and those that are kept for devices that are offline.
    public func removeNotifications() { self.registry.removeNotifications() }

    /// The notifications that are taken, from the oldest one of ``receivedNotifications`` on, each as it arrives.
    public var notifications: NotificationSequence { NotificationSequence(recorder: self.registry.recorder) }

    /// How many notifications were taken for a token.
    ///
    /// - Parameter token: the token.
    /// - Returns: the number; 0 for tokens beyond ``SimulatorConfiguration/countedTokenCountMax``.
    public func receivedCount(of token: DeviceToken) -> Int { self.registry.receivedCount(of: token) }

    /// Waits for the next notification for a token: the first one that no call has returned yet, also when it arrived
    /// before the call.
    ///
    /// Of several calls that wait for one token, the first is given the first notification. One that has left
    /// ``receivedNotifications`` is not returned any more.
    ///
    /// - Parameters:
    ///   - token: whom it is for.
    ///   - duration: how long to wait for it.
    ///   - clock: measures that; by default the continuous clock.
    /// - Returns: the notification.
    /// - Throws: ``SimulatorError/notReceived(within:count:overallCount:rejectedCount:)`` when the time is over,
    ///   ``SimulatorError/ended`` where the simulator ends, or `CancellationError` where the task is cancelled.
    public func next<C: Clock<Duration>>(
        for token: DeviceToken,
        within duration: Duration,
        clock: C = ContinuousClock()
    ) async throws -> ReceivedNotification {
        let registry = self.registry
        let notification = try await registry.recorder.next(for: token, within: duration, clock: clock) {
            registry.overdue(token, within: duration)
        }
        guard let notification else { throw SimulatorError.ended }
        return notification
    }
}

extension Simulator: CustomStringConvertible, CustomReflectable {
    /// Where it listens, in one line.
    public var description: String {
        "simulator on ports \(self.gatewayPort), \(self.feedbackPort) (feedback) and \(self.pushPort) (HTTP/2)"
    }

    /// Nothing that is not in ``description``, so that `dump` prints one line.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}
