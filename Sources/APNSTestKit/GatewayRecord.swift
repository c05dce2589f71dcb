// SPDX-License-Identifier: Apache-2.0

public import APNSWire

/// What a ``ScriptedGateway`` received and did on one connection, to compare with a provider's outcomes.
public struct GatewayRecord: Sendable {
    /// The number of the connection, from 1 in the order of accepting.
    public let number: Int

    /// The accepted notifications in order.
    public internal(set) var accepted: [NotificationFrame] = []

    /// The notification that was not accepted, after which everything was discarded.
    public internal(set) var refused: NotificationFrame?

    /// The number of frames that were discarded after the gateway's final bytes.
    public internal(set) var discardedCount = 0

    /// The identifiers of the probes received before the gateway's final bytes.
    public internal(set) var probes: [UInt32] = []

    /// Whether the handshake completed.
    public internal(set) var isHandshakeDone = false

    /// Whether the connection has ended.
    public internal(set) var isClosed = false

    /// Whether invalid bytes were received.
    public internal(set) var isMalformed = false

    init(number: Int) { self.number = number }
}
