// SPDX-License-Identifier: Apache-2.0

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
