// SPDX-License-Identifier: Apache-2.0

/// Something that happened at a simulator, for those who show it.
package enum SimulatorChange: Hashable, Sendable {
    /// Notifications came, and were taken or refused; the record has them, with what became of them since.
    case notifications(ClosedRange<UInt64>)
    /// Something else became of the notification with this number.
    case delivery(number: UInt64, ReceivedNotification.Delivery)
    /// A connection is open, or closed.
    case connection(ConnectionRecord)
    /// A device is there, or is not what it was.
    case device(SimulatedDevice)
    /// A device is no more.
    case deviceRemoved(identifier: String)
    /// The list of dead tokens is not what it was.
    case feedback
    /// A fault is planned, or is not what it was.
    case fault(ScheduledFault)
    /// A fault is planned no more.
    case faultRemoved(identifier: Int)
    /// A fault happened.
    case faultApplied(FaultApplication)
    /// These certificates are revoked now, by fingerprint.
    case revocations(Set<String>)
    /// The record of notifications is empty again.
    case notificationsRemoved
    /// All is as it was at the start.
    case reset
}
