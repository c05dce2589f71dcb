// SPDX-License-Identifier: Apache-2.0

public import APNSWire

/// How a connection is brought to its end.
///
/// Anything but ``orderly(_:)`` is what a real service does on a bad day; a simulator uses it to show that to
/// providers.
public struct CloseStrategy: Hashable, Sendable {
    /// What is done to the socket.
    public enum Method: Hashable, Sendable, CaseIterable {
        /// close_notify, half-close, then read and throw away within limits, then close.
        case orderly
        /// Close at once, with close_notify; if there is unread input, the kernel makes a reset of it.
        case abrupt
        /// Reset (RST) at once.
        case reset
    }

    /// What is told before; `nil` for nothing.
    public var response: ErrorResponse?

    /// How long to go on reading and throwing away before the response is written; by default not at all.
    public var delay: Duration

    /// Whether each of the six bytes goes in a write of its own; by default not.
    public var splitsResponse: Bool

    /// What is done to the socket.
    public var method: Method

    /// Makes a manner.
    ///
    /// - Parameters:
    ///   - response: what is told before; `nil` for nothing.
    ///   - delay: how long to go on reading and throwing away before; by default not at all.
    ///   - splitsResponse: whether each byte goes in a write of its own; by default not.
    ///   - method: what is done to the socket; by default an orderly close.
    public init(
        response: ErrorResponse?,
        delay: Duration = .zero,
        splitsResponse: Bool = false,
        method: Method = .orderly
    ) {
        self.response = response
        self.delay = delay
        self.splitsResponse = splitsResponse
        self.method = method
    }

    /// The response in one write, then close_notify, half-close, and a bounded time of reading on.
    ///
    /// - Parameter response: what is told; `nil` for nothing.
    /// - Returns: the manner.
    public static func orderly(_ response: ErrorResponse?) -> CloseStrategy { CloseStrategy(response: response) }
}
