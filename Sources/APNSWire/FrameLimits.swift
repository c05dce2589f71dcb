// SPDX-License-Identifier: Apache-2.0

/// What a reader of notification frames lets pass.
public struct FrameLimits: Hashable, Sendable {
    /// The longest token, in octets; 1 to 100, by default 100.
    public var tokenOctetCountMax: Int = WireLimits.tokenOctetCountMax

    /// The longest payload, in octets; 1 to 65,535, by default 2048.
    public var payloadOctetCountMax: Int = WireLimits.payloadOctetCountMax

    /// The longest command-2 frame, in octets of its items; by default 8192.
    public var frameOctetCountMax: Int = WireLimits.frameOctetCountMax

    /// Whether items that the guide does not name are passed over; by default they are.
    public var allowsUnknownItems = true

    /// The defaults.
    public init() {}
}
