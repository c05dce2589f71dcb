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
    /// Since when the app is gone, in milliseconds since 1970 (UTC); `nil`, the default, while it is there.
    ///
    /// HTTP/2 answers with it, and feedback with the second that it is in.
    public var removalTimestamp: UInt64?

    /// Makes a device.
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
        self.token = token
        self.topic = topic
        self.environment = environment
        self.removalTimestamp = removalTimestamp
    }
}

extension SimulatedDevice {
    /// What feedback says of it; `nil` while the app is there.
    var feedback: FeedbackTuple? {
        self.removalTimestamp.map { FeedbackTuple(token: self.token, failedAt: UInt32(clamping: $0 / 1000)) }
    }
}
