// SPDX-License-Identifier: Apache-2.0

public import APNSWire

/// What a ``ScriptedGateway`` does on one connection.
///
/// By default it is a well-behaved gateway: it takes every notification, answers a probe with status 2 and the
/// probe's identifier, and then closes as Apple's did.
public struct GatewayScript: Sendable {
    /// How a connection begins.
    ///
    /// There may be more in later versions.
    @nonexhaustive
    public enum Opening: Hashable, Sendable {
        /// Shakes hands and serves.
        case serve
        /// Closes instead of shaking hands.
        case closeBeforeHandshake
        /// Neither shakes hands nor closes.
        case neverShakeHands
        /// Closes right after the handshake, with a cut of ``GatewayScript/cut``.
        case closeAfterHandshake
        /// Reads nothing after the handshake, so that the provider's bytes pile up.
        case neverRead
    }

    /// What the gateway does about a notification.
    ///
    /// There may be more in later versions.
    @nonexhaustive
    public enum Action: Hashable, Sendable {
        /// Takes it.
        case take
        /// Refuses it by its identifier; without an answer where it has none (command 0).
        case refuse(ErrorResponse.Status)
        /// Does not take it and answers this, whether true or not.
        case answer(ErrorResponse)
        /// Does not take it and says this, which need not be an answer at all.
        case say([UInt8])
        /// Does not take it and says nothing.
        case leave
    }

    /// How the gateway answers a probe, after having taken all before it.
    ///
    /// There may be more in later versions.
    @nonexhaustive
    public enum ProbeReply: Hashable, Sendable {
        /// With status 2 and its identifier.
        case identifier
        /// With status 2 and identifier 0.
        case zero
        /// Not at all; the connection stays open.
        case never
    }

    /// How a connection ends after the gateway's last word.
    ///
    /// There may be more in later versions.
    @nonexhaustive
    public enum Cut: Hashable, Sendable {
        /// close_notify and FIN; what still arrives is read and thrown away, for 5 seconds at most.
        case orderly
        /// FIN without close_notify.
        case fin
        /// RST.
        case reset
        /// Not at all: what arrives is read and thrown away until the provider closes.
        case never
    }

    /// How the connection begins; ``Opening/serve`` by default.
    public var opening = Opening.serve

    /// What to do about the notification with an index from 0 on this connection; by default it is taken.
    ///
    /// After the first that is not taken everything is thrown away. Called on the connection's event loop.
    public var action: @Sendable (_ frame: NotificationFrame, _ index: Int) -> Action = { _, _ in .take }

    /// How probes are answered; ``ProbeReply/identifier`` by default.
    public var probeReply = ProbeReply.identifier

    /// How long the last word takes; meanwhile the gateway reads on and throws away.
    ///
    /// None by default.
    public var answerDelay = Duration.zero

    /// Whether the last word comes one byte at a time, each in a TLS record of its own; no by default.
    public var splitsAnswer = false

    /// How the connection ends; ``Cut/orderly`` by default.
    public var cut = Cut.orderly

    /// Makes the script of a well-behaved gateway, and changes it.
    ///
    /// - Parameter change: changes what differs.
    public init(_ change: (inout GatewayScript) -> Void = { _ in }) { change(&self) }
}
