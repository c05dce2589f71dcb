// SPDX-License-Identifier: Apache-2.0

public import APNSWire

/// Reports the outcome of one notification, at any time and from any thread.
public struct DeliveryTicket: Sendable {
    /// The number of the message on its connection, from 1.
    public let number: UInt64
    /// The provider's identifier; `nil` for none.
    ///
    /// It is not unique.
    public let identifier: UInt32?

    package let outcomes: OutcomeQueue

    /// Reports the outcome of the notification.
    ///
    /// Only the first outcome counts; one for a closed connection is ignored.
    ///
    /// - Parameters:
    ///   - outcome: the outcome; see `GatewaySession` for what the provider receives.
    ///   - isLast: whether nothing after it is accepted, so that the provider receives status 10; by default `false`.
    public func settle(_ outcome: DeliveryOutcome, isLast: Bool = false) {
        self.outcomes.enqueue(self.number, outcome, isLast: isLast)
    }
}
