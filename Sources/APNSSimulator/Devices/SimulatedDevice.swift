// SPDX-License-Identifier: Apache-2.0

public import APNSWire

/// A device of a simulator, with its registered apps.
public struct SimulatedDevice: Hashable, Sendable {
    /// The maximum number of apps of a device.
    public static let appCountMax = 100

    /// The identifier, such as `device-1`; empty until registration if none was given.
    public var id: String

    /// Whether it is online; by default it is.
    ///
    /// While it is offline, the service stores the last notification of each app until that expires.
    public var isOnline: Bool

    /// The apps, in the order in which they were registered.
    public var apps: [SimulatedApp]

    /// Creates a device.
    ///
    /// - Parameters:
    ///   - id: the identifier; by default registration assigns one.
    ///   - isOnline: whether it is online.
    ///   - apps: the apps.
    public init(_ id: String = "", isOnline: Bool = true, apps: [SimulatedApp] = []) {
        self.id = id
        self.isOnline = isOnline
        self.apps = apps
    }

    /// Creates a device with one app.
    ///
    /// - Parameters:
    ///   - token: the device token of the app.
    ///   - topic: the topic of the app.
    ///   - environment: the environment of the token.
    ///   - removalTimestamp: when the app was removed; `nil` if it is installed.
    public init(
        token: DeviceToken,
        topic: String,
        environment: PushEnvironment = .sandbox,
        removalTimestamp: Timestamp? = nil
    ) {
        self.init(
            apps: [
                SimulatedApp(token: token, topic: topic, environment: environment, removalTimestamp: removalTimestamp)
            ]
        )
    }

    /// Returns the app with a topic.
    ///
    /// - Parameter topic: the topic.
    /// - Returns: `nil` if it was never registered on the device.
    public func app(_ topic: String) -> SimulatedApp? { self.apps.first { $0.topic == topic } }
}

/// A token that its app no longer has, or whose device was removed.
package struct RetiredToken: Hashable, Sendable {
    /// The topic of the app.
    package var topic: String
    /// When it was retired.
    package var timestamp: Timestamp
    /// Whether the app received another token; otherwise its device was removed.
    package var isReplaced: Bool
}

/// An app on a simulated device.
public struct SimulatedApp: Hashable, Sendable {
    /// The device token of the app.
    public var token: DeviceToken

    /// The topic of the app.
    public var topic: String

    /// The environment of the token; by default the sandbox.
    public var environment: PushEnvironment

    /// When the app was removed; `nil`, the default, while it is installed.
    ///
    /// HTTP/2 responses contain this time, and feedback contains it in seconds.
    public var removalTimestamp: Timestamp?

    /// The number of the notification stored for it while the device is offline; `nil` for none.
    public internal(set) var storedNotificationNumber: UInt64?

    /// Creates an app.
    ///
    /// - Parameters:
    ///   - token: the device token of the app.
    ///   - topic: the topic of the app.
    ///   - environment: the environment of the token.
    ///   - removalTimestamp: when the app was removed; `nil` if it is installed.
    public init(
        token: DeviceToken,
        topic: String,
        environment: PushEnvironment = .sandbox,
        removalTimestamp: Timestamp? = nil
    ) {
        self.token = token
        self.topic = topic
        self.environment = environment
        self.removalTimestamp = removalTimestamp
    }
}
