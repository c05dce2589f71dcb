// SPDX-License-Identifier: Apache-2.0

/// The databases that statements are written for.
///
/// There may be more in later versions.
@nonexhaustive
public enum SQLDialect: String, Hashable, Sendable, CaseIterable {
    /// Standard SQL; with times as numbers, also SQLite. Timestamps have no zone here, and must be in UTC.
    case ansi
    /// PostgreSQL.
    case postgresql
    /// MySQL and MariaDB.
    case mysql

    func identifier(_ name: String) -> String { SQLName.quoted(name, quote: self == .mysql ? "`" : "\"") }

    /// A literal of bytes; in PostgreSQL one in which no setting makes a backslash special.
    func blob(_ hexadecimal: String) -> String {
        self == .postgresql ? "decode('\(hexadecimal)', 'hex')" : "X'\(hexadecimal)'"
    }

    var begin: String { self == .mysql ? "START TRANSACTION;" : "BEGIN;" }

    /// Makes the database read times of day as UTC, also those of columns that are kept with a zone.
    var utc: (session: String?, transaction: String?) {
        switch self {
        case .ansi: (nil, nil)
        case .postgresql: (nil, "SET LOCAL TIME ZONE 'UTC';")
        case .mysql: ("SET time_zone = '+00:00';", nil)
        }
    }

    /// What an inactive row has in its column, where nobody says otherwise.
    var inactive: String { self == .postgresql ? "FALSE" : "0" }
}
