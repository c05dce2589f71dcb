// SPDX-License-Identifier: Apache-2.0

import APNSWire

/// How a provider is told of an end, and how its connection is ended: by default as the protocol asks for.
public struct FaultReport: Hashable, Sendable, Codable {
    /// Which identifier the response carries.
    public enum Identifier: Hashable, Sendable, Codable {
        /// The one that the protocol asks for.
        case correct
        /// 0, as if the service did not know.
        case zero
        /// This one.
        case fixed(UInt32)
    }

    /// What is done to the socket.
    public enum Ending: String, Hashable, Sendable, Codable, CaseIterable {
        /// close_notify, half-close, a bounded time of reading on, close.
        case orderly
        /// Close at once, though there may be unread input.
        case abrupt
        /// Reset (RST) at once, after the response if there is one.
        case reset
    }

    /// How long the simulator goes on reading and throwing away before it tells, in milliseconds; by default 0.
    public var delayMilliseconds: Int

    /// Which identifier the response carries; by default the correct one.
    public var identifier: Identifier

    /// Whether the response is never sent; by default it is.
    public var isLost: Bool

    /// Whether each byte of the response comes in a record of its own; by default not.
    public var isSplit: Bool

    /// What is done to the socket; by default an orderly close.
    public var ending: Ending

    /// Makes a report.
    ///
    /// - Parameters:
    ///   - delayMilliseconds: how long to go on reading and throwing away before.
    ///   - identifier: which identifier the response carries.
    ///   - isLost: whether the response is never sent.
    ///   - isSplit: whether each byte of the response comes in a record of its own.
    ///   - ending: what is done to the socket.
    public init(
        delayMilliseconds: Int = 0,
        identifier: Identifier = .correct,
        isLost: Bool = false,
        isSplit: Bool = false,
        ending: Ending = .orderly
    ) {
        self.delayMilliseconds = delayMilliseconds
        self.identifier = identifier
        self.isLost = isLost
        self.isSplit = isSplit
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
