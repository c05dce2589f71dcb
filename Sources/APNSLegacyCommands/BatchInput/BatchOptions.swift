// SPDX-License-Identifier: Apache-2.0

public import APNSPayload

/// How batch input is read.
public struct BatchOptions: Sendable {
    /// The longest line, in bytes without its end; the default is 65,536.
    ///
    /// It bounds a row of CSV with all its lines as well. What is longer is reported and passed over unbuffered.
    public var lineByteCountMax = 65_536

    /// The bytes that are asked for at a time; the default is 262,144.
    public var blockByteCount = 262_144

    /// The time that spans of expiry count from, in seconds since 1970.
    public var now: UInt32

    /// What each payload is checked against; the default is the binary protocol.
    public var rules = PayloadRules.binary

    /// Whether white space between the tokens of a payload is left out, also of its length; the default is `true`.
    public var minifiesPayload = true

    /// The payload of each notification that has none of its own; the default is none.
    public var commonPayload: [UInt8]?

    /// Makes options.
    ///
    /// - Parameter now: the time that spans of expiry count from, in seconds since 1970.
    public init(now: UInt32) {
        self.now = now
    }
}
