// SPDX-License-Identifier: Apache-2.0

/// The counters of a simulator.
public struct SimulatorStatistics: Hashable, Sendable {
    /// Connections to all listeners that completed the handshake.
    public var connectionCount = 0
    /// Those of them that are closed.
    public var closedConnectionCount = 0
    /// Messages that reached the simulator: those that passed the listener's checks before the end of their connection.
    public var messageCount = 0
    /// Accepted messages, including those for dead devices.
    public var processedCount = 0
    /// Those of them for removed apps, which the binary gateway accepts.
    public var deadCount = 0
    /// Rejected messages, which are in the record.
    public var rejectedCount = 0
    /// Complete messages after the end of their connection, which were discarded.
    public var discardedCount = 0
    /// Error responses sent by status, with 0 for ends without one.
    public var endings: [UInt8: Int] = [:]
}
