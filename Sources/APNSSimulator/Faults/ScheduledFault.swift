// SPDX-License-Identifier: Apache-2.0

/// A fault as it is planned.
package struct PlannedFault: Hashable, Sendable {
    /// What goes wrong, and when.
    package var fault: Fault
    /// Whether it happens at all, or is suspended.
    package var isEnabled: Bool

    package init(_ fault: Fault, isEnabled: Bool = true) {
        self.fault = fault
        self.isEnabled = isEnabled
    }
}

/// A fault of a running simulator, with what became of it so far.
public struct ScheduledFault: Hashable, Sendable {
    /// What names it while the simulator runs, from 1; never given to another one.
    public let identifier: Int

    /// What goes wrong, and when.
    public let fault: Fault

    /// Whether it happens at all.
    public internal(set) var isEnabled: Bool

    /// How often it happened.
    public internal(set) var occurrenceCount = 0
}

/// One time that a fault happened.
public struct FaultApplication: Hashable, Sendable {
    /// Its number among all of the simulator, from 1.
    public let number: UInt64

    /// The fault, see ``ScheduledFault/identifier``.
    public let fault: Int

    /// What happened.
    public let effect: Fault.Effect

    /// When, in milliseconds since 1970 (UTC).
    public let timestamp: UInt64

    /// The listener at which it happened.
    public let listener: SimulatorListener

    /// The number of the connection at its listener, from 1.
    public let connectionNumber: UInt64

    /// The number of the notification on its connection, from 1; `nil` where it happened to the connection.
    public let notificationNumber: UInt64?

    /// The number of the notification among all of the simulator, see ``ReceivedNotification/number``; `nil` where it
    /// is not recorded, or not yet, as with ``Fault/Effect/delay(_:)``.
    public internal(set) var recordNumber: UInt64?
}
