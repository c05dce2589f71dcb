// SPDX-License-Identifier: Apache-2.0

import APNSJSON

/// The rules that a payload must comply with.
public struct PayloadRules: Hashable, Sendable {
    /// The maximum nesting of objects and arrays, including the payload itself.
    ///
    /// Real payloads have three to six levels. The limit lets the scanner store its stack in one 64-bit word.
    public static let depthMax = JSONScanner.depthMax

    /// The longest payload of the binary protocol before the server change of 2014, in bytes.
    public static let originalByteCountMax = 256
    /// The longest payload of the binary protocol since the server change of 2014, in bytes.
    public static let binaryByteCountMax = 2048
    /// The longest payload of the HTTP/2 provider API, in bytes; also VoIP pushes over the binary protocol.
    public static let http2ByteCountMax = 4096
    /// The longest VoIP payload of the HTTP/2 provider API, in bytes.
    public static let voipByteCountMax = 5120

    /// The rules of the binary protocol before 2014: 256 bytes.
    public static let original = Self(byteCountMax: originalByteCountMax)
    /// The rules of the binary protocol: 2,048 bytes.
    public static let binary = Self(byteCountMax: binaryByteCountMax)
    /// The rules of the HTTP/2 provider API: 4,096 bytes.
    public static let http2 = Self(byteCountMax: http2ByteCountMax)
    /// The rules of VoIP pushes over HTTP/2: 5,120 bytes.
    public static let voip = Self(byteCountMax: voipByteCountMax)

    /// The maximum length of a payload, in bytes.
    public var byteCountMax: Int

    /// Whether the values of known `aps` keys must have their known types; the default is `true`.
    ///
    /// Unknown keys are valid in either case. If it is `false`, a payload is any JSON object with at most one `aps`.
    public var checksKnownKeys: Bool

    /// Whether the length excludes white space between tokens; the default is `false`.
    ///
    /// Set it if the payload is minified before it is sent.
    public var measuresMinified: Bool

    /// Makes rules.
    ///
    /// - Parameters:
    ///   - byteCountMax: the maximum length of a payload, in bytes.
    ///   - checksKnownKeys: whether the values of known `aps` keys must have their known types.
    ///   - measuresMinified: whether the length excludes white space between tokens.
    public init(byteCountMax: Int, checksKnownKeys: Bool = true, measuresMinified: Bool = false) {
        self.byteCountMax = byteCountMax
        self.checksKnownKeys = checksKnownKeys
        self.measuresMinified = measuresMinified
    }
}
