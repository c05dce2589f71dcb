// SPDX-License-Identifier: Apache-2.0

extension JSONValue: Decodable {
    /// Decodes any value.
    ///
    /// A number keeps its value, and not its spelling. Most decoders round a number that has neither an integer type
    /// nor a `Double` of the same value; `JSONValue(parsing:)` of `APNSPayload` keeps every digit.
    ///
    /// - Parameter decoder: the decoder.
    /// - Throws: the errors of the decoder.
    public init(from decoder: any Decoder) throws {
        if let container = try? decoder.container(keyedBy: JSONKey.self) {
            var members: [String: JSONValue] = [:]
            for key in container.allKeys {
                members[key.stringValue] = try container.decode(JSONValue.self, forKey: key)
            }
            self = .object(members)
        } else if var container = try? decoder.unkeyedContainer() {
            var elements: [JSONValue] = []
            while !container.isAtEnd { elements.append(try container.decode(JSONValue.self)) }
            self = .array(elements)
        } else {
            self = try Self.scalar(try decoder.singleValueContainer())
        }
    }

    private static func scalar(_ container: any SingleValueDecodingContainer) throws -> JSONValue {
        if container.decodeNil() { return .null }
        if let value = try? container.decode(Bool.self) { return .boolean(value) }
        if let value = try? container.decode(Int.self) { return .number(JSONNumber(value)) }
        if let value = try? container.decode(UInt64.self) { return .number(JSONNumber(value)) }
        if let value = try? container.decode(Int128.self) { return .number(JSONNumber(value)) }
        if let number = (try? container.decode(Double.self)).flatMap({ JSONNumber($0) }) { return .number(number) }
        return .string(try container.decode(String.self))
    }
}

extension JSONNumber {
    /// Encodes the number for an encoder that does not accept text.
    ///
    /// - Throws: `EncodingError` if it has no integer type and no `Double` of the same value.
    func encode(into container: inout any SingleValueEncodingContainer) throws {
        if let value = Int(self.text) { return try container.encode(value) }
        if let value = UInt64(self.text) { return try container.encode(value) }
        if let value = Double(self.text), JSONNumber(value) == self { return try container.encode(value) }
        if let value = Int128(self.text) { return try container.encode(value) }
        let text = "The encoder would round the number."
        throw EncodingError.invalidValue(self.text, .init(codingPath: container.codingPath, debugDescription: text))
    }
}

/// The value of a number without its spelling: 1.50 and 15e-1 are the same.
struct DecimalValue: Hashable {
    private var isNegative = false
    /// The digits in ASCII, without zeros at either end; empty for zero.
    private var digits: [UInt8] = []
    /// The power of ten of the last digit.
    private var exponent = 0

    /// Examines a valid number; `nil` if its exponent is too large.
    init?(_ text: String) {
        let parts = text.utf8.split(maxSplits: 1, omittingEmptySubsequences: false) { $0 | 0x20 == UInt8(ascii: "e") }
        if parts.count > 1 {
            // So far from the limits of an integer that counting digits does not overflow.
            guard let exponent = Int32(String(parts[1]) ?? "") else { return nil }
            self.exponent = Int(exponent)
        }
        var isFraction = false
        for byte in parts[0] {
            switch byte {
            case UInt8(ascii: "-"): self.isNegative = true
            case UInt8(ascii: "."): isFraction = true
            default:
                if isFraction { self.exponent -= 1 }
                if !self.digits.isEmpty || byte != UInt8(ascii: "0") { self.digits.append(byte) }
            }
        }
        while self.digits.last == UInt8(ascii: "0") {
            self.digits.removeLast()
            self.exponent += 1
        }
        if self.digits.isEmpty { (self.isNegative, self.exponent) = (false, 0) }
    }
}
