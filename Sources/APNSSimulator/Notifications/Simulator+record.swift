// SPDX-License-Identifier: Apache-2.0

package import APNSWire

extension Simulator {
    /// Returns a received notification, accepted or rejected.
    package func notification(_ number: UInt64) -> ReceivedNotification? {
        self.registry.expire()
        return self.registry.recorder.notification(number)
    }

    /// Returns received notifications, accepted or rejected.
    ///
    /// The record is read in portions, so that new notifications do not wait.
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
    package func visitOrigins(_ body: (NotificationOrigin) -> Void) { self.registry.recorder.origins(body) }

    /// Registers an app on a device.
    ///
    /// - Throws: ``SimulatorError/tooManyDeviceTokens(countMax:)`` or ``SimulatorError/tooManyApps(countMax:)``.
    package func register(
        topic: String,
        token: DeviceToken?,
        environment: PushEnvironment?,
        on identifier: String?
    ) throws(SimulatorError) -> SimulatedApp {
        try self.registry.register(topic: topic, token: token, on: identifier, environment: environment)
    }

    /// The environment of the simulator.
    package var environment: PushEnvironment { self.registry.environment }

    /// Returns a token that no app has any more.
    package func retiredToken(_ token: DeviceToken) -> RetiredToken? { self.registry.retiredToken(token) }

    /// The feedback entries of all topics.
    package var feedback: [(topic: String, tuple: FeedbackTuple)] {
        self.registry.feedback(topic: nil, environment: self.registry.environment)
    }

    /// Adds the token of a removed app to the feedback list, although nothing was sent to it.
    ///
    /// Returns whether the app was removed.
    package func listFeedback(_ token: DeviceToken) -> Bool { self.registry.listFeedback(token) }

    /// Removes all feedback entries.
    package func removeAllFeedback() { self.registry.removeAllFeedback() }
}
