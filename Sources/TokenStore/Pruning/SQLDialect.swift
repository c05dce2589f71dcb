// SPDX-License-Identifier: Apache-2.0

import APNSWire

/// A dialect of SQL.
///
/// Later versions may add cases.
@nonexhaustive
public enum SQLDialect: String, Hashable, Sendable, CaseIterable {
    /// Standard SQL; with numeric times, also SQLite. Timestamps have no time zone and must be in UTC.
    case ansi
    /// PostgreSQL.
    case postgresql
    /// MySQL and MariaDB.
    case mysql

    func identifier(_ name: String) -> String { SQLName.quoted(name, quote: self == .mysql ? "`" : "\"") }

    /// A literal of bytes; for PostgreSQL, one in which a backslash is never special.
    func blob(_ hexadecimal: String) -> String {
        self == .postgresql ? "decode('\(hexadecimal)', 'hex')" : "X'\(hexadecimal)'"
    }

    var begin: String { self == .mysql ? "START TRANSACTION;" : "BEGIN;" }

    /// The statement that makes the database interpret times as UTC, including columns with time zones.
    var utc: (session: String?, transaction: String?) {
        switch self {
        case .ansi: (nil, nil)
        case .postgresql: (nil, "SET LOCAL TIME ZONE 'UTC';")
        case .mysql: ("SET time_zone = '+00:00';", nil)
        }
    }

    /// The default value that marks a row inactive.
    var inactive: String { self == .postgresql ? "FALSE" : "0" }
}

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

    static func isAlphanumeric(_ byte: UInt8) -> Bool {
        (0x30...0x39).contains(byte) || (0x41...0x5A).contains(byte) || (0x61...0x7A).contains(byte)
    }

    private static func folded(_ byte: UInt8) -> UInt8 { (0x41...0x5A).contains(byte) ? byte | 0x20 : byte }
}
