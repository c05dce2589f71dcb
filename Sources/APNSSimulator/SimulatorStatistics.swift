// SPDX-License-Identifier: Apache-2.0

/// What a simulator has seen so far.
public struct SimulatorStatistics: Hashable, Sendable {
    /// Connections to all listeners whose handshake was completed.
    public var connectionCount = 0
    /// Those of them that are closed.
    public var closedConnectionCount = 0
    /// Messages that reached the simulator: those that passed the listener's checks before the end of their connection.
    public var messageCount = 0
    /// Messages that were taken, for dead devices too.
    public var processedCount = 0
    /// Those of them for apps that are gone from their devices, which the binary gateway takes.
    public var deadCount = 0
    /// Messages that were refused: those in the record.
    public var rejectedCount = 0
    /// Whole messages behind the end of their connection, which were thrown away.
    public var discardedCount = 0
    /// Error responses by status, as the providers were told, and 0 for ends without a word.
    public var endings: [UInt8: Int] = [:]
}
