// SPDX-License-Identifier: Apache-2.0

import APNSWire

/// How tokens stand in the statements for a database of another kind.
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
        case .base64: "'\(Self.base64(token))'"
        case .blob: dialect.blob(Hexadecimal.text(token))
        }
    }

    private static func base64(_ bytes: [UInt8]) -> String {
        let characters = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
        var text: [UInt8] = []
        for start in stride(from: 0, to: bytes.count, by: 3) {
            let count = min(3, bytes.count - start)
            let bits = (0..<3).reduce(UInt32(0)) { $0 << 8 | ($1 < count ? UInt32(bytes[start + $1]) : 0) }
            for place in 0..<4 {
                let value = Int(bits >> UInt32(18 - 6 * place) & 63)
                text.append(place <= count ? characters[value] : UInt8(ascii: "="))
            }
        }
        return String(decoding: text, as: UTF8.self)
    }
}
