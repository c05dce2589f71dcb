// SPDX-License-Identifier: Apache-2.0

/// Quotes names of tables and columns in SQL.
enum SQLName {
    /// The maximum length of a name in bytes; databases permit 63 to 128 characters.
    static let byteCountMax = 512

    /// Quotes a name; within quotes, only the quote itself is special.
    ///
    /// It iterates over Unicode scalars: a quote with a combining accent is one character, and still ends the name.
    static func quoted(_ name: String, quote: Unicode.Scalar = "\"") -> String {
        var text = String.UnicodeScalarView()
        text.append(quote)
        for scalar in name.unicodeScalars {
            text.append(scalar)
            if scalar == quote { text.append(quote) }
        }
        text.append(quote)
        return String(text)
    }

    /// Whether a name can be quoted: it contains nothing that ends a line or a statement.
    static func isFit(_ name: String) -> Bool {
        (1...self.byteCountMax).contains(name.utf8.count)
            && !name.unicodeScalars.contains { $0.properties.generalCategory == .control }
    }

    /// Finds a name among others: first exactly, then ignoring the case of letters, like SQLite.
    static func index(of name: String, in others: [String]) -> Int? {
        others.firstIndex { $0.utf8.elementsEqual(name.utf8) }
            ?? others.firstIndex { $0.utf8.map(self.folded) == name.utf8.map(self.folded) }
    }

    private static func folded(_ byte: UInt8) -> UInt8 { (0x41...0x5A).contains(byte) ? byte | 0x20 : byte }
}
