// SPDX-License-Identifier: Apache-2.0

public import APNSWire

/// What a ``ScriptedGateway`` saw and did on one connection: the truth to hold a provider's outcomes against.
public struct GatewayRecord: Sendable {
    /// Which connection, from 1 in the order of accepting.
    public let number: Int

    /// The notifications that were taken, in order.
    public internal(set) var taken: [NotificationFrame] = []

    /// The notification that was not taken, and for which the rest was thrown away.
    public internal(set) var refused: NotificationFrame?

    /// How many frames came after the gateway's last word and were thrown away.
    public internal(set) var discardedCount = 0

    /// The identifiers of the probes that were read before the gateway's last word.
    public internal(set) var probes: [UInt32] = []

    /// Whether the handshake is done.
    public internal(set) var isHandshakeDone = false

    /// Whether the connection has ended.
    public internal(set) var isClosed = false

    /// Whether bytes came that are no frame.
    public internal(set) var isMalformed = false

    init(number: Int) { self.number = number }
}
