// SPDX-License-Identifier: Apache-2.0

public import APNSServer
public import APNSWire
public import Logging
import NIOCore

/// A gateway and service for tests, with devices in memory and configured faults.
///
/// Every counted notification was processed, and nothing after the first failing message of a connection ever is, so a
/// test can compare a provider's results with the counters.
public struct Simulator: Sendable {
    /// The port of the binary listener.
    public let gatewayPort: Int

    /// The port of the feedback listener.
    public let feedbackPort: Int

    /// The port of the HTTP/2 listener.
    public let http2Port: Int

    /// The binary listener.
    public let listener: Listener

    /// The HTTP/2 listener.
    public let http2: Listener

    /// The broadcast channels, by app; a broadcast to one is in the record without a device token.
    public let channels: BroadcastChannels

    let registry: DeviceRegistry
    let schedule: FaultSchedule
    private let connectionHistory: ConnectionHistory
    private let policy: ServicePolicy
    private let onChange: (@Sendable (SimulatorChange) -> Void)?

    /// Runs a simulator while `body` runs, and ends it before this method returns or throws.
    ///
    /// - Parameters:
    ///   - configuration: the configuration.
    ///   - logger: receives connections and error responses at info level, those of probes, too; more at debug level.
    ///   - body: called when the simulator listens, in the task and on the actor of the caller.
    /// - Returns: what `body` returns.
    /// - Throws: the error of `body`, `ServerError` if a listener cannot listen,
    ///   ``SimulatorError/fault(index:reason:)`` for an invalid fault, or
    ///   ``SimulatorError/tooManyDeviceTokens(countMax:)``.
    public static func withRunning<Value>(
        _ configuration: SimulatorConfiguration,
        logger: Logger = .current,
        _ body: (Simulator) async throws -> Value
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
        let connections = ConnectionHistory(configuration, devices)
        let faults = ConnectionFaults(schedule) { connections.isOutage }
        let channels = BroadcastChannels(countMax: configuration.channelCountMax)
        let backend = SimulatorBackend(devices: devices, faults: faults, policy: policy, channels: channels)
        let onChange = configuration.onChange
        var (listener, feedback, http2) = (configuration.listener, configuration.feedback, configuration.http2)
        http2.addsUniqueID = configuration.environment == .sandbox
        policy.configure(&http2)
        faults.configure(&listener.listener, as: .binary)
        faults.configure(&feedback.listener, as: .feedback)
        faults.configure(&http2.listener, as: .http2)
        connections.configure(&listener.listener, as: .binary)
        connections.configure(&feedback.listener, as: .feedback)
        connections.configure(&http2.listener, as: .http2)
        return try await Listener(listener, backend: backend, logger: logger).withRunning {
            [feedback, http2] listener in
            try await Listener(feedback, store: backend, logger: logger).withRunning { feedback in
                try await Listener(http2, service: backend, logger: logger).withRunning { server in
                    let simulator = Simulator(
                        gatewayPort: try await listener.boundAddress.port,
                        feedbackPort: try await feedback.boundAddress.port,
                        http2Port: try await server.boundAddress.port,
                        listener: listener,
                        http2: server,
                        channels: channels,
                        registry: devices,
                        schedule: schedule,
                        connectionHistory: connections,
                        policy: policy,
                        onChange: onChange
                    )
                    // All end concurrently.
                    defer {
                        devices.recorder.end()
                        for listener in [listener, feedback, server] { listener.stop() }
                    }
                    return try await body(simulator)
                }
            }
        }
    }

    /// The counters.
    public var statistics: SimulatorStatistics { self.registry.statistics }

    // MARK: Connections

    /// The connections after their handshake, in the order in which they were opened: the open ones, and the last 1000
    /// closed ones.
    public var connections: [ConnectionRecord] { self.connectionHistory.records }

    /// Ends a connection.
    ///
    /// - Parameters:
    ///   - number: the number of the connection at the listener.
    ///   - listener: the listener.
    ///   - ending: how it is ended; by default as its protocol requires.
    /// - Returns: whether it was open.
    @discardableResult
    public func endConnection(
        _ number: UInt64,
        of listener: SimulatorListener,
        _ ending: FaultReport.Ending = .orderly
    ) -> Bool {
        self.connectionHistory.end(number, of: listener, ending)
    }

    /// Refuses all connections while `body` runs, at each listener, as if the service were not there.
    ///
    /// Open connections are reset before `body` runs, without a response. New ones are closed before the handshake. The
    /// ports stay the same, and faults and devices are not changed. Outages may overlap: connections are admitted again
    /// when the last one is over.
    ///
    /// ```swift
    /// try await simulator.withOutage {
    ///     let outcome = await client.send(notification)  // it waits, for a time that the client's limits determine
    /// }
    /// ```
    ///
    /// - Parameter body: called when all connections are closed, in the task and on the actor of the caller.
    /// - Returns: what `body` returns.
    /// - Throws: the error of `body`; the outage is over then, too.
    public func withOutage<Value>(_ body: () async throws -> Value) async rethrows -> Value {
        await self.connectionHistory.beginOutage()
        defer { self.connectionHistory.endOutage() }
        return try await body()
    }

    /// The revoked certificates, by their SHA-256 digests in lower-case hexadecimal digits.
    public var revokedFingerprints: Set<String> { self.policy.revocations.fingerprints }

    /// Revokes a certificate until it is restored.
    ///
    /// New connections with it to the gateway and the feedback service are closed after the handshake; open ones to the
    /// gateway end as at a shutdown. Over HTTP/2, each request is rejected with BadCertificate.
    ///
    /// - Parameter fingerprint: the SHA-256 digest of the certificate in hexadecimal digits, with or without colons.
    public func revoke(_ fingerprint: String) {
        self.policy.revocations.add(fingerprint)
        self.onChange?(.revocations)
        _ = self.listener.beginReadmission()
    }

    /// Restores a revoked certificate.
    ///
    /// - Parameter fingerprint: the SHA-256 digest of the certificate in hexadecimal digits, with or without colons.
    /// - Returns: whether it was revoked.
    @discardableResult
    public func restore(_ fingerprint: String) -> Bool {
        let wasRevoked = self.policy.revocations.remove(fingerprint)
        if wasRevoked { self.onChange?(.revocations) }
        return wasRevoked
    }

    // MARK: Devices

    /// The current devices, in the order in which they were registered.
    public var devices: [SimulatedDevice] { self.registry.devices }

    /// Returns a device.
    ///
    /// - Parameter identifier: the identifier.
    /// - Returns: `nil` if there is no such device.
    public func device(_ identifier: String) -> SimulatedDevice? { self.registry.device(identifier) }

    /// Returns the device with a token of the simulator's environment.
    ///
    /// - Parameter token: the token.
    /// - Returns: `nil` if no device has it.
    public func device(of token: DeviceToken) -> SimulatedDevice? { self.registry.device(of: token) }

    /// Registers an app on a device; a removed app is installed again.
    ///
    /// From now on, notifications for the token and its topic are accepted on both protocols.
    ///
    /// - Parameters:
    ///   - topic: the topic of the app.
    ///   - identifier: the device, which is created if it does not exist; by default a new device.
    /// - Returns: a token of 32 bytes in the simulator's environment: the app's existing token, or a new one, which no
    ///   other service can create.
    /// - Precondition: The number of device tokens is less than ``SimulatorConfiguration/deviceTokenCountMax``.
    @discardableResult
    public func register(topic: String, on identifier: String? = nil) -> DeviceToken {
        Self.checked { () throws(SimulatorError) in
            try self.registry.register(topic: topic, token: nil, on: identifier).token
        }
    }

    /// Registers a device with given tokens, or updates a registered one.
    ///
    /// A device without an identifier is the one with one of its tokens, whose other apps stay unchanged, or else a new
    /// one. A removed app is installed again: its notifications are accepted, also over HTTP/2, and its feedback entry
    /// is removed. If ``SimulatedApp/removalTimestamp`` is set, the app is removed, as after ``remove(_:at:)``.
    ///
    /// - Parameter device: the device, its apps and their tokens.
    /// - Returns: the current device.
    /// - Precondition: The number of device tokens is less than ``SimulatorConfiguration/deviceTokenCountMax``, and the
    ///   device has at most ``SimulatedDevice/appCountMax`` apps.
    @discardableResult
    public func register(_ device: SimulatedDevice) -> SimulatedDevice {
        Self.checked { () throws(SimulatorError) in try self.registry.register(device) }
    }

    /// Assigns an app a new token.
    ///
    /// The previous one is retired: 410 ExpiredToken over HTTP/2, and a feedback entry on the binary protocol.
    ///
    /// - Parameters:
    ///   - topic: the topic of the app.
    ///   - identifier: the device.
    /// - Returns: the new token; `nil` if there is no such app.
    /// - Precondition: The number of device tokens is less than ``SimulatorConfiguration/deviceTokenCountMax``.
    @discardableResult
    public func renewToken(topic: String, on identifier: String) -> DeviceToken? {
        Self.checked { () throws(SimulatorError) in
            try self.registry.renewToken(topic: topic, on: identifier)?.token
        }
    }

    /// Runs a call whose errors are errors of the caller.
    private static func checked<Value>(_ body: () throws(SimulatorError) -> Value) -> Value {
        do { return try body() } catch { preconditionFailure("\(error)") }
    }

    /// Sets a device online or offline.
    ///
    /// While it is offline, the service stores the last notification of each app until its expiry, unless it expires
    /// immediately, and delivers it when the device is online again.
    ///
    /// - Parameters:
    ///   - isOnline: whether the device is online.
    ///   - identifier: the device.
    /// - Returns: whether the device exists.
    @discardableResult
    public func setOnline(_ isOnline: Bool, device identifier: String) -> Bool {
        self.registry.setOnline(identifier, isOnline)
    }

    /// Removes a device; its apps count as removed.
    ///
    /// - Parameter identifier: the device.
    /// - Returns: whether the device existed.
    @discardableResult
    public func removeDevice(_ identifier: String) -> Bool { self.registry.removeDevice(identifier) }

    /// Removes an app from its device until it is registered again.
    ///
    /// Providers then receive:
    /// - over HTTP/2, 410 Unregistered with the time in milliseconds;
    /// - on the binary protocol, nothing: the gateway accepts notifications for it, with
    ///   ``ReceivedNotification/isDead``;
    /// - at the feedback service, a tuple with the time in seconds, after the next notification for it on the binary
    ///   protocol (or after ``SimulatorConfiguration/feedbackFailureCountMin``), and until a provider has read it. A
    ///   notification that was stored for the app, because the device is offline, counts at once.
    ///
    /// - Parameters:
    ///   - token: the token of the app in the simulator's environment.
    ///   - timestamp: when; by default now, by ``SimulatorConfiguration/now``.
    /// - Returns: whether the app was installed.
    @discardableResult
    public func remove(_ token: DeviceToken, at timestamp: Timestamp? = nil) -> Bool {
        self.registry.remove(token, at: timestamp)
    }

    /// Returns the dead tokens to which something was sent since they died, in the order of their deaths.
    ///
    /// - Parameters:
    ///   - topic: the topic of the app.
    ///   - environment: the environment.
    /// - Returns: the tokens, with the times of their deaths.
    public func feedback(topic: String, environment: PushEnvironment) -> [FeedbackTuple] {
        self.registry.feedback(topic: topic, environment: environment).map(\.tuple)
    }

    /// Restores the initial state of devices, feedback, faults, counters, limits, renewal times of provider tokens,
    /// revoked certificates and the record of notifications, and removes all channels; connections stay open.
    ///
    /// The numbers of notifications and devices continue, so that a notification on its way to an old device does not
    /// reach a new one.
    public func reset() {
        self.policy.reset()
        self.channels.removeAll()
        self.schedule.reset()
        self.registry.reset()
    }

    // MARK: Notifications

    /// The accepted notifications, the newest last, up to ``SimulatorConfiguration/receivedCountMax``.
    public var receivedNotifications: [ReceivedNotification] {
        self.registry.expire()
        return self.notifications { $0.isRejected = false }
    }

    /// The rejected notifications in the record, the newest last.
    public var rejectedNotifications: [ReceivedNotification] {
        self.notifications { $0.isRejected = true }
    }

    private func notifications(_ change: (inout NotificationQuery) -> Void) -> [ReceivedNotification] {
        var query = NotificationQuery()
        change(&query)
        return self.registry.recorder.notifications(query, countMax: .max).map(\.notification)
    }

    /// Removes the recorded notifications, and those stored for offline devices.
    public func removeNotifications() { self.registry.removeNotifications() }

    /// The accepted notifications, from the oldest of ``receivedNotifications`` on, each as it arrives.
    public var notifications: NotificationSequence { NotificationSequence(registry: self.registry) }

    /// Returns how many notifications were accepted for a token.
    ///
    /// - Parameter token: the token.
    /// - Returns: the count; 0 for tokens beyond ``SimulatorConfiguration/countedTokenCountMax``.
    public func receivedCount(of token: DeviceToken) -> Int { self.registry.receivedCount(of: token) }

    /// Waits for the next notification for a token: the first one that no call has returned yet, even if it arrived
    /// before the call.
    ///
    /// Several calls for one token receive notifications in the order of the calls. A notification that has left
    /// ``receivedNotifications`` is not returned.
    ///
    /// - Parameters:
    ///   - token: the device token.
    ///   - duration: how long to wait.
    ///   - clock: the clock for the duration; by default the continuous clock.
    /// - Returns: the notification.
    /// - Throws: ``SimulatorError/notReceived(within:count:overallCount:rejectedCount:)`` after the duration,
    ///   ``SimulatorError/ended`` if the simulator ends, or `CancellationError` if the task is cancelled.
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
    /// The addresses, in one line.
    public var description: String {
        "simulator on ports \(self.gatewayPort), \(self.feedbackPort) (feedback) and \(self.http2Port) (HTTP/2)"
    }

    /// Only ``description``, so that `dump` prints one line.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}
