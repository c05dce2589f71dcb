// SPDX-License-Identifier: Apache-2.0

/// Names of tables and columns as they stand in SQL.
enum SQLName {
    /// The longest name in bytes; databases take 63 to 128 characters.
    static let byteCountMax = 512

    /// Puts a name in quotes, within which only the quote itself means anything.
    ///
    /// Scalar by scalar: a quote with an accent on it is one character, and still ends the name.
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

    /// Whether a name can stand in quotes: nothing in it ends a line or the text of a statement.
    static func isFit(_ name: String) -> Bool {
        (1...self.byteCountMax).contains(name.utf8.count)
            && !name.unicodeScalars.contains { $0.properties.generalCategory == .control }
    }

    /// Finds a name among others: as it is, else with letters of the other case, as SQLite does.
    static func index(of name: String, in others: [String]) -> Int? {
        others.firstIndex { $0.utf8.elementsEqual(name.utf8) }
            ?? others.firstIndex { $0.utf8.map(self.folded) == name.utf8.map(self.folded) }
    }

    private static func folded(_ byte: UInt8) -> UInt8 { (0x41...0x5A).contains(byte) ? byte | 0x20 : byte }
}
