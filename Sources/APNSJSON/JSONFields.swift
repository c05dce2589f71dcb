// SPDX-License-Identifier: Apache-2.0

/// The strings and numbers of a small JSON object, such as an answer of the service; other values are ignored.
///
/// If members have the same name, the last one counts, and ``repeatedName`` tells.
package struct JSONFields {
    /// The first name that occurs twice; `nil` if none does.
    package private(set) var repeatedName: String?
    /// The names of all members, of any kind.
    package private(set) var names: Set<String> = []
    private var strings: [String: String] = [:]
    private var numbers: [String: String] = [:]

    /// Parses an object; `nil` if the bytes are not a JSON object.
    package init?(_ bytes: [UInt8]) {
        let isRead = unsafe bytes.withUnsafeBytes { unsafe (try? self.read($0)) != nil }
        guard isRead else { return nil }
    }

    /// The string of a member; `nil` if there is none.
    package func string(_ name: String) -> String? { self.strings[name] }

    /// The number of a member; `nil` if there is none, or if it does not fit the type.
    package func integer<Value: FixedWidthInteger>(_ name: String) -> Value? {
        guard let text = self.numbers[name] else { return nil }
        return Value(text) ?? Double(text).flatMap { Value(exactly: $0) }
    }

    /// Whether there is a member, of any kind.
    package func contains(_ name: String) -> Bool { self.names.contains(name) }

    private mutating func read(_ bytes: UnsafeRawBufferPointer) throws(ScanFailure) {
        var scanner = unsafe JSONScanner(bytes)
        try scanner.begin()
        guard try scanner.kind() == .object else { throw scanner.failure(.missingValue) }
        scanner.enter()
        var isFirst = true
        while let name = try scanner.nextKey(isFirst: &isFirst) {
            let kind = try scanner.kind()
            let offset = scanner.byteOffset
            let key = scanner.text(of: name)
            if !self.names.insert(key).inserted, self.repeatedName == nil { self.repeatedName = key }
            if kind == .string {
                self.strings[key] = scanner.text(of: try scanner.string())
            } else {
                try scanner.skipValue(enclosedBy: 1)
                guard kind == .number else { continue }
                self.numbers[key] = scanner.text(from: offset)
            }
        }
        try scanner.finish()
    }
}
