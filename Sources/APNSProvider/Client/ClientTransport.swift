// SPDX-License-Identifier: Apache-2.0

package import APNSSession
package import APNSWire

/// Carries what a client is given, one by one, over one protocol.
@usableFromInline
package protocol ClientTransport: Sendable {
    /// Counts what is sent.
    var observer: DeliveryObserver { get }

    /// What becomes of a notification that is not to be sent; `nil` where it may be.
    ///
    /// It depends on nothing but the notification, so that it is asked once, however often there is no room.
    func localOutcome(of notification: borrowing PushNotification) -> DeliveryOutcome?

    /// Takes a notification without waiting.
    ///
    /// - Parameters:
    ///   - notification: what to send.
    ///   - receiver: is told what becomes of it, where it is taken.
    ///   - key: by which the receiver knows it.
    /// - Returns: whether it was taken.
    func submit(
        _ notification: borrowing PushNotification,
        _ receiver: any SubmissionReceiver,
        key: UInt64
    ) -> SubmissionReceipt

    /// Takes a notification that is not to be sent, and tells its receiver at once.
    ///
    /// - Parameters:
    ///   - outcome: what becomes of it.
    ///   - receiver: is told that, where it is taken.
    ///   - key: by which the receiver knows it.
    /// - Returns: whether it was taken.
    func settleHere(
        _ outcome: DeliveryOutcome,
        _ receiver: any SubmissionReceiver,
        key: UInt64
    ) -> SubmissionReceipt

    /// Waits until there may be room, nothing is taken any more, or the task is cancelled.
    func waitForRoom() async

    /// Waits until everything has its outcome and nothing more comes, or the task is cancelled.
    ///
    /// - Returns: why nothing more comes; `nil` where the task is cancelled.
    func waitForEnd() async -> DeliveryOutcome.Reason?

    /// Proves what was taken, as soon as that can be done.
    func checkpoint()

    /// Nothing more comes of a sequence: proves it, where time alone would not do so soon.
    func endSequence()

    /// Sends to a token again that was rejected.
    func allow(_ token: DeviceToken)

    /// Keeps the connections until ``finish()`` was called and everything is settled; once.
    ///
    /// - Throws: why sending ended early.
    func run() async throws(ProviderError)

    /// Nothing more comes: what was taken gets its outcome.
    func finish()

    /// Nothing more is sent: what was taken gets its outcome at once.
    func stop()
}

extension ClientTransport {
    /// All may be sent.
    package func localOutcome(of notification: borrowing PushNotification) -> DeliveryOutcome? { nil }

    /// Whether somebody measures how long outcomes take.
    @usableFromInline
    package var measuresTime: Bool { self.observer.startTime != nil }
}
