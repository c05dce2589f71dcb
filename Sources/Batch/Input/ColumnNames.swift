// SPDX-License-Identifier: Apache-2.0

import APNSPayload

/// The names that an input uses for columns and keys: the usual ones, unless `--column` maps others.
package struct ColumnNames: Sendable {
    private struct Mapping: Sendable {
        let column: BatchColumn
        let name: String
        /// The name in lower case, as far as it is ASCII.
        let folded: [UInt8]
    }

    /// What the lines are about, which decides which columns there are.
    let kind: InputKind
    private var mappings: [Mapping] = []

    /// The usual names.
    package init(_ kind: InputKind = .batch) { self.kind = kind }

    /// Maps names.
    ///
    /// - Throws: ``ColumnMappingError``.
    package init(_ arguments: [String], _ kind: InputKind = .batch) throws(ColumnMappingError) {
        self.kind = kind
        for argument in arguments {
            let parts = argument.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard parts.count == 2, !parts[0].isEmpty, !parts[1].isEmpty else {
                throw ColumnMappingError("expected COLUMN=NAME, such as token=device_token")
            }
            let (word, name) = (String(parts[0]), String(parts[1]))
            guard let column = kind.column(named: word) else {
                guard let meant = kind.column(named: name) else {
                    let names = ColumnName.suggest(word, kind.columns.map(\.description))
                    throw ColumnMappingError("unknown column \(names)")
                }
                let argument = ColumnName.argument(meant.description, word)
                throw ColumnMappingError("the column of the batch goes first; write \(argument)")
            }
            guard !self.mappings.contains(where: { $0.column == column }) else {
                throw ColumnMappingError("\"\(column)\" is mapped twice")
            }
            let folded = name.utf8.map(\.asciiLowercased)
            guard !self.mappings.contains(where: { $0.folded == folded }) else {
                throw ColumnMappingError("\"\(name)\" is mapped twice")
            }
            self.mappings.append(Mapping(column: column, name: name, folded: folded))
        }
    }

    /// Finds the column of a name in the input.
    @inline(__always)
    func column(_ bytes: UnsafeRawBufferPointer) -> BatchColumn? {
        guard self.mappings.isEmpty, self.kind == .batch else { return unsafe self.spelledColumn(bytes)?.column }
        return unsafe BatchColumn(bytes)
    }

    /// Finds the column of a name, and whether it is mapped or has the usual spelling.
    @inline(never)
    func spelledColumn(_ bytes: UnsafeRawBufferPointer) -> (column: BatchColumn, isUsual: Bool)? {
        for mapping in self.mappings
        where mapping.folded.count == bytes.count
            && bytes.indices.allSatisfy({ unsafe bytes[$0].asciiLowercased == mapping.folded[$0] })
        {
            return (mapping.column, true)
        }
        // A column that is mapped has no other name.
        guard let found = unsafe self.kind.column(bytes), self.mappedName(of: found.column) == nil else { return nil }
        return found
    }

    /// The columns of a header; `nil` for one that is unknown.
    ///
    /// A name in the usual spelling takes precedence over others.
    func columns(_ header: [UnsafeRawBufferPointer]) -> [BatchColumn?] {
        let found = unsafe header.map { unsafe self.spelledColumn($0) }
        var columns = found.map { $0?.isUsual == true ? $0?.column : nil }
        for (index, other) in found.enumerated() where other?.isUsual == false && !columns.contains(other?.column) {
            columns[index] = other?.column
        }
        guard self.kind == .deadTokens else { return columns }
        // A batch in CSV may have these in place of a payload.
        for index in columns.indices where columns[index] == nil {
            if unsafe BatchColumn(header[index])?.isPayloadPart == true { columns[index] = .payload }
        }
        return columns
    }

    /// Whether a text in a first line is the name of a column.
    func isColumn(_ bytes: UnsafeRawBufferPointer) -> Bool {
        if unsafe self.column(bytes) != nil { return true }
        // Lists of dead tokens have many names for the column that they need.
        let name = unsafe String(decoding: bytes, as: UTF8.self).lowercased()
        return self.kind == .deadTokens && name.hasPrefix(BatchColumn.token.description)
    }

    /// The columns that are mapped.
    var mappedColumns: [BatchColumn] { self.mappings.map(\.column) }

    /// The column whose usual name this is, if the input uses another name for it.
    func replacedColumn(_ bytes: UnsafeRawBufferPointer) -> BatchColumn? {
        let column = unsafe self.kind.column(bytes)?.column
        guard let column, self.mappedName(of: column) != nil, unsafe self.column(bytes) == nil else { return nil }
        return column
    }

    /// The name that the input uses for a column, if it is mapped.
    func mappedName(of column: BatchColumn) -> String? { self.mappings.first { $0.column == column }?.name }
}

/// Why an argument of `--column` is refused, and what to do.
package struct ColumnMappingError: Error, CustomStringConvertible {
    package let description: String

    fileprivate init(_ sentence: String) { self.description = "--column: \(sentence)" }
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
