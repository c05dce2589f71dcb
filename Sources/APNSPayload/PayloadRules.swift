// SPDX-License-Identifier: Apache-2.0

/// What a payload is checked against.
public struct PayloadRules: Hashable, Sendable {
    /// The deepest nesting of objects and arrays that is read, counting the payload itself.
    ///
    /// Real payloads have three to six levels. The limit lets the scanner keep its whole stack in one 64-bit word.
    public static let depthMax = 64

    /// The longest payload of the binary protocol before the server change of 2014, in octets.
    public static let originalOctetCountMax = 256
    /// The longest payload of the binary protocol since the server change of 2014, in octets.
    public static let binaryOctetCountMax = 2048
    /// The longest payload of the HTTP/2 provider API, in octets; also VoIP pushes over the binary protocol.
    public static let http2OctetCountMax = 4096
    /// The longest VoIP payload of the HTTP/2 provider API, in octets.
    public static let voipOctetCountMax = 5120

    /// The rules of the binary protocol before 2014: 256 octets.
    public static let original = Self(octetCountMax: originalOctetCountMax)
    /// The rules of the binary protocol: 2,048 octets.
    public static let binary = Self(octetCountMax: binaryOctetCountMax)
    /// The rules of the HTTP/2 provider API: 4,096 octets.
    public static let http2 = Self(octetCountMax: http2OctetCountMax)
    /// The rules of VoIP pushes over HTTP/2: 5,120 octets.
    public static let voip = Self(octetCountMax: voipOctetCountMax)

    /// The longest payload that passes, in octets.
    public var octetCountMax: Int

    /// Whether the values of known `aps` keys must have their known types; the default is `true`.
    ///
    /// Unknown keys pass in either case. Without it, a payload is any JSON object that has no second `aps`.
    public var checksKnownKeys: Bool

    /// Whether white space between the tokens is left out of the length; the default is `false`.
    ///
    /// Set it where the payload is minified before it is sent.
    public var measuresMinified: Bool

    /// Makes rules.
    ///
    /// - Parameters:
    ///   - octetCountMax: the longest payload that passes, in octets.
    ///   - checksKnownKeys: whether the values of known `aps` keys must have their known types.
    ///   - measuresMinified: whether white space between the tokens is left out of the length.
    public init(octetCountMax: Int, checksKnownKeys: Bool = true, measuresMinified: Bool = false) {
        self.octetCountMax = octetCountMax
        self.checksKnownKeys = checksKnownKeys
        self.measuresMinified = measuresMinified
    }
}
