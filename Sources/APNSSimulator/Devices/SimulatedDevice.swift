// SPDX-License-Identifier: Apache-2.0

public import APNSWire

/// One app on one simulated device.
public struct SimulatedDevice: Hashable, Sendable {
    /// The name that the app has there.
    public var token: DeviceToken
    /// The app.
    public var topic: String
    /// The service that the token belongs to; by default the sandbox.
    public var environment: Environment
    /// Since when the app is gone, in seconds since 1970 (UTC); `nil`, the default, while it is there.
    public var deadSince: UInt32?

    /// Makes a device.
    ///
    /// - Parameters:
    ///   - token: the name that the app has there.
    ///   - topic: the app.
    ///   - environment: the service that the token belongs to.
    ///   - deadSince: since when the app is gone, in seconds since 1970 (UTC); `nil` while it is there.
    public init(
        token: DeviceToken,
        topic: String,
        environment: Environment = .sandbox,
        deadSince: UInt32? = nil
    ) {
        self.token = token
        self.topic = topic
        self.environment = environment
        self.deadSince = deadSince
    }
}
