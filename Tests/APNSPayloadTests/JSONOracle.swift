// SPDX-License-Identifier: Apache-2.0

/// A JSON value with its members in order, so that a duplicate key is detected.
indirect enum GeneratedJSON: Equatable {
    case object([Member])
    case array([GeneratedJSON])
    case string([Unicode.Scalar])
    case number(String)
    case boolean(Bool)
    case null

    struct Member: Equatable {
        let key: [Unicode.Scalar]
        let value: GeneratedJSON
    }
}

/// A slow and simple reference implementation: recursive, on code points instead of bytes, building a tree first.
struct JSONOracle {
    private var scalars: ArraySlice<Unicode.Scalar>

    struct Refusal: Error {}

    /// Parses a whole text, or returns `nil`.
    static func parse(_ bytes: [UInt8]) -> GeneratedJSON? {
        guard let text = String(validating: bytes, as: UTF8.self) else { return nil }
        var oracle = Self(scalars: Array(text.unicodeScalars)[...])
        guard let value = try? oracle.value(depth: 0) else { return nil }
        oracle.space()
        return oracle.scalars.isEmpty ? value : nil
    }

    private mutating func space() {
        while let scalar = self.scalars.first, " \t\r\n".unicodeScalars.contains(scalar) { self.scalars.removeFirst() }
    }

    private mutating func take(_ text: String) throws {
        guard self.scalars.starts(with: text.unicodeScalars) else { throw Refusal() }
        self.scalars.removeFirst(text.unicodeScalars.count)
    }

    private mutating func value(depth: Int) throws -> GeneratedJSON {
        self.space()
        switch self.scalars.first {
        case "{":
            guard depth < 64 else { throw Refusal() }
            return .object(
                try self.list("{", "}") { oracle in
                    oracle.space()
                    let key = try oracle.string()
                    oracle.space()
                    try oracle.take(":")
                    return .init(key: key, value: try oracle.value(depth: depth + 1))
                }
            )
        case "[":
            guard depth < 64 else { throw Refusal() }
            return .array(try self.list("[", "]") { try $0.value(depth: depth + 1) })
        case "\"":
            return .string(try self.string())
        case "t":
            try self.take("true")
            return .boolean(true)
        case "f":
            try self.take("false")
            return .boolean(false)
        case "n":
            try self.take("null")
            return .null
        default:
            return .number(try self.number())
        }
    }

    private mutating func list<Item>(
        _ open: String,
        _ close: String,
        item: (inout Self) throws -> Item
    ) throws -> [Item] {
        try self.take(open)
        self.space()
        var items: [Item] = []
        if (try? self.take(close)) != nil { return items }
        while true {
            items.append(try item(&self))
            self.space()
            if (try? self.take(close)) != nil { return items }
            try self.take(",")
        }
    }

    private mutating func string() throws -> [Unicode.Scalar] {
        try self.take("\"")
        var units: [UInt16] = []
        while let scalar = self.scalars.popFirst() {
            switch scalar {
            case "\"":
                // An unpaired surrogate cannot be decoded, so it is refused here.
                guard let text = String(validating: units, as: UTF16.self) else { throw Refusal() }
                return Array(text.unicodeScalars)
            case "\\":
                units.append(try self.escape())
            case ..<" ":
                throw Refusal()
            default:
                units.append(contentsOf: String(scalar).utf16)
            }
        }
        throw Refusal()
    }

    private mutating func escape() throws -> UInt16 {
        guard let scalar = self.scalars.popFirst() else { throw Refusal() }
        let simple: [Unicode.Scalar: UInt16] = [
            "\"": 0x22, "\\": 0x5C, "/": 0x2F, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9,
        ]
        if let unit = simple[scalar] { return unit }
        guard scalar == "u", self.scalars.count >= 4 else { throw Refusal() }
        let digits = self.scalars.prefix(4)
        self.scalars.removeFirst(4)
        guard digits.allSatisfy({ $0.properties.isASCIIHexDigit }) else { throw Refusal() }
        guard let unit = UInt16(String(String.UnicodeScalarView(digits)), radix: 16) else { throw Refusal() }
        return unit
    }

    private mutating func number() throws -> String {
        let before = self.scalars
        if self.scalars.first == "-" { self.scalars.removeFirst() }
        if self.scalars.first == "0" { self.scalars.removeFirst() } else { try self.digits() }
        if self.scalars.first == "." {
            self.scalars.removeFirst()
            try self.digits()
        }
        if self.scalars.first == "e" || self.scalars.first == "E" {
            self.scalars.removeFirst()
            if self.scalars.first == "+" || self.scalars.first == "-" { self.scalars.removeFirst() }
            try self.digits()
        }
        return String(String.UnicodeScalarView(before[before.startIndex..<self.scalars.startIndex]))
    }

    private mutating func digits() throws {
        let digits = self.scalars.prefix { "0"..."9" ~= $0 }
        guard !digits.isEmpty else { throw Refusal() }
        self.scalars.removeFirst(digits.count)
    }
}

extension JSONOracle {
    /// Whether bytes are a valid payload by the tables of the reference, whatever their length.
    static func acceptsPayload(_ bytes: [UInt8]) -> Bool {
        guard case .object(let members)? = self.parse(bytes) else { return false }
        return self.accepts(members, at: "")
    }

    private static func accepts(_ members: [GeneratedJSON.Member], at path: String) -> Bool {
        var seen: Set<String> = []
        for member in members {
            let name = path + String(String.UnicodeScalarView(member.key))
            guard let kinds = PayloadKeyTable.kinds[name] else { continue }
            guard seen.insert(name).inserted, kinds.contains(member.value.kindName) else { return false }
            switch member.value {
            case .object(let inner) where ["aps", "aps.alert", "aps.sound"].contains(name):
                guard self.accepts(inner, at: name + ".") else { return false }
            case .array(let elements):
                guard elements.allSatisfy({ $0.kindName == "string" }) else { return false }
            default:
                break
            }
        }
        return true
    }
}

extension GeneratedJSON {
    /// The name of the kind, as ``PayloadKeyTable`` spells it.
    var kindName: String {
        switch self {
        case .object: "object"
        case .array: "array"
        case .string: "string"
        case .number: "number"
        case .boolean: "boolean"
        case .null: "null"
        }
    }
}
