// SPDX-License-Identifier: Apache-2.0

/// A JSON value, for payload keys other than the known ones.
///
/// A literal is the shortest form:
///
/// ```swift
/// let custom: [String: JSONValue] = ["order": 1234, "items": ["tea", "milk"], "paid": true]
/// ```
///
/// A variable is put into an initializer:
///
/// ```swift
/// let custom: [String: JSONValue] = ["order": JSONValue(order), "from": JSONValue(sender)]
/// ```
@frozen
public enum JSONValue: Hashable, Sendable {
    /// `null`
    case null
    /// `true` or `false`
    case boolean(Bool)
    /// A number.
    case number(JSONNumber)
    /// A string.
    case string(String)
    /// An array.
    case array([JSONValue])
    /// An object; its members are encoded in the order of their names.
    case object([String: JSONValue])
}

/// A JSON number, stored as text, so that nothing is rounded.
///
/// Numbers are equal if they have the same value, however they are spelled: 1.50 equals 1.5.
public struct JSONNumber: Hashable, Sendable {
    /// The text of the number.
    public let text: String

    /// Creates a number from an integer.
    ///
    /// - Parameter value: the integer.
    public init(_ value: some BinaryInteger) { self.text = String(value) }

    /// Creates a number from a floating-point value; `nil` for infinity and NaN, which JSON cannot represent.
    ///
    /// - Parameter value: the number.
    public init?(_ value: some BinaryFloatingPoint & LosslessStringConvertible) {
        guard value.isFinite else { return nil }
        self.text = value.description
    }

    /// Creates a number from text that a scanner has validated.
    init(scanned text: String) { self.text = text }

    /// Whether two numbers have the same value.
    public static func == (one: JSONNumber, other: JSONNumber) -> Bool {
        guard one.text != other.text else { return true }
        guard let value = DecimalValue(one.text) else { return false }
        return value == DecimalValue(other.text)
    }

    /// Hashes the value.
    public func hash(into hasher: inout Hasher) {
        if let value = DecimalValue(self.text) { hasher.combine(value) } else { hasher.combine(self.text) }
    }

    /// The number as an integer; `nil` if it is not one.
    public var integer: Int? { Int(self.text) ?? Double(self.text).flatMap { Int(exactly: $0) } }
}

extension JSONValue {
    /// Creates a number from an integer.
    ///
    /// - Parameter value: the integer.
    public init(_ value: some BinaryInteger) { self = .number(JSONNumber(value)) }

    /// Creates a number from a floating-point value; `nil` for infinity and NaN, which JSON cannot represent.
    ///
    /// - Parameter value: the number.
    public init?(_ value: some BinaryFloatingPoint & LosslessStringConvertible) {
        guard let number = JSONNumber(value) else { return nil }
        self = .number(number)
    }

    /// Creates a string.
    ///
    /// - Parameter value: the string.
    public init(_ value: some StringProtocol) { self = .string(String(value)) }

    /// Makes `true` or `false`.
    ///
    /// - Parameter value: the boolean.
    public init(_ value: Bool) { self = .boolean(value) }
}

extension JSONValue: ExpressibleByBooleanLiteral, ExpressibleByIntegerLiteral, ExpressibleByFloatLiteral,
    ExpressibleByStringInterpolation, ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral, ExpressibleByNilLiteral
{
    /// Makes `null`.
    public init(nilLiteral: ()) { self = .null }

    /// Makes `true` or `false`.
    ///
    /// - Parameter value: the boolean.
    public init(booleanLiteral value: Bool) { self = .boolean(value) }

    /// Creates a number.
    ///
    /// - Parameter value: the number.
    public init(integerLiteral value: Int) { self = .number(JSONNumber(value)) }

    /// Creates a number.
    ///
    /// - Parameter value: the number; an infinite one becomes `null`.
    public init(floatLiteral value: Double) { self = JSONNumber(value).map { .number($0) } ?? .null }

    /// Creates a string.
    ///
    /// - Parameter value: the string.
    public init(stringLiteral value: String) { self = .string(value) }

    /// Creates an array.
    ///
    /// - Parameter elements: its elements.
    public init(arrayLiteral elements: JSONValue...) { self = .array(elements) }

    /// Creates an object.
    ///
    /// - Parameter elements: its members; if several have the same name, the last one counts.
    public init(dictionaryLiteral elements: (String, JSONValue)...) {
        self = .object(Dictionary(elements) { _, last in last })
    }
}

extension JSONValue: Encodable {
    /// Creates a value by encoding a value of another type.
    ///
    /// - Parameter value: the value to encode. `Date`, `URL` and `Data` use their own encoding, which most apps do not
    ///   expect: use text or seconds instead.
    /// - Throws: the errors of `value`; `EncodingError` for a number that is not finite.
    public init(encoding value: some Encodable) throws {
        self = try JSONEncoding.encode(value).value
    }

    /// Encodes the value.
    ///
    /// - Parameter encoder: the encoder.
    /// - Throws: the errors of the encoder; `EncodingError` for a number that the encoder would round.
    public func encode(to encoder: any Encoder) throws {
        guard let encoding = encoder as? JSONEncoding else { return try self.encodeGenerally(to: encoder) }
        encoding.node.content = self.node.content
    }

    /// For other encoders, which do not accept a number as text.
    private func encodeGenerally(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        switch self {
        case .null: try container.encodeNil()
        case .boolean(let value): try container.encode(value)
        case .number(let number): try number.encode(into: &container)
        case .string(let text): try container.encode(text)
        case .array(let elements): try container.encode(elements)
        case .object(let members): try container.encode(members)
        }
    }
}

extension JSONValue {
    /// Parses a JSON text.
    ///
    /// - Throws: ``ScanFailure`` for the first byte at fault.
    package init(scanning bytes: UnsafeRawBufferPointer) throws(ScanFailure) {
        var scanner = unsafe JSONScanner(bytes)
        try scanner.begin()
        self = try JSONValue(scanning: &scanner, depth: 0)
        try scanner.finish()
    }

    /// The value as JSON text in UTF-8, without white space.
    public var bytes: [UInt8] {
        var bytes: [UInt8] = []
        self.node.write(to: &bytes)
        return bytes
    }

    /// The member of an object; `nil` if this is not an object or has no such member.
    ///
    /// - Parameter name: the name of the member.
    public subscript(name: String) -> JSONValue? {
        guard case .object(let members) = self else { return nil }
        return members[name]
    }

    /// The string; `nil` if this is not a string.
    public var string: String? {
        guard case .string(let text) = self else { return nil }
        return text
    }

    /// The elements of an array; `nil` if this is not an array.
    public var elements: [JSONValue]? {
        guard case .array(let elements) = self else { return nil }
        return elements
    }

    private init(scanning scanner: inout JSONScanner, depth: Int) throws(ScanFailure) {
        let kind = try scanner.kind()
        guard depth < JSONScanner.depthMax || kind != .object && kind != .array else {
            throw scanner.failure(.tooDeep)
        }
        let start = scanner.byteOffset
        switch kind {
        case .object:
            var members: [String: JSONValue] = [:]
            scanner.enter()
            var isFirst = true
            while let name = try scanner.nextKey(isFirst: &isFirst) {
                let text = scanner.text(of: name)
                members[text] = try JSONValue(scanning: &scanner, depth: depth + 1)
            }
            self = .object(members)
        case .array:
            var elements: [JSONValue] = []
            scanner.enter()
            var isFirst = true
            while try scanner.nextElement(isFirst: &isFirst) {
                elements.append(try JSONValue(scanning: &scanner, depth: depth + 1))
            }
            self = .array(elements)
        case .string: self = .string(scanner.text(of: try scanner.string()))
        case .number:
            try scanner.skipNumber()
            self = .number(JSONNumber(scanned: scanner.text(from: start)))
        case .boolean:
            try scanner.skipLiteral()
            self = .boolean(scanner.text(from: start) == "true")
        case .null:
            try scanner.skipLiteral()
            self = .null
        }
    }

    /// The value as a mutable node.
    package var node: JSONNode {
        switch self {
        case .null: JSONNode(.scalar("null"))
        case .boolean(let value): JSONNode(.scalar(value ? "true" : "false"))
        case .number(let number): JSONNode(.scalar(number.text))
        case .string(let text): JSONNode(.string(text))
        case .array(let elements): JSONNode(.array(elements.map(\.node)))
        case .object(let members):
            JSONNode(.object(members.sorted { $0.key < $1.key }.map { (name: $0.key, node: $0.value.node) }))
        }
    }
}
