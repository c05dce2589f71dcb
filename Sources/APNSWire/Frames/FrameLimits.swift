// SPDX-License-Identifier: Apache-2.0

/// The lengths that a reader of notification frames accepts.
public struct FrameLimits: Hashable, Sendable {
    /// The longest token, in bytes; 1 to 100, by default 100.
    public var tokenByteCountMax: Int = WireLimits.tokenByteCountMax

    /// The longest payload, in bytes; 1 to 65,535, by default 2048.
    public var payloadByteCountMax: Int = WireLimits.payloadByteCountMax

    /// The longest command-2 frame, in bytes of its items; by default 8192.
    public var frameByteCountMax: Int = WireLimits.frameByteCountMax

    /// Whether to skip items that the guide does not define; `true` by default.
    public var allowsUnknownItems = true

    /// The defaults.
    public init() {}
}
