// SPDX-License-Identifier: Apache-2.0

import APNSTransport
import APNSWire
import NIOCore

/// How a provider is told of a fault, and how its connection is ended: by default as the protocol asks for.
public struct FaultReport: Hashable, Sendable {
    /// Which identifier the response carries.
    @frozen
    public enum Identifier: Hashable, Sendable {
        /// The one that the protocol asks for.
        case correct
        /// 0, as if the service did not know.
        case zero
        /// This one.
        case fixed(UInt32)
    }

    /// What is done to the connection.
    ///
    /// There may be more in later versions.
    @nonexhaustive
    public enum Ending: String, Hashable, Sendable, Codable, CaseIterable {
        /// close_notify, half-close, a bounded time of reading on, close.
        case orderly
        /// close_notify, and close at once, though there may be unread input.
        case abrupt
        /// An end of stream (FIN) without close_notify.
        case fin
        /// Reset (RST) at once, after the response if there is one.
        case reset
    }

    /// How long it takes until the provider is told; by default no time.
    ///
    /// On a binary connection the simulator reads on meanwhile, and throws away what comes.
    public var delay: Duration

    /// Which identifier the error response carries; by default the correct one.
    public var identifier: Identifier

    /// Whether the error response is never sent; by default it is.
    public var isLost: Bool

    /// Whether each byte of the error response comes in a record of its own; by default not.
    public var isSplit: Bool

    /// Whether the error response, close_notify and the end of the stream come in one segment; by default they may not.
    public var isCoalesced: Bool

    /// What is done to the connection; by default an orderly close.
    public var ending: Ending

    /// Makes a report.
    ///
    /// - Parameters:
    ///   - delay: how long it takes until the provider is told.
    ///   - identifier: which identifier the error response carries; binary protocol.
    ///   - isLost: whether the error response is never sent; binary protocol.
    ///   - isSplit: whether each byte of the error response comes in a record of its own; binary protocol.
    ///   - isCoalesced: whether the error response and the end of the stream come in one segment; binary protocol.
    ///   - ending: what is done to the connection, where the fault ends it.
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

    /// What is told of an end whose response by the protocol would be this.
    func response(_ response: ErrorResponse?) -> ErrorResponse? {
        guard !self.isLost, var told = response else { return nil }
        switch self.identifier {
        case .correct: break
        case .zero: told.identifier = 0
        case .fixed(let identifier): told.identifier = identifier
        }
        return told
    }
}

extension FaultReport.Ending {
    /// Ends a connection, from the last handler of its pipeline on.
    func end(_ channel: any Channel) {
        switch self {
        case .orderly: channel.close(promise: nil)
        case .abrupt:
            channel.close(mode: .output, promise: nil)
            channel.triggerUserOutboundEvent(RawCloseHandler.Cut(), promise: nil)
        case .fin: channel.triggerUserOutboundEvent(RawCloseHandler.Cut(), promise: nil)
        case .reset: channel.triggerUserOutboundEvent(RawCloseHandler.Cut(isReset: true), promise: nil)
        }
    }
}
