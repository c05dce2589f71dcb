// SPDX-License-Identifier: Apache-2.0

import APNSWire
import APNSJSON

/// Writes entries of a list in text formats.
///
/// | format | content                                                                           |
/// |--------|-----------------------------------------------------------------------------------|
/// | text   | the token in lower-case hexadecimal digits                                        |
/// | CSV    | `token,topic,environment,failed_at,first_seen,source` as in RFC 4180, with a header |
/// | JSONL  | `{"token":…,"topic":…,"environment":…,"failedAt":…,"firstSeen":…,"source":…}`     |
/// | SQL    | statements that create a table and fill it with the list                          |
///
/// Times are seconds since 1970. The SQL works with SQLite, PostgreSQL and MySQL: its literals contain hexadecimal
/// digits, numbers, and names in which all characters but letters, digits, spaces and `._:/@+=-` are percent-encoded,
/// so that no name can end a literal.
public struct PurgeExport: Sendable {
    /// The format of an export.
    ///
    /// Later versions may add cases.
    @nonexhaustive
    public enum Format: String, Hashable, Sendable, CaseIterable {
        /// One token per line.
        case text
        /// Comma-separated values with a header.
        case csv
        /// One JSON object per line.
        case jsonLines = "jsonl"
        /// Statements that create and fill a table.
        case sql
    }

    /// The output since the last ``removeAll()``, in UTF-8.
    public private(set) var bytes: [UInt8] = []
    private let format: Format
    private let table: String
    private var rowCount = 0

    /// The number of rows per SQL statement.
    private static let statementRowCountMax = 500

    /// Starts an export.
    ///
    /// - Parameters:
    ///   - format: the format.
    ///   - table: the table's name in SQL; a name that ``isTableName(_:)`` rejects is not used.
    public init(_ format: Format, table: String = "purge_list") {
        self.format = format
        self.table = PurgeExport.isTableName(table) ? table : "purge_list"
        switch format {
        case .text, .jsonLines: break
        case .csv: self.append("token,topic,environment,failed_at,first_seen,source\r\n")
        case .sql:
            self.append(
                """
                CREATE TABLE IF NOT EXISTS \(self.table) (token VARCHAR(200) NOT NULL, topic VARCHAR(255) NOT NULL, \
                environment VARCHAR(10) NOT NULL, failed_at BIGINT NOT NULL, first_seen BIGINT NOT NULL, \
                source VARCHAR(765) NOT NULL, PRIMARY KEY (token, topic, environment));

                """
            )
        }
    }

    /// Whether a text is a name that needs no quoting in SQL, optionally with a schema's name and a period before it.
    ///
    /// - Parameter text: letters, digits and `_`, not starting with a digit, at most 63 in each part.
    /// - Returns: whether it is valid.
    public static func isTableName(_ text: String) -> Bool {
        let parts = text.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        return (1...2).contains(parts.count)
            && parts.allSatisfy { part in
                (1...63).contains(part.count) && part.first.map { !(0x30...0x39).contains($0) } == true
                    && part.allSatisfy { SQLName.isAlphanumeric($0) || $0 == UInt8(ascii: "_") }
            }
    }

    /// Writes one entry.
    ///
    /// - Parameter entry: the entry.
    public mutating func append(_ entry: PurgeEntry) {
        let (token, environment) = (Hexadecimal.text(entry.token), entry.environment.rawValue)
        switch self.format {
        case .text: self.append(token + "\n")
        case .csv:
            let (topic, source) = (Self.field(entry.topic), Self.field(entry.source))
            self.append(
                "\(token),\(topic),\(environment),\(entry.failedAtSeconds),\(entry.firstSeenSeconds),\(source)\r\n"
            )
        case .jsonLines:
            let object = JSONObject { object in
                object.add("token", token)
                object.add("topic", entry.topic)
                object.add("environment", environment)
                object.add("failedAt", entry.failedAtSeconds)
                object.add("firstSeen", entry.firstSeenSeconds)
                object.add("source", entry.source)
            }
            self.bytes.append(contentsOf: object.bytes)
            self.append("\n")
        case .sql:
            self.beginRow()
            let (topic, source) = (Self.literal(entry.topic), Self.literal(entry.source))
            let times = "\(entry.failedAtSeconds),\(entry.firstSeenSeconds)"
            self.append("('\(token)','\(topic)','\(environment)',\(times),'\(source)')")
        }
        self.rowCount += 1
    }

    /// Ends the last statement.
    public mutating func finish() {
        if self.format == .sql, self.rowCount > 0 { self.append(";\n") }
    }

    /// Clears the output after it was written elsewhere.
    public mutating func removeAll() { self.bytes.removeAll(keepingCapacity: true) }

    // MARK: Formats

    private mutating func append(_ text: String) { self.bytes.append(contentsOf: text.utf8) }

    /// Quotes a CSV field.
    private static func field(_ text: String) -> String {
        let isSpecial = text.utf8.contains { "\",\r\n".utf8.contains($0) } || text.first == " " || text.last == " "
        // Iterates over Unicode scalars: a quote with a combining accent is one character, and still ends the field.
        return isSpecial ? SQLName.quoted(text) : text
    }

    /// Starts a row, and a statement if needed.
    private mutating func beginRow() {
        guard self.rowCount.isMultiple(of: Self.statementRowCountMax) else { return self.append(",\n") }
        if self.rowCount > 0 { self.append(";\n") }
        self.append("INSERT INTO \(self.table) (token, topic, environment, failed_at, first_seen, source) VALUES\n")
    }

    /// A percent-encoded name in quotes.
    ///
    /// Doubling quotes is not sufficient: MySQL, and PostgreSQL with a setting, treat a backslash before one as
    /// special.
    private static func literal(_ text: String) -> String {
        let bytes = text.utf8.flatMap { byte in
            SQLName.isAlphanumeric(byte) || " ._:/@+=-".utf8.contains(byte)
                ? [byte] : Array("%\(Hexadecimal.text([byte]))".utf8)
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}
