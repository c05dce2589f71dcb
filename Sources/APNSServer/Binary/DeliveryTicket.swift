// SPDX-License-Identifier: Apache-2.0

public import APNSSession

/// Settles one notification of one connection, at any time and from any thread.
public struct DeliveryTicket: Sendable {
    /// The number of the message on its connection, from 1.
    public let number: UInt64
    /// The identifier that the provider gave it; `nil` for none.
    ///
    /// It is not unique.
    public let identifier: UInt32?

    package let verdicts: VerdictQueue

    /// Says what became of the notification.
    ///
    /// The first verdict counts; one for a connection that is gone is passed over.
    ///
    /// - Parameter verdict: what became of it.
    public func settle(_ verdict: Verdict) {
        self.verdicts.put(self.number, verdict)
    }
}
