// SPDX-License-Identifier: Apache-2.0

public import APNSWire

/// A device that a simulator knows, with the apps that registered there.
public struct SimulatedDevice: Hashable, Sendable {
    /// How many apps a device may have.
    public static let appCountMax = 100

    /// What it is called, such as `device-1`; empty until it is registered where no name was given.
    public var identifier: String

    /// Whether it is connected to the service; by default it is.
    ///
    /// While it is not, the service keeps the last notification of each app, until that expires.
    public var isOnline: Bool

    /// The apps that registered there, in that order.
    public var apps: [SimulatedApp]

    /// Makes a device.
    ///
    /// - Parameters:
    ///   - identifier: what it is called; by default it is given a name when it is registered.
    ///   - isOnline: whether it is connected to the service.
    ///   - apps: the apps that registered there.
    public init(_ identifier: String = "", isOnline: Bool = true, apps: [SimulatedApp] = []) {
        self.identifier = identifier
        self.isOnline = isOnline
        self.apps = apps
    }

    /// Makes a device with one app.
    ///
    /// - Parameters:
    ///   - token: the name that the app has there.
    ///   - topic: the app.
    ///   - environment: the service that the token belongs to.
    ///   - removalTimestamp: since when the app is gone, in milliseconds since 1970 (UTC); `nil` while it is there.
    public init(
        token: DeviceToken,
        topic: String,
        environment: Environment = .sandbox,
        removalTimestamp: UInt64? = nil
    ) {
        self.init(
            apps: [
                SimulatedApp(token: token, topic: topic, environment: environment, removalTimestamp: removalTimestamp)
            ]
        )
    }

    /// The app with a topic.
    ///
    /// - Parameter topic: the app.
    /// - Returns: `nil` where it never registered there.
    public func app(_ topic: String) -> SimulatedApp? { self.apps.first { $0.topic == topic } }
}

/// A token that an app had once, or had on a device that is no more.
package struct RetiredToken: Hashable, Sendable {
    /// The app.
    package var topic: String
    /// Since when it is retired, in milliseconds since 1970 (UTC).
    package var timestamp: UInt64
    /// Whether the app has had another token since; or else its device is no more.
    package var isReplaced: Bool
}

/// One app on one simulated device.
public struct SimulatedApp: Hashable, Sendable {
    /// The name that the app has there.
    public var token: DeviceToken

    /// The app.
    public var topic: String

    /// The service that the token belongs to; by default the sandbox.
    public var environment: Environment

    /// Since when the app is gone, in milliseconds since 1970 (UTC); `nil`, the default, while it is there.
    ///
    /// HTTP/2 answers with it, and feedback with the second that it is in.
    public var removalTimestamp: UInt64?

    /// The number of the notification that the service keeps for it while the device is offline, if any.
    public internal(set) var storedNotificationNumber: UInt64?

    /// Makes an app.
    ///
    /// - Parameters:
    ///   - token: the name that the app has on its device.
    ///   - topic: the app.
    ///   - environment: the service that the token belongs to.
    ///   - removalTimestamp: since when the app is gone, in milliseconds since 1970 (UTC); `nil` while it is there.
    public init(
        token: DeviceToken,
        topic: String,
        environment: Environment = .sandbox,
        removalTimestamp: UInt64? = nil
    ) {
        self.token = token
        self.topic = topic
        self.environment = environment
        self.removalTimestamp = removalTimestamp
    }
}
