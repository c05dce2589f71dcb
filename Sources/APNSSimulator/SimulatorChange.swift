// SPDX-License-Identifier: Apache-2.0

/// An event at a simulator, for display.
package enum SimulatorChange: Hashable, Sendable {
    /// Notifications were received and recorded.
    case notifications(ClosedRange<UInt64>)
    /// The delivery of the notification with this number changed.
    case delivery(number: UInt64, ReceivedNotification.Delivery)
    /// A connection was opened or closed.
    case connection(ConnectionRecord)
    /// A device was registered or changed.
    case device(SimulatedDevice)
    /// A device was removed.
    case deviceRemoved(identifier: String)
    /// The feedback list changed.
    case feedback
    /// A fault was added or changed.
    case fault(ScheduledFault)
    /// A fault was removed.
    case faultRemoved(identifier: Int)
    /// A fault occurred.
    case faultApplied(FaultApplication)
    /// The revoked certificates changed.
    case revocations
    /// The record of notifications was cleared.
    case notificationsRemoved
    /// The initial state was restored.
    case reset
}
