// SPDX-License-Identifier: Apache-2.0

package import APNSWire

/// What became of one notification of a provider, for readers outside of the gateway.
package struct RecordedOutcome: Sendable {
    /// The name of the provider.
    package var provider: String
    /// The topic and environment of its connection.
    package var list: TokenScope
    /// The identifier that the provider gave it; `nil` with command 0.
    package var identifier: UInt32?
    package var token: DeviceToken
    /// The identifier of its requests; `nil` if none was created.
    package var apnsID: PushIdentifier?
    /// The outcome; of a rejection by the service, with the service's status and reason.
    package var outcome: DeliveryOutcome
    /// Why delivery ended, as in the metrics.
    package var cause: DeliveryCause
    /// Whether the service may have accepted an attempt that it did not answer.
    package var isPossibleDuplicate = false
    /// When the outcome was known, in milliseconds since 1970 (UTC).
    package var milliseconds: Int64

    /// Creates an outcome.
    package init(
        provider: String,
        list: TokenScope,
        identifier: UInt32?,
        token: DeviceToken,
        apnsID: PushIdentifier?,
        outcome: DeliveryOutcome,
        cause: DeliveryCause,
        isPossibleDuplicate: Bool = false,
        milliseconds: Int64
    ) {
        self.provider = provider
        self.list = list
        self.identifier = identifier
        self.token = token
        self.apnsID = apnsID
        self.outcome = outcome
        self.cause = cause
        self.isPossibleDuplicate = isPossibleDuplicate
        self.milliseconds = milliseconds
    }
}

/// Records the outcomes of notifications for readers outside of the gateway.
package protocol OutcomeRecorder: Sendable {
    /// Whether outcomes with this cause are recorded.
    func records(_ cause: DeliveryCause) -> Bool

    /// Records an outcome, after all those that were passed before.
    ///
    /// - Parameters:
    ///   - outcome: the outcome, with a cause that is recorded.
    ///   - onKept: called once, from any thread, when the outcome is durable or cannot be stored. The provider is told
    ///     nothing about the notification before.
    func record(_ outcome: RecordedOutcome, onKept: @escaping @Sendable () -> Void)
}
