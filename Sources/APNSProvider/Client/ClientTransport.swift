// SPDX-License-Identifier: Apache-2.0

package import APNSSession
package import APNSWire

/// A client's transport for single notifications over one protocol.
@usableFromInline
package protocol ClientTransport: Sendable {
    /// The metrics of the client.
    var observer: DeliveryObserver { get }

    /// The topic of all notifications, with which the transport infers no push type; `nil` if it infers one, or the
    /// topic is not known.
    var fixedTopic: FixedTopic? { get }

    /// Whether the `apns-id` of a notification is sent.
    var sendsIdentifiers: Bool { get }

    /// Submits a notification without waiting.
    ///
    /// Returns whether it was submitted.
    func submit(
        _ notification: borrowing PushNotification,
        _ receiver: any SubmissionReceiver,
        key: UInt64
    ) -> SubmissionReceipt

    /// Submits a notification that must not be sent, and reports its outcome immediately.
    ///
    /// Returns whether it was submitted.
    func settleLocally(
        _ outcome: DeliveryOutcome,
        _ receiver: any SubmissionReceiver,
        key: UInt64
    ) -> SubmissionReceipt

    /// Removes a receiver's notifications that wait in the queue, so that they are never sent, and reports that they
    /// are unsent for this reason; indeterminate if an earlier attempt may have arrived.
    ///
    /// Notifications that no longer wait are not affected.
    func withdraw(_ receiver: any SubmissionReceiver, in numbers: Range<UInt64>, _ reason: DeliveryOutcome.Reason)

    /// Why connections fail; `nil` if they work.
    var outage: ConnectionFailure? { get }

    /// Waits until there may be room, submissions have ended, or the task is cancelled.
    func waitForRoom() async

    /// Waits until everything is settled and submissions have ended, or the task is cancelled.
    ///
    /// Returns why they ended; `nil` if the task is cancelled.
    func waitForEnd() async -> DeliveryOutcome.Reason?

    /// Verifies what was sent as soon as possible.
    func checkpoint()

    /// Ends a sequence: verifies its outcomes, unless the configured delay does so soon anyway.
    func endSequence()

    /// Permits sending to a rejected token again.
    func allow(_ token: DeviceToken)

    /// Keeps connections open until ``finish()`` was called and everything is settled; can be called once.
    ///
    /// - Throws: why sending ended early.
    func run() async throws(ProviderError)

    /// Ends submissions: what was submitted still gets its outcome.
    func finish()

    /// Stops sending: what was submitted gets its outcome immediately.
    func stop()
}

extension ClientTransport {
    @usableFromInline
    package var fixedTopic: FixedTopic? { nil }

    /// Whether a metrics system measures the time to outcomes.
    @usableFromInline
    package var measuresTime: Bool { self.observer.measuresTime }
}
