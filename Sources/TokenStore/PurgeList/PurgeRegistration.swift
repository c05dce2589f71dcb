// SPDX-License-Identifier: Apache-2.0

/// A token that an app registered, for the first time or again.
public struct PurgeRegistration: Hashable, Sendable {
    /// The token, 1 to 100 bytes.
    public var token: [UInt8]
    /// When, in seconds since 1970; `nil` for a manual removal, which applies to any time of failure.
    public var registeredAt: Int64?

    /// Creates a registration.
    ///
    /// - Parameters:
    ///   - token: 1 to 100 bytes.
    ///   - registeredAt: when, in seconds since 1970; `nil` to apply to any time of failure.
    public init(token: [UInt8], registeredAt: Int64?) {
        self.token = token
        self.registeredAt = registeredAt
    }
}
