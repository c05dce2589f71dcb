// SPDX-License-Identifier: Apache-2.0

public import APNSWire

/// How a provider's connection ends, after all messages before the end are settled.
///
/// The caller writes the response, if there is one, in one piece, and closes the connection as ``closing`` says.
public struct GatewayEnding: Hashable, Sendable {
    /// How a connection closes.
    @frozen
    public enum Closing: Hashable, Sendable {
        /// With close_notify and the end of the stream, and at once.
        case orderly
        /// This side closes; the rest is read and discarded within the limits of time and bytes, so that a reset does
        /// not destroy the response; then the connection is reset.
        case drain
        /// This side closes, and nothing is read while the provider has time to notice the response or the end: what is
        /// read now would be lost, or has to be sent again. Then the connection is reset.
        case hold
        /// With a reset and at once, so that the provider's next write fails: without a response, that is how it learns
        /// of the end.
        case reset

        /// Whether the connection stays open until the provider closes it or time passes.
        public var readsOn: Bool { self == .drain || self == .hold }
    }

    /// The error response to the provider; `nil` to close the connection without one.
    public var response: ErrorResponse?

    /// The number of the first message that was not accepted, counted from 1 on this connection.
    public var number: UInt64

    /// How the connection closes.
    public var closing: Closing

    /// What is wrong with the faulty message, even if it is not reported to the provider, as with command 0; `nil` if
    /// no message is at fault.
    public var status: ErrorResponse.Status?

    /// Whether the gateway stops, everything that it took was accepted, and the provider reads error responses.
    public var isStop: Bool

    /// Creates an ending.
    ///
    /// - Parameters:
    ///   - response: the error response to the provider.
    ///   - number: the number of the first message that was not accepted, from 1.
    ///   - closing: how the connection closes.
    ///   - status: what is wrong with the faulty message; `nil` if none is.
    ///   - isStop: whether the gateway stops, and everything that it took was accepted; by default `false`.
    public init(
        response: ErrorResponse?,
        number: UInt64,
        closing: Closing,
        status: ErrorResponse.Status? = nil,
        isStop: Bool = false
    ) {
        self.response = response
        self.number = number
        self.closing = closing
        self.status = status
        self.isStop = isStop
    }

    /// This ending without its response, and with a reset.
    ///
    /// A provider that has closed its side, or that closes it now, would take an orderly end without a response for the
    /// acceptance of everything that it wrote.
    public var inDoubt: GatewayEnding {
        var ending = self
        (ending.response, ending.closing) = (nil, .reset)
        return ending
    }

    /// The ending to carry out, given what the provider wrote after the messages that were taken.
    ///
    /// A stop is no error to a provider that waits for nothing, and some take status 10 for the success of everything
    /// that they wrote. So the response is sent only if something has to be sent again. What the provider writes may be
    /// on its way, and it would take an orderly end for its acceptance, so that the connection is reset unless the
    /// provider has closed its side.
    ///
    /// - Parameters:
    ///   - hasDiscarded: whether anything was read and discarded, or has arrived and was not read.
    ///   - isInputClosed: whether the provider has closed its side.
    /// - Returns: the ending.
    public func carriedOut(hasDiscarded: Bool, isInputClosed: Bool) -> GatewayEnding {
        guard self.isStop, !hasDiscarded else { return self }
        var ending = self
        (ending.response, ending.closing) = (nil, isInputClosed ? .orderly : .reset)
        return ending
    }
}

/// How a gateway handles a notification that is refused for its own fault.
///
/// Later versions may add cases.
@nonexhaustive
public enum RejectionPolicy: String, CaseIterable, Hashable, Sendable {
    /// As in the protocol: an error response is sent, the connection ends, and what was written after the notification
    /// is discarded.
    case report
    /// The connection stays open, and what follows is accepted; the refusal is not reported. For providers that never
    /// read an error response, and would lose what they write after the notification.
    case ignore
}
