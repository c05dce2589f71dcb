// SPDX-License-Identifier: Apache-2.0

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
}
