// SPDX-License-Identifier: Apache-2.0

import APNSPayload

/// The columns of a CSV header whose names are unknown.
package struct UnknownColumns: Hashable, Sendable {
    /// Their names.
    var names: [HeaderName]
    /// The columns that such a header can have.
    var valid: [BatchColumn]
    /// Those of them that the header lacks.
    var free: [BatchColumn]
    /// Those of these that a batch needs.
    var required: [BatchColumn]

    /// For each lacking column, the nearest of the names.
    private var matches: [(column: BatchColumn, name: String)] {
        var matches: [(column: BatchColumn, name: String)] = []
        for case let name? in self.names.map(\.name.text) {
            let free = self.free.filter { column in !matches.contains { $0.column == column } }
            guard let column = BatchColumn.nearest(name, in: free) else { continue }
            matches.append((column, name))
        }
        return matches
    }
}

extension UnknownColumns: CustomStringConvertible {
    /// What is unknown, and the options to read or skip it.
    package var description: String {
        let matches = self.matches
        let lacking = self.required.filter { column in
            !matches.contains { $0.column == column || column == .payload && $0.column.isPayloadPart }
        }
        var parts = ["unknown column\(self.names.count == 1 ? "" : "s") \(self.names.list) in the header"]
        if !matches.isEmpty {
            let readings = matches.map {
                self.names.count == 1 ? "it as \($0.column)" : "\"\($0.name)\" as \($0.column)"
            }
            let options = matches.map { ColumnName.argument($0.column.description, $0.name) }
            parts.append("to read \(readings.joined(separator: " and ")), add \(options.joined(separator: " "))")
        }
        for column in lacking {
            let other = column == .payload ? " (or --payload FILE, or --alert TEXT)" : ""
            parts.append("for the column with the \(column), add --column \(column)=NAME\(other)")
        }
        if matches.isEmpty, lacking.isEmpty, !self.free.isEmpty {
            parts.append("valid columns: \(self.valid.map(\.description).joined(separator: ", "))")
        }
        if let object = self.skippable(matches, lacking) {
            parts.append("to skip \(object), add --ignore-unknown-columns")
        }
        return parts.joined(separator: "; ")
    }

    /// What can be skipped, which a column that the batch needs cannot; `nil` if nothing can.
    private func skippable(_ matches: [(column: BatchColumn, name: String)], _ lacking: [BatchColumn]) -> String? {
        // The payload may also come from another option.
        let otherCount = self.names.count - matches.count - lacking.count { $0 != .payload }
        if otherCount > 0 {
            let isAll = otherCount == self.names.count
            if isAll, !lacking.isEmpty { return self.names.list }
            return isAll ? otherCount == 1 ? "it" : "them" : otherCount == 1 ? "the other" : "the others"
        }
        let optional = matches.filter { !self.required.contains($0.column.isPayloadPart ? .payload : $0.column) }
        guard !optional.isEmpty else { return nil }
        return self.names.count == 1 ? "it" : optional.map { "\"\($0.name)\"" }.joined(separator: ", ")
    }
}

/// A name in a CSV header.
package struct HeaderName: Hashable, Sendable {
    /// The name.
    let name: ColumnName
    /// The column, counted from 1.
    let number: Int
}

extension [HeaderName] {
    /// The names in quotes, as many as fit on a line; a column whose name is not safe to show has its number.
    var list: String {
        var parts = self.prefix(Self.listCountMax).map { column in
            column.name.text.map { "\"\($0)\"" } ?? "number \(column.number)"
        }
        if self.count > parts.count { parts.append("\(self.count - parts.count) more") }
        return parts.joined(separator: ", ")
    }

    private static var listCountMax: Int { 12 }
}
