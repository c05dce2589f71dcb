// SPDX-License-Identifier: Apache-2.0

/// An encoder that writes values as JSON.
///
/// It replaces Foundation's, so that small providers do not need Foundation.
package struct JSONEncoding: Encoder {
    let node: JSONNode
    /// Whether a number without a JSON representation is an error; otherwise it becomes `null`.
    var refusesNonFinite = true
    package var codingPath: [any CodingKey] = []
    package var userInfo: [CodingUserInfoKey: Any] { [:] }

    /// Encodes a value.
    ///
    /// Returns the members in the order in which they were encoded.
    ///
    /// - Throws: the errors of `value`, and `EncodingError` for such a number.
    package static func encode(_ value: some Encodable, refusesNonFinite: Bool = true) throws -> JSONNode {
        let node = JSONNode()
        try JSONEncoding(node: node, refusesNonFinite: refusesNonFinite).write(value)
        return node
    }

    package func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> {
        KeyedEncodingContainer(Members<Key>(encoding: self))
    }

    package func unkeyedContainer() -> any UnkeyedEncodingContainer { Elements(encoding: self) }

    package func singleValueContainer() -> any SingleValueEncodingContainer { Single(encoding: self) }

    /// Writes the types that JSON has; other values encode themselves.
    fileprivate func write<Value: Encodable>(_ value: Value) throws {
        switch value {
        case let value as String: self.node.content = .string(value)
        case let value as Bool: self.node.content = .scalar(value ? "true" : "false")
        case let value as any BinaryInteger: self.node.content = .scalar("\(value)")
        case let value as Double: try self.write(JSONNumber(value), of: value)
        case let value as Float: try self.write(JSONNumber(value), of: value)
        default: try value.encode(to: self)
        }
    }

    private func write(_ number: JSONNumber?, of value: Any) throws {
        guard let number else {
            guard self.refusesNonFinite else { return self.node.content = .scalar("null") }
            let text = "JSON cannot represent infinity or NaN."
            throw EncodingError.invalidValue(value, .init(codingPath: self.codingPath, debugDescription: text))
        }
        self.node.content = .scalar(number.text)
    }

    fileprivate func member(_ key: some CodingKey) -> JSONEncoding {
        JSONEncoding(
            node: self.node.add(key.stringValue),
            refusesNonFinite: self.refusesNonFinite,
            codingPath: self.codingPath + [key]
        )
    }

    fileprivate func element() -> JSONEncoding {
        let key = JSONKey(intValue: self.node.elementCount)
        return JSONEncoding(
            node: self.node.add(),
            refusesNonFinite: self.refusesNonFinite,
            codingPath: self.codingPath + [key]
        )
    }
}

/// The name of any member, or the index of an element.
package struct JSONKey: CodingKey {
    package var stringValue: String
    package var intValue: Int?

    package init(intValue: Int) {
        self.intValue = intValue
        self.stringValue = "\(intValue)"
    }

    package init(stringValue: String) { self.stringValue = stringValue }
}

private struct Members<Key: CodingKey>: KeyedEncodingContainerProtocol {
    let encoding: JSONEncoding
    var codingPath: [any CodingKey] { self.encoding.codingPath }

    init(encoding: JSONEncoding) {
        self.encoding = encoding
        // An object without members is still an object.
        if case .object = encoding.node.content { return }
        encoding.node.content = .object([])
    }

    mutating func encodeNil(forKey key: Key) throws { self.encoding.member(key).node.content = .scalar("null") }

    mutating func encode<Value: Encodable>(_ value: Value, forKey key: Key) throws {
        try self.encoding.member(key).write(value)
    }

    mutating func nestedContainer<Nested: CodingKey>(
        keyedBy keyType: Nested.Type,
        forKey key: Key
    ) -> KeyedEncodingContainer<Nested> { self.encoding.member(key).container(keyedBy: keyType) }

    mutating func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedEncodingContainer {
        self.encoding.member(key).unkeyedContainer()
    }

    mutating func superEncoder() -> any Encoder { self.encoding.member(JSONKey(stringValue: "super")) }

    mutating func superEncoder(forKey key: Key) -> any Encoder { self.encoding.member(key) }
}

private struct Elements: UnkeyedEncodingContainer {
    let encoding: JSONEncoding
    var codingPath: [any CodingKey] { self.encoding.codingPath }
    var count: Int { self.encoding.node.elementCount }

    init(encoding: JSONEncoding) {
        self.encoding = encoding
        if case .array = encoding.node.content { return }
        encoding.node.content = .array([])
    }

    mutating func encodeNil() throws { self.encoding.element().node.content = .scalar("null") }

    mutating func encode<Value: Encodable>(_ value: Value) throws { try self.encoding.element().write(value) }

    mutating func nestedContainer<Nested: CodingKey>(
        keyedBy keyType: Nested.Type
    ) -> KeyedEncodingContainer<Nested> { self.encoding.element().container(keyedBy: keyType) }

    mutating func nestedUnkeyedContainer() -> any UnkeyedEncodingContainer {
        self.encoding.element().unkeyedContainer()
    }

    mutating func superEncoder() -> any Encoder { self.encoding.element() }
}

private struct Single: SingleValueEncodingContainer {
    let encoding: JSONEncoding
    var codingPath: [any CodingKey] { self.encoding.codingPath }

    mutating func encodeNil() throws { self.encoding.node.content = .scalar("null") }

    mutating func encode<Value: Encodable>(_ value: Value) throws { try self.encoding.write(value) }
}
