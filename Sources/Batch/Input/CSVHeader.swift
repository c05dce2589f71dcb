// SPDX-License-Identifier: Apache-2.0

import APNSWire

/// The first row of CSV: the names of the columns, and the separator that they show.
@safe struct CSVHeader {
    /// The separator.
    let separator: UInt8
    /// The names, without white space and quotes around them.
    let names: [UnsafeRawBufferPointer]

    /// The bytes that may separate columns; the first one is the default.
    private static let separators = [UInt8(ascii: ","), UInt8(ascii: ";"), 0x09]

    /// Reads a header; `nil` if a quote is misplaced or unbalanced.
    ///
    /// The separator is the one that gives the most known columns, and then the most columns.
    init?(_ row: UnsafeRawBufferPointer, isKnown: (UnsafeRawBufferPointer) -> Bool) {
        var best: (separator: UInt8, names: [UnsafeRawBufferPointer], knownCount: Int)?
        for separator in Self.separators {
            guard let names = unsafe Self.names(row, separator) else { continue }
            let knownCount = unsafe names.count(where: isKnown)
            if let best = unsafe best, unsafe (best.knownCount, best.names.count) >= (knownCount, names.count) {
                continue
            }
            unsafe best = unsafe (separator, names, knownCount)
        }
        guard let best = unsafe best else { return nil }
        self.separator = unsafe best.separator
        unsafe self.names = unsafe best.names
    }

    private static func names(_ row: UnsafeRawBufferPointer, _ separator: UInt8) -> [UnsafeRawBufferPointer]? {
        let quote = UInt8(ascii: "\"")
        let names = unsafe self.fields(row, separator)
        let isBalanced = unsafe row.count { $0 == quote }.isMultiple(of: 2)
        return unsafe isBalanced && !names.contains { unsafe $0.contains(quote) } ? names : nil
    }
}

extension CSVHeader {
    /// The header that a file without one needs, if the first line is a row: it has a token.
    ///
    /// The quotes in the row need not be right.
    ///
    /// Returns the names of the columns of a batch, such as `token,payload`; `nil` if the line may be a header.
    static func proposal(for row: UnsafeRawBufferPointer) -> String? {
        for separator in self.separators {
            let fields = unsafe self.fields(row, separator)
            guard unsafe fields.contains(where: { unsafe self.isToken($0) }) else { continue }
            let columns = unsafe fields.map { unsafe self.column(of: $0) }
            let names = Set(columns).count == columns.count ? columns : [.token, .payload]
            let isTabbed = separator == 0x09
            return names.map(\.description).joined(separator: isTabbed ? " " : String(UnicodeScalar(separator)))
                + (isTabbed && names.count > 1 ? " (with tabs between them)" : "")
        }
        return nil
    }

    /// The character that separates the columns of a header of one column, if it has the name of a known one then.
    static func otherSeparator(
        _ names: [UnsafeRawBufferPointer],
        isKnown: (UnsafeRawBufferPointer) -> Bool
    ) -> String? {
        guard unsafe names.count == 1, unsafe !isKnown(names[0]) else { return nil }
        return ["|", ":", " "].first { separator in
            let fields = unsafe Self.fields(names[0], Array(separator.utf8)[0])
            return unsafe fields.count > 1 && fields.contains(where: isKnown)
        }
    }

    /// A command that writes the tokens of rows without a header, such as `cut -d, -f2`.
    ///
    /// Returns the command; `nil` if no field is a token.
    static func extraction(for row: UnsafeRawBufferPointer) -> String? {
        for separator in self.separators {
            let fields = unsafe self.fields(row, separator)
            guard let index = unsafe fields.firstIndex(where: { unsafe self.isToken($0) }) else { continue }
            let option = [UInt8(ascii: ","): "-d, ", UInt8(ascii: ";"): "-d';' "][separator] ?? ""
            return "cut \(option)-f\(index + 1)"
        }
        return nil
    }

    /// The fields between separators outside quotes, without the quotes around them.
    private static func fields(_ row: UnsafeRawBufferPointer, _ separator: UInt8) -> [UnsafeRawBufferPointer] {
        var (start, isQuoted) = (0, false)
        var fields: [UnsafeRawBufferPointer] = unsafe []
        for index in 0...row.count {
            if index < row.count, unsafe row[index] == UInt8(ascii: "\"") { isQuoted.toggle() }
            guard unsafe index == row.count || row[index] == separator && !isQuoted else { continue }
            unsafe fields.append(UnsafeRawBufferPointer(rebasing: row[start..<index]).trimmed.withoutQuotes)
            start = index + 1
        }
        return unsafe fields
    }

    /// A shorter text is not taken for a token where a name is expected.
    private static let tokenCharacterCountMin = 32

    private static func isToken(_ field: UnsafeRawBufferPointer) -> Bool {
        var token = BatchRecord().token
        return unsafe field.count >= self.tokenCharacterCountMin && DeviceTokenText.decode(field, into: &token)
    }

    /// The column that a field probably belongs to.
    private static func column(of field: UnsafeRawBufferPointer) -> BatchColumn {
        if unsafe self.isToken(field) { return .token }
        if unsafe field.first == UInt8(ascii: "{") { return .payload }
        if unsafe BatchReader.priority(field) != nil { return .priority }
        if unsafe field.first == UInt8(ascii: "+") { return .expiry }
        return .id
    }
}
