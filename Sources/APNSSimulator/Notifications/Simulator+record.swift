// SPDX-License-Identifier: Apache-2.0

package import APNSWire

extension Simulator {
    /// A notification that came, taken or refused.
    ///
    /// - Parameter number: the notification.
    /// - Returns: `nil` where it never came, or has left the record.
    package func notification(_ number: UInt64) -> ReceivedNotification? {
        self.registry.expire()
        return self.registry.recorder.notification(number)
    }

    /// Notifications that came, taken or refused.
    ///
    /// The record is looked at little by little: what is taken meanwhile does not wait for it.
    ///
    /// - Parameters:
    ///   - query: which, and in which order.
    ///   - countMax: how many at most.
    ///   - isIncluded: says whether one of them is wanted.
    /// - Returns: those that are.
    package func notifications(
        _ query: NotificationQuery = NotificationQuery(),
        countMax: Int = .max,
        where isIncluded: (ReceivedNotification) -> Bool = { _ in true }
    ) -> [ReceivedNotification] {
        self.registry.expire()
        return self.registry.recorder.notifications(query, countMax: countMax, where: isIncluded)
    }

    /// How many notifications are in the record.
    package var recordCount: Int { self.registry.recorder.count }

    /// The number of the notification before the oldest one in the record, and that of the newest one.
    package var recordBounds: (beforeOldest: UInt64, newest: UInt64) { self.registry.recorder.bounds }

    /// Where the notifications in the record came from, the oldest first.
    ///
    /// - Parameter body: is given those that followed one another on a connection.
    package func visitOrigins(_ body: (NotificationOrigin) -> Void) { self.registry.recorder.origins(body) }

    /// Registers an app at a device, with a token of the caller's or one of the service's.
    ///
    /// - Parameters:
    ///   - topic: the app.
    ///   - token: its token; `nil` for the one that it has, or a new one.
    ///   - environment: the service that the token belongs to; `nil` for this one.
    ///   - identifier: the device; `nil` for a new one.
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

    /// The service that the simulator plays.
    package var environment: Environment { self.registry.environment }

    /// What is known of a token that no app has any more.
    ///
    /// - Parameter token: a token of the service that the simulator plays.
    /// - Returns: `nil` for one that an app has, or never had.
    package func retiredToken(_ token: DeviceToken) -> RetiredToken? { self.registry.retiredToken(token) }

    /// What waits for those who ask for feedback, of all topics.
    package var feedback: [(topic: String, tuple: FeedbackTuple)] {
        self.registry.feedback(topic: nil, environment: self.registry.environment)
    }

    /// Lists the token of an app that is gone, though nobody sent it anything.
    ///
    /// - Parameter token: the token.
    /// - Returns: whether the app is gone.
    package func listFeedback(_ token: DeviceToken) -> Bool { self.registry.listFeedback(token) }

    /// Takes all entries off the lists.
    package func removeAllFeedback() { self.registry.removeAllFeedback() }
}
