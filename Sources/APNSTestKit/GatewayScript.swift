// SPDX-License-Identifier: Apache-2.0

public import APNSWire

/// The behavior of a ``ScriptedGateway`` on one connection.
///
/// By default, it is a correct gateway: it accepts every notification, answers a probe with status 2 and the probe's
/// identifier, and then closes as Apple's gateway did.
public struct GatewayScript: Sendable {
    /// How a connection starts.
    ///
    /// Later versions may add cases.
    @nonexhaustive
    public enum Opening: Hashable, Sendable {
        /// Completes the handshake and serves.
        case serve
        /// Closes instead of the handshake.
        case closeBeforeHandshake
        /// Neither completes the handshake nor closes.
        case neverShakeHands
        /// Closes after the handshake, in the way of ``GatewayScript/cut``.
        case closeAfterHandshake
        /// Reads nothing after the handshake, so that the provider's writes block.
        case neverRead
    }

    /// What the gateway does with a notification.
    ///
    /// Later versions may add cases.
    @nonexhaustive
    public enum Action: Hashable, Sendable {
        /// Accepts it.
        case accept
        /// Rejects it with its identifier; without an error response if it has none (command 0).
        case refuse(ErrorResponse.Status)
        /// Does not accept it, and sends this response, correct or not.
        case answer(ErrorResponse)
        /// Does not accept it, and sends these bytes, which need not be a response.
        case send([UInt8])
        /// Does not accept it, and sends nothing.
        case ignore
    }

    /// How the gateway answers a probe, after it has accepted everything before it.
    ///
    /// Later versions may add cases.
    @nonexhaustive
    public enum ProbeReply: Hashable, Sendable {
        /// With status 2 and the probe's identifier.
        case identifier
        /// With status 2 and identifier 0.
        case zero
        /// No answer; the connection stays open.
        case never
    }

    /// How a connection ends after the gateway's final bytes.
    ///
    /// Later versions may add cases.
    @nonexhaustive
    public enum Cut: Hashable, Sendable {
        /// close_notify and FIN; input is discarded for at most 5 seconds.
        case orderly
        /// FIN without close_notify.
        case fin
        /// RST.
        case reset
        /// Not at all: input is discarded until the provider closes.
        case never
    }

    /// How the connection starts; by default ``Opening/serve``.
    public var opening = Opening.serve

    /// Returns what to do with a notification, by its index from 0 on this connection; by default it is accepted.
    ///
    /// After the first one that is not accepted, everything is discarded. Called on the connection's event loop.
    public var action: @Sendable (_ frame: NotificationFrame, _ index: Int) -> Action = { _, _ in .accept }

    /// How probes are answered; by default ``ProbeReply/identifier``.
    public var probeReply = ProbeReply.identifier

    /// The delay before the final bytes, during which input is discarded.
    ///
    /// By default none.
    public var answerDelay = Duration.zero

    /// Whether the final bytes are sent one at a time, each in its own TLS record; by default not.
    public var splitsAnswer = false

    /// How the connection ends; by default ``Cut/orderly``.
    public var cut = Cut.orderly

    /// Creates the script of a correct gateway, and changes it.
    ///
    /// - Parameter change: applies changes.
    public init(_ change: (inout GatewayScript) -> Void = { _ in }) { change(&self) }
}
