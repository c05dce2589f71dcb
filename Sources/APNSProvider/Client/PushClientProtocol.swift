// SPDX-License-Identifier: Apache-2.0

public import APNSSession
public import APNSWire

/// What code needs that sends notifications: the calls of a ``PushClient``, which a test can replace.
///
/// Let your code have a value of this type, or a parameter of a generic type, instead of a ``PushClient``. In a test,
/// give it a `ScriptedPushClient` of `APNSTestKit`, or a type of your own. Running a client is not part of it, since
/// that is the task of whoever creates it.
///
/// ```swift
/// struct Greeter {
///     let client: any PushClientProtocol
/// }
/// ```
public protocol PushClientProtocol: Sendable {
    /// Sends a notification, and waits for its outcome.
    ///
    /// - Parameter notification: the notification.
    /// - Returns: the outcome, with details.
    func report(of notification: PushNotification) async -> DeliveryReport

    /// Sends a notification, and waits for its outcome until a deadline.
    ///
    /// - Parameters:
    ///   - notification: the notification.
    ///   - deadline: when to stop waiting.
    ///   - clock: the clock of the deadline.
    /// - Returns: the outcome, with details; after the deadline, with those known so far.
    func report<C: Clock>(of notification: PushNotification, deadline: C.Instant, clock: C) async -> DeliveryReport

    /// Sends notifications, and waits for their outcomes.
    ///
    /// - Parameter notifications: the notifications.
    /// - Returns: the outcome of each, in the order of `notifications`.
    func send(_ notifications: some Sequence<PushNotification>) async -> [DeliveryOutcome]

    /// Sends notifications with identifiers of the caller.
    ///
    /// - Parameters:
    ///   - rows: identifiers and notifications.
    ///   - filter: the notifications that get records.
    /// - Returns: the outcome of each, in the order in which they are verified.
    func send<Rows: AsyncSequence & Sendable, ID: Sendable>(
        _ rows: Rows,
        only filter: DeliveryFilter
    ) -> DeliveryRecords<Rows, ID> where Rows.Element == (id: ID, notification: PushNotification)

    /// Permits sending to a rejected token again.
    ///
    /// - Parameter token: the token.
    func allow(_ token: DeviceToken)
}

extension PushClientProtocol {
    /// Sends a notification, and waits for its outcome.
    ///
    /// - Parameter notification: the notification.
    /// - Returns: the outcome.
    public func send(_ notification: PushNotification) async -> DeliveryOutcome {
        await self.report(of: notification).outcome
    }

    /// Sends a notification, and waits for its outcome until a deadline.
    ///
    /// - Parameters:
    ///   - notification: the notification.
    ///   - deadline: when to stop waiting, such as `.now + .seconds(5)`.
    ///   - clock: the clock of the deadline; by default the continuous clock.
    /// - Returns: the outcome; after the deadline, what is known so far.
    public func send<C: Clock>(
        _ notification: PushNotification,
        deadline: C.Instant,
        clock: C = ContinuousClock()
    ) async -> DeliveryOutcome {
        await self.report(of: notification, deadline: deadline, clock: clock).outcome
    }

    /// Sends a notification, and waits for its outcome until a deadline of the continuous clock.
    ///
    /// - Parameters:
    ///   - notification: the notification.
    ///   - deadline: when to stop waiting, such as `.now + .seconds(5)`.
    /// - Returns: the outcome, with details; after the deadline, with those known so far.
    public func report(of notification: PushNotification, deadline: ContinuousClock.Instant) async -> DeliveryReport {
        await self.report(of: notification, deadline: deadline, clock: .continuous)
    }

    /// Sends notifications with identifiers of the caller, and reports the outcome of each.
    ///
    /// - Parameter rows: identifiers and notifications.
    /// - Returns: the outcome of each, in the order in which they are verified.
    public func send<Rows: AsyncSequence & Sendable, ID: Sendable>(
        _ rows: Rows
    ) -> DeliveryRecords<Rows, ID> where Rows.Element == (id: ID, notification: PushNotification) {
        self.send(rows, only: .all)
    }
}

extension PushClient: PushClientProtocol {}
