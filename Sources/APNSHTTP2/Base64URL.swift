// SPDX-License-Identifier: Apache-2.0

import FoundationEssentials

/// Base64 with the letters that may stand in addresses, and no padding.
///
/// - SeeAlso: RFC 4648, 5.
package enum Base64URL {
    static func encode(_ bytes: some Sequence<UInt8>) -> String {
        let plain = Data(bytes).base64EncodedString()
        return String(
            plain.compactMap { character -> Character? in
                switch character {
                case "+": "-"
                case "/": "_"
                case "=": nil
                default: character
                }
            }
        )
    }

    /// - Returns: `nil` for what is no base64url, also where it is padded.
    package static func decode(_ text: some StringProtocol) -> [UInt8]? {
        guard !text.utf8.contains(where: { "+/=".utf8.contains($0) }) else { return nil }
        let plain = text.map { $0 == "-" ? "+" : $0 == "_" ? "/" : $0 }
        let padding = String(repeating: "=", count: (4 - plain.count % 4) % 4)
        return Data(base64Encoded: String(plain) + padding).map { Array($0) }
    }
}
