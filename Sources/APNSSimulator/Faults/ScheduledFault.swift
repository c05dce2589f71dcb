// SPDX-License-Identifier: Apache-2.0

public import APNSWire

/// A configured fault.
package struct PlannedFault: Hashable, Sendable {
    /// The fault.
    package var fault: Fault
    /// Whether it is enabled.
    package var isEnabled: Bool

    package init(_ fault: Fault, isEnabled: Bool = true) {
        self.fault = fault
        self.isEnabled = isEnabled
    }
}

/// A fault of a running simulator, with its occurrences so far.
public struct ScheduledFault: Hashable, Sendable {
    /// The identifier, from 1; never reused while the simulator runs.
    public let id: Int

    /// The fault.
    public let fault: Fault

    /// Whether it is enabled.
    public internal(set) var isEnabled: Bool

    /// The number of occurrences.
    public internal(set) var occurrenceCount = 0

    /// Why the fault never occurs as the faults are now; `nil` if it can.
    public internal(set) var warning: String?

    /// How many notifications the simulator had received when the fault was created.
    var firstNotification: UInt64 = 0

    /// The last connections at the listeners when the fault was created.
    var firstConnections: [SimulatorListener: UInt64] = [:]

    /// How many notifications have met the conditions of the fault.
    var matchCount: UInt64 = 0

    init(id: Int, fault: Fault, isEnabled: Bool) {
        self.id = id
        self.fault = fault
        self.isEnabled = isEnabled
    }
}

/// An occurrence of a fault.
public struct FaultApplication: Hashable, Sendable {
    /// The number of the occurrence at the simulator, from 1.
    public let number: UInt64

    /// The fault's ``ScheduledFault/id``.
    public let fault: Int

    /// The effect.
    public let effect: Fault.Effect

    /// When it occurred.
    public let timestamp: Timestamp

    /// The listener.
    public let listener: SimulatorListener

    /// The number of the connection at the listener, from 1.
    public let connectionNumber: UInt64

    /// The number of the notification on its connection, from 1; `nil` for a fault of the connection.
    public let notificationNumber: UInt64?

    /// The ``ReceivedNotification/number`` of the notification; `nil` if it is not recorded, or not yet, as for
    /// ``Fault/Effect/delay(_:)``.
    public internal(set) var recordNumber: UInt64?
}
