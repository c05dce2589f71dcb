// SPDX-License-Identifier: Apache-2.0

public import APNSWire

/// How a provider's connection ends, once all that came before the end is settled.
///
/// What is to be done: write the response, if there is one, in one piece; close the own side; if it drains, go on
/// reading and throwing away within the limits of time and bytes; close.
public struct GatewayEnding: Hashable, Sendable {
    /// The only thing the provider is ever told; `nil`: the connection closes without a word.
    public var response: ErrorResponse?

    /// The number of the first message that was not taken, counted from 1 on this connection.
    public var number: UInt64

    /// Whether the provider may still be sending, so that closing at once could destroy the response on its way.
    public var drains: Bool

    /// What is wrong with the message at fault, also where the provider is not told, as with command 0; `nil` where
    /// the end is no message's fault.
    public var status: ErrorResponse.Status?

    /// Makes an ending.
    ///
    /// - Parameters:
    ///   - response: what the provider is told.
    ///   - number: the number of the first message that was not taken, from 1.
    ///   - drains: whether the provider may still be sending.
    ///   - status: what is wrong with the message at fault; `nil` for none.
    public init(response: ErrorResponse?, number: UInt64, drains: Bool, status: ErrorResponse.Status? = nil) {
        self.response = response
        self.number = number
        self.drains = drains
        self.status = status
    }
}
