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

    private let devices: DeviceRegistry
    private let environment: Environment

    /// Runs a simulator while `body` runs, and ends it on every way out.
    ///
    /// - Parameters:
    ///   - configuration: what it is made of.
    ///   - logger: is told of connections, at debug level.
    ///   - body: is called when the simulator listens.
    /// - Returns: what `body` returns.
    /// - Throws: what `body` throws, `ServerError` where a listener cannot listen, or
    ///   ``SimulatorError/fault(index:reason:)`` for a fault that can happen nowhere.
    public static func withRunning<Value: Sendable>(
        _ configuration: SimulatorConfiguration,
        logger: Logger = .current,
        _ body: @escaping @Sendable (Simulator) async throws -> Value
    ) async throws -> Value {
        let devices = DeviceRegistry(configuration)
        let faults = try ConnectionFaults(configuration.faults)
        let backend = SimulatorBackend(
            devices: devices,
            faults: faults,
            environment: configuration.environment,
            onDelivery: configuration.onDelivery
        )
        let store = SimulatorFeedbackStore(
            devices: devices,
            environment: configuration.environment,
            // The listener expects progress from one portion to the next.
            portionCountMax: faults.schedule.hasFaults(.writing, at: .feedback) ? 1 : nil
        )
        let service = SimulatorPushService(
            devices: devices,
            schedule: faults.schedule,
            environment: configuration.environment,
            onDelivery: configuration.onDelivery
        )
        var (listener, feedback, push) = (configuration.listener, configuration.feedback, configuration.push)
        push.addsUniqueIdentifier = configuration.environment == .sandbox
        faults.configure(&listener.listener, as: .binary)
        faults.configure(&feedback.listener, as: .feedback)
        faults.configure(&push.listener, as: .http2)
        return try await Listener(listener, backend: backend, logger: logger).withRunning { [feedback, push] listener in
            try await Listener(feedback, store: store, logger: logger).withRunning { feedback in
                try await Listener(push, service: service, logger: logger).withRunning { server in
                    let simulator = Simulator(
                        gatewayPort: try await listener.boundAddress.port ?? 0,
                        feedbackPort: try await feedback.boundAddress.port ?? 0,
                        pushPort: try await server.boundAddress.port ?? 0,
                        listener: listener,
                        push: server,
                        devices: devices,
                        environment: configuration.environment
                    )
                    return try await body(simulator)
                }
            }
        }
    }

    /// What it has seen so far.
    public var statistics: SimulatorStatistics { self.devices.statistics }

    /// How many notifications were taken for a token.
    ///
    /// - Parameter token: the token.
    /// - Returns: the number; 0 for tokens beyond ``SimulatorConfiguration/countedTokenCountMax``.
    public func deliveryCount(of token: DeviceToken) -> Int { self.devices.deliveryCount(of: token) }

    /// The last notifications that were taken, the newest last.
    public var lastDeliveries: [DeliveredNotification] { self.devices.lastDeliveries }

    /// The dead devices that were sent something since they died, the one that died first first.
    ///
    /// - Parameters:
    ///   - topic: the app.
    ///   - environment: the service.
    /// - Returns: their tokens, with the time since when each is dead.
    public func feedback(topic: String, environment: Environment) -> [FeedbackTuple] {
        self.devices.feedback(topic: topic, environment: environment)
    }

    /// Registers a device, or changes one that is registered: dead ones come back to life, or the other way round.
    ///
    /// - Parameter device: the device.
    public func register(_ device: SimulatedDevice) { self.devices.register(device) }

    /// Removes an app from its device; the next notification for it makes a tuple of feedback.
    ///
    /// - Parameters:
    ///   - token: the token that the app had there.
    ///   - time: when, in seconds since 1970 (UTC).
    /// - Returns: whether it was there.
    @discardableResult
    public func uninstall(_ token: DeviceToken, at time: UInt32) -> Bool {
        self.devices.uninstall(token, environment: self.environment, at: time)
    }
}
