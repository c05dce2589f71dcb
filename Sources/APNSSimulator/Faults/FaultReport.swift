// SPDX-License-Identifier: Apache-2.0

import APNSTransport
import APNSWire
import NIOCore

/// How an error response is sent and its connection is ended: by default as the protocol requires.
public struct FaultReport: Hashable, Sendable {
    /// The identifier in the error response.
    @frozen
    public enum Identifier: Hashable, Sendable {
        /// The correct identifier.
        case correct
        /// 0, as if the service did not know.
        case zero
        /// This identifier.
        case fixed(UInt32)
    }

    /// How the connection is ended.
    ///
    /// Later versions may add cases.
    @nonexhaustive
    public enum Ending: String, Hashable, Sendable, Codable, CaseIterable {
        /// close_notify, half-close, reading for a limited time, close.
        case orderly
        /// close_notify and immediate close, even with unread input.
        case abrupt
        /// An end of stream (FIN) without close_notify.
        case fin
        /// A reset (RST), after the response if there is one.
        case reset
    }

    /// The delay before the error response; by default none.
    ///
    /// On a binary connection, the simulator keeps reading meanwhile and discards the input.
    public var delay: Duration

    /// The identifier in the error response; by default the correct one.
    public var identifier: Identifier

    /// Whether the error response is omitted; by default it is sent.
    public var isLost: Bool

    /// Whether each byte of the error response is sent in its own TLS record; by default not.
    public var isSplit: Bool

    /// Whether the error response, close_notify and FIN are sent in one segment; by default they need not be.
    public var isCoalesced: Bool

    /// How the connection is ended; by default in order.
    public var ending: Ending

    /// Creates a report.
    ///
    /// - Parameters:
    ///   - delay: the delay before the error response.
    ///   - identifier: the identifier in the error response; binary protocol.
    ///   - isLost: whether the error response is omitted; binary protocol.
    ///   - isSplit: whether each byte of the error response is sent in its own TLS record; binary protocol.
    ///   - isCoalesced: whether the error response and FIN are sent in one segment; binary protocol.
    ///   - ending: how the connection is ended, if the fault ends it.
    public init(
        delay: Duration = .zero,
        identifier: Identifier = .correct,
        isLost: Bool = false,
        isSplit: Bool = false,
        isCoalesced: Bool = false,
        ending: Ending = .orderly
    ) {
        self.delay = delay
        self.identifier = identifier
        self.isLost = isLost
        self.isSplit = isSplit
        self.isCoalesced = isCoalesced
        self.ending = ending
    }

    /// Returns the error response to send instead of the protocol's.
    func response(_ response: ErrorResponse?) -> ErrorResponse? {
        guard !self.isLost, var changed = response else { return nil }
        switch self.identifier {
        case .correct: break
        case .zero: changed.identifier = 0
        case .fixed(let identifier): changed.identifier = identifier
        }
        return changed
    }
}

extension FaultReport.Ending {
    /// Ends a connection, from the tail of its pipeline or from the place of a handler.
    func end(
        _ connection: some ChannelOutboundInvoker,
        mode: CloseMode = .all,
        promise: EventLoopPromise<Void>? = nil
    ) {
        switch self {
        case .orderly: connection.close(mode: mode, promise: promise)
        case .abrupt:
            connection.close(mode: .output, promise: nil)
            connection.triggerUserOutboundEvent(RawCloseHandler.Cut(), promise: promise)
        case .fin: connection.triggerUserOutboundEvent(RawCloseHandler.Cut(), promise: promise)
        case .reset: connection.triggerUserOutboundEvent(RawCloseHandler.Cut(isReset: true), promise: promise)
        }
    }
}
