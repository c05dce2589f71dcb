// SPDX-License-Identifier: Apache-2.0

import COpenSSL

/// A version of the TLS protocol.
///
/// - SeeAlso: RFC 2246 (1.0), RFC 4346 (1.1), RFC 5246 (1.2), RFC 8446 (1.3).
@frozen
public enum TLSVersion: Int32, Hashable, Sendable, Comparable, CaseIterable, CustomStringConvertible {
    /// TLS 1.0, which RFC 8996 deprecates; for old peers only.
    case tls1_0 = 0x0301
    /// TLS 1.1, which RFC 8996 deprecates; for old peers only.
    case tls1_1 = 0x0302
    /// TLS 1.2.
    case tls1_2 = 0x0303
    /// TLS 1.3.
    case tls1_3 = 0x0304

    /// Whether `left` is the older version.
    public static func < (left: Self, right: Self) -> Bool {
        left.rawValue < right.rawValue
    }

    /// The usual spelling, such as "TLS 1.2".
    public var description: String {
        switch self {
        case .tls1_0: "TLS 1.0"
        case .tls1_1: "TLS 1.1"
        case .tls1_2: "TLS 1.2"
        case .tls1_3: "TLS 1.3"
        }
    }
}
