// SPDX-License-Identifier: Apache-2.0

#if PostgreSQL
/// Rows in the binary format of `COPY`.
///
/// The caller adds the number of values that the statement has columns, each in the form of its column's type.
package struct PostgreSQLRows: ~Copyable, Sendable {
    // The signature, no flags, and no extension of the header.
    private var bytes: [UInt8] = Array("PGCOPY\n".utf8) + [0xFF, 0x0D, 0x0A, 0] + [UInt8](repeating: 0, count: 8)
    private let columnCount: Int16

    /// Creates an empty set of rows with this number of columns.
    package init(columnCount: Int16) { self.columnCount = columnCount }

    /// The size so far, in bytes.
    package var byteCount: Int { self.bytes.count }

    /// Begins the next row.
    package mutating func begin() { self.append(self.columnCount) }

    /// Adds an integer of the size of its type (`smallint`, `integer`, `bigint`), or NULL.
    package mutating func add(_ value: (some FixedWidthInteger)?) {
        guard let value else { return self.append(Int32(-1)) }
        self.append(Int32(value.bitWidth / 8))
        self.append(value)
    }

    /// Adds the bytes of a `bytea` or a text, or NULL.
    package mutating func add(_ value: (some Collection<UInt8>)?) {
        guard let value else { return self.append(Int32(-1)) }
        self.append(Int32(clamping: value.count))
        self.bytes.append(contentsOf: value)
    }

    private mutating func append(_ value: some FixedWidthInteger) {
        var shift = value.bitWidth
        while shift > 0 {
            shift -= 8
            self.bytes.append(UInt8(truncatingIfNeeded: value >> shift))
        }
    }

    /// Ends the rows.
    consuming func finish() -> [UInt8] {
        self.append(Int16(-1))
        return self.bytes
    }
}
#endif
