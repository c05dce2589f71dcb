// SPDX-License-Identifier: Apache-2.0

import APNSWire

/// How tokens stand in the statements for a database of another kind.
///
/// There may be more in later versions.
@nonexhaustive
public enum TokenLiteral: String, Hashable, Sendable, CaseIterable {
    /// Text of lower-case hexadecimal digits.
    case hexadecimal = "hex"
    /// Text of upper-case hexadecimal digits.
    case upperHexadecimal = "HEX"
    /// Text in padded base64.
    case base64
    /// The bytes.
    case blob

    /// A literal of a token, within which only digits, letters and `+/=` occur.
    func text(_ token: [UInt8], _ dialect: SQLDialect) -> String {
        switch self {
        case .hexadecimal: "'\(Hexadecimal.text(token))'"
        case .upperHexadecimal: "'\(Hexadecimal.text(token).uppercased())'"
        case .base64: "'\(Base64.text(token))'"
        case .blob: dialect.blob(Hexadecimal.text(token))
        }
    }
}
