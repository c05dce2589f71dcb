// SPDX-License-Identifier: Apache-2.0

import APNSJSON

/// The members of an object that is decoded; each is removed when it is read, so that the rest is unknown.
///
/// A member that is `null` counts as missing.
struct MemberReader {
    private(set) var members: [String: JSONValue]
    private let codingPath: [any CodingKey]

    /// Begins to read an object.
    ///
    /// - Throws: `DecodingError` if the value is not an object.
    init(_ value: JSONValue, _ codingPath: [any CodingKey]) throws {
        self.codingPath = codingPath
        guard case .object(let members) = value else { throw DecodingError.unexpected("an object", at: codingPath) }
        self.members = members
    }

    /// The path of a member.
    func path(_ key: some CodingKey) -> [any CodingKey] { self.codingPath + [key] }

    mutating func value(_ key: some CodingKey) -> JSONValue? {
        let value = self.members.removeValue(forKey: key.stringValue)
        return value == .null ? nil : value
    }

    mutating func string(_ key: some CodingKey) throws -> String? {
        try self.read(key, "a string") { $0.string }
    }

    mutating func strings(_ key: some CodingKey) throws -> [String]? {
        try self.read(key, "an array of strings") { value in
            let strings = value.elements?.compactMap(\.string)
            return strings?.count == value.elements?.count ? strings : nil
        }
    }

    mutating func integer(_ key: some CodingKey) throws -> Int? {
        try self.read(key, "a whole number") { if case .number(let number) = $0 { number.integer } else { nil } }
    }

    mutating func double(_ key: some CodingKey) throws -> Double? {
        try self.read(key, "a number") { if case .number(let number) = $0 { Double(number.text) } else { nil } }
    }

    /// Reads 1, 0 or a boolean; `false` if it is missing.
    mutating func flag(_ key: some CodingKey) throws -> Bool {
        let value: Bool? = try self.read(key, "1 or 0") { value in
            switch value {
            case .boolean(let value): value
            case .number(let number) where number.integer == 1: true
            case .number(let number) where number.integer == 0: false
            default: nil
            }
        }
        return value ?? false
    }

    /// The value of a member that must be there.
    ///
    /// - Throws: `DecodingError` if it is `nil`.
    func require<Value>(_ value: Value?, _ key: some CodingKey) throws -> Value {
        guard let value else {
            let context = DecodingError.Context(
                codingPath: self.codingPath,
                debugDescription: "\(key.stringValue) is missing"
            )
            throw DecodingError.keyNotFound(key, context)
        }
        return value
    }

    /// Ends an object that has no unknown members.
    ///
    /// - Throws: `DecodingError` if a member was not read.
    func finish() throws {
        guard let name = self.members.keys.min() else { return }
        throw DecodingError.unexpected("no such key", at: self.path(JSONKey(stringValue: name)))
    }

    private mutating func read<Value>(
        _ key: some CodingKey,
        _ expected: String,
        _ convert: (JSONValue) -> Value?
    ) throws -> Value? {
        guard let value = self.value(key) else { return nil }
        guard let result = convert(value) else { throw DecodingError.unexpected(expected, at: self.path(key)) }
        return result
    }
}

extension DecodingError {
    /// The error for a value that is not the expected one; it contains nothing of the value.
    static func unexpected(_ expected: String, at codingPath: [any CodingKey]) -> DecodingError {
        .dataCorrupted(Context(codingPath: codingPath, debugDescription: "expected \(expected)"))
    }
}

extension [String: JSONValue] {
    /// Encodes members next to those that a type has already encoded, in the order of their names.
    func encodeMembers(to encoder: any Encoder) throws {
        guard !self.isEmpty else { return }
        var container = encoder.container(keyedBy: JSONKey.self)
        for (name, value) in self.sorted(by: { $0.key < $1.key }) {
            try container.encode(value, forKey: JSONKey(stringValue: name))
        }
    }
}
