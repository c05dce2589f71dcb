// SPDX-License-Identifier: Apache-2.0

import APNSPayload

/// The columns and keys that a kind of input can have.
package protocol InputColumn: Hashable, CaseIterable, Sendable {
    /// The name in the input.
    var columnName: String { get }
    /// Finds the column of a name, in upper or lower case; `nil` if the name is unknown.
    init?(columnName: UnsafeRawBufferPointer)
}

/// The names that an input uses for columns and keys: the usual ones, unless `--column` maps others.
package struct ColumnNames<Column: InputColumn>: Sendable {
    private struct Mapping: Sendable {
        let column: Column
        let name: String
        /// The name in lower case, as far as it is ASCII.
        let folded: [UInt8]
    }

    private var mappings: [Mapping] = []

    /// The usual names.
    package init() {}

    /// Maps names.
    ///
    /// - Parameter arguments: each is `COLUMN=NAME`, as in `token=device_token`.
    /// - Throws: ``ColumnMappingError``.
    package init(_ arguments: [String]) throws(ColumnMappingError) {
        for argument in arguments {
            let parts = argument.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard parts.count == 2, !parts[0].isEmpty, !parts[1].isEmpty else { throw .malformed }
            let (word, name) = (String(parts[0]), String(parts[1]))
            guard let column = Self.column(word) else {
                if let meant = Self.column(name) { throw .reversed(column: meant.columnName, name: word) }
                throw .unknown(ColumnName.suggest(word, Self.names))
            }
            guard !self.mappings.contains(where: { $0.column == column }) else {
                throw .duplicate(column: column.columnName)
            }
            let folded = name.utf8.map(\.asciiLowercased)
            guard !self.mappings.contains(where: { $0.folded == folded }) else { throw .duplicate(column: name) }
            self.mappings.append(Mapping(column: column, name: name, folded: folded))
        }
    }

    private static func column(_ name: String) -> Column? {
        unsafe Array(name.utf8).withUnsafeBytes { unsafe Column(columnName: $0) }
    }

    /// The usual names of all columns.
    static var names: [String] { Column.allCases.map(\.columnName) }

    /// Finds the column of a name in the input.
    @inline(__always)
    func column(_ bytes: UnsafeRawBufferPointer) -> Column? {
        self.mappings.isEmpty ? unsafe Column(columnName: bytes) : unsafe self.mappedColumn(bytes)
    }

    @inline(never)
    private func mappedColumn(_ bytes: UnsafeRawBufferPointer) -> Column? {
        for mapping in self.mappings
        where mapping.folded.count == bytes.count
            && bytes.indices.allSatisfy({ unsafe bytes[$0].asciiLowercased == mapping.folded[$0] })
        {
            return mapping.column
        }
        // A column that is mapped has no other name.
        guard let column = unsafe Column(columnName: bytes), self.mappedName(of: column) == nil else { return nil }
        return column
    }

    /// The column that a name is mapped to.
    func mappedColumn(named name: String) -> Column? {
        let folded = name.utf8.map(\.asciiLowercased)
        return self.mappings.first { $0.folded == folded }?.column
    }

    /// The columns that are mapped.
    var mappedColumns: [Column] { self.mappings.map(\.column) }

    /// The column whose usual name this is, if the input uses another name for it.
    func replacedColumn(_ bytes: UnsafeRawBufferPointer) -> Column? {
        guard let column = unsafe Column(columnName: bytes), self.mappedName(of: column) != nil else { return nil }
        return unsafe self.column(bytes) == nil ? column : nil
    }

    /// The name that the input uses for a column, if it is mapped.
    func mappedName(of column: Column) -> String? { self.mappings.first { $0.column == column }?.name }
}

/// Why an argument of `--column` is refused.
package enum ColumnMappingError: Error, Hashable, Sendable, CustomStringConvertible {
    /// It is not `COLUMN=NAME`.
    case malformed
    /// There is no such column; the text says which there are.
    case unknown(String)
    /// The column is on the right, and the name in the input on the left.
    case reversed(column: String, name: String)
    /// A column or a name is mapped twice.
    case duplicate(column: String)

    /// What is wrong, and what to do.
    package var description: String {
        switch self {
        case .malformed: "--column: expected COLUMN=NAME, such as token=device_token"
        case .unknown(let text): "--column: unknown column \(text)"
        case .reversed(let column, let name):
            "--column: the column of the batch goes first; write \(ColumnName.argument(column, name))"
        case .duplicate(let column): "--column: \"\(column)\" is mapped twice"
        }
    }
}

/// The name of a column or key in the input, as far as it is safe to show.
package struct ColumnName: Hashable, Sendable {
    /// The name; `nil` if it may be a token, part of a payload, or control a terminal.
    package let text: String?

    /// The longest name that is shown, in characters.
    private static let characterCountMax = 32
    /// So many hexadecimal digits may be part of a token.
    private static let digitCountMax = 15

    /// Takes a name from the input.
    init(_ bytes: UnsafeRawBufferPointer) {
        self.text = unsafe Self.text(bytes)
    }

    /// Takes a name.
    init(_ name: String) {
        self.text = unsafe Array(name.utf8).withUnsafeBytes { unsafe Self.text($0) }
    }

    private static func text(_ bytes: UnsafeRawBufferPointer) -> String? {
        guard (1...(4 * self.characterCountMax)).contains(bytes.count),
            let text = unsafe String(validating: bytes, as: UTF8.self), text.count <= self.characterCountMax
        else { return nil }
        let isName = text.unicodeScalars.allSatisfy { scalar in
            scalar.properties.isAlphabetic || "0"..."9" ~= scalar || "_-. /()#".unicodeScalars.contains(scalar)
        }
        let isHexadecimal = text.count > self.digitCountMax && text.allSatisfy { $0.isHexDigit }
        return isName && !isHexadecimal && text.contains(where: \.isLetter) ? text : nil
    }

    /// The names that are there, after an unknown one: the nearest one if it is near, or else all.
    static func suggest(_ name: String, _ names: [String]) -> String {
        let shown = ColumnName(name).text.map { "\"\($0)\"; " } ?? "name; "
        if let nearest = NearestName.find(name, in: names) { return "\(shown)did you mean \"\(nearest)\"?" }
        return "\(shown)valid columns: \(names.joined(separator: ", "))"
    }

    /// The option that reads a column under the name that an input uses, as a shell takes it.
    static func argument(_ column: String, _ name: String) -> String {
        guard let name = ColumnName(name).text else { return "--column \(column)=NAME" }
        let isWord = name.utf8.allSatisfy { $0 == UInt8(ascii: "_") || Character(Unicode.Scalar($0)).isLetter }
        return isWord ? "--column \(column)=\(name)" : "--column \"\(column)=\(name)\""
    }
}

extension UInt8 {
    /// The byte, with an upper-case letter of ASCII made lower case.
    fileprivate var asciiLowercased: UInt8 { 0x41...0x5A ~= self ? self | 0x20 : self }
}
