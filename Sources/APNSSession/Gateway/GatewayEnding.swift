// SPDX-License-Identifier: Apache-2.0

public import APNSWire

/// How a provider's connection ends, after all messages before the end are settled.
///
/// The caller writes the response, if there is one, in one piece; closes its side; if the connection drains, reads and
/// discards within the limits of time and bytes; and closes.
public struct GatewayEnding: Hashable, Sendable {
    /// The error response to the provider; `nil` to close the connection without one.
    public var response: ErrorResponse?

    /// The number of the first message that was not accepted, counted from 1 on this connection.
    public var number: UInt64

    /// Whether the provider may still be sending, so that an immediate close could destroy the response in transit.
    public var drains: Bool

    /// What is wrong with the faulty message, even if it is not reported to the provider, as with command 0; `nil` if
    /// no message is at fault.
    public var status: ErrorResponse.Status?

    /// Creates an ending.
    ///
    /// - Parameters:
    ///   - response: the error response to the provider.
    ///   - number: the number of the first message that was not accepted, from 1.
    ///   - drains: whether the provider may still be sending.
    ///   - status: what is wrong with the faulty message; `nil` if none is.
    public init(response: ErrorResponse?, number: UInt64, drains: Bool, status: ErrorResponse.Status? = nil) {
        self.response = response
        self.number = number
        self.drains = drains
        self.status = status
    }
}
