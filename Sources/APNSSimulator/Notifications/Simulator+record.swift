// SPDX-License-Identifier: Apache-2.0

package import APNSWire

extension Simulator {
    /// Returns a received notification, accepted or rejected.
    ///
    /// - Parameter number: the number of the notification.
    /// - Returns: `nil` if it was never received, or has left the record.
    package func notification(_ number: UInt64) -> ReceivedNotification? {
        self.registry.expire()
        return self.registry.recorder.notification(number)
    }

    /// Returns received notifications, accepted or rejected.
    ///
    /// The record is read in portions, so that new notifications do not wait.
    ///
    /// - Parameters:
    ///   - query: the conditions and the order.
    ///   - countMax: the maximum number of notifications.
    /// - Returns: the matching notifications.
    package func notifications(
        _ query: NotificationQuery = NotificationQuery(),
        countMax: Int = .max
    ) -> [RecordedNotification] {
        self.registry.expire()
        return self.registry.recorder.notifications(query, countMax: countMax)
    }

    /// The number of notifications in the record.
    package var recordCount: Int { self.registry.recorder.count }

    /// The number before the oldest notification in the record, and the number of the newest one.
    package var recordBounds: (beforeOldest: UInt64, newest: UInt64) { self.registry.recorder.bounds }

    /// Visits the origins of the notifications in the record, the oldest first.
    ///
    /// - Parameter body: receives the origin of consecutive notifications of a connection.
    package func visitOrigins(_ body: (NotificationOrigin) -> Void) { self.registry.recorder.origins(body) }

    /// Registers an app on a device.
    ///
    /// - Parameters:
    ///   - topic: the topic of the app.
    ///   - token: the token; `nil` for the existing one, or a new one.
    ///   - environment: the environment of the token; `nil` for that of the simulator.
    ///   - identifier: the device; `nil` for a new device.
    /// - Returns: the app.
    /// - Throws: ``SimulatorError/tooManyDeviceTokens(countMax:)`` or ``SimulatorError/tooManyApps(countMax:)``.
    package func register(
        topic: String,
        token: DeviceToken?,
        environment: Environment?,
        on identifier: String?
    ) throws(SimulatorError) -> SimulatedApp {
        try self.registry.register(topic: topic, token: token, on: identifier, environment: environment)
    }

    /// The environment of the simulator.
    package var environment: Environment { self.registry.environment }

    /// Returns a token that no app has any more.
    ///
    /// - Parameter token: a token of the simulator's environment.
    /// - Returns: `nil` for a token that an app has, or that never existed.
    package func retiredToken(_ token: DeviceToken) -> RetiredToken? { self.registry.retiredToken(token) }

    /// The feedback entries of all topics.
    package var feedback: [(topic: String, tuple: FeedbackTuple)] {
        self.registry.feedback(topic: nil, environment: self.registry.environment)
    }

    /// Adds the token of a removed app to the feedback list, although nothing was sent to it.
    ///
    /// - Parameter token: the token.
    /// - Returns: whether the app was removed.
    package func listFeedback(_ token: DeviceToken) -> Bool { self.registry.listFeedback(token) }

    /// Removes all feedback entries.
    package func removeAllFeedback() { self.registry.removeAllFeedback() }
}
