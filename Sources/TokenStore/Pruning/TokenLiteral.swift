// SPDX-License-Identifier: Apache-2.0

import APNSWire

/// The format of tokens in statements for another database.
///
/// Later versions may add cases.
@nonexhaustive
public enum TokenLiteral: String, Hashable, Sendable, CaseIterable {
    /// Lower-case hexadecimal digits.
    case hexadecimal = "hex"
    /// Upper-case hexadecimal digits.
    case upperHexadecimal = "HEX"
    /// Padded base64.
    case base64
    /// The bytes.
    case blob

    /// Returns the literal of a token, which contains only digits, letters and `+/=`.
    func text(_ token: [UInt8], _ dialect: SQLDialect) -> String {
        switch self {
        case .hexadecimal: "'\(Hexadecimal.text(token))'"
        case .upperHexadecimal: "'\(Hexadecimal.text(token).uppercased())'"
        case .base64: "'\(Base64.text(token))'"
        case .blob: dialect.blob(Hexadecimal.text(token))
        }
    }
}
