// SPDX-License-Identifier: Apache-2.0

public import APNSWire

/// Settles one notification of one connection, at any time and from any thread.
public struct DeliveryTicket: Sendable {
    /// The number of the message on its connection, from 1.
    public let number: UInt64
    /// The identifier that the provider gave it; `nil` for none.
    ///
    /// It is not unique.
    public let identifier: UInt32?

    package let outcomes: OutcomeQueue

    /// Says what became of the notification.
    ///
    /// The first outcome counts; one for a connection that is gone is passed over.
    ///
    /// - Parameters:
    ///   - outcome: what became of it; `GatewaySession` says what the provider learns of which.
    ///   - isLast: whether nothing that follows it is taken, so that the provider is told that the service shuts down;
    ///     by default `false`.
    public func settle(_ outcome: DeliveryOutcome, isLast: Bool = false) {
        self.outcomes.put(self.number, outcome, isLast: isLast)
    }
}
