// SPDX-License-Identifier: Apache-2.0

import APNSWire
import APNSJSON

/// The fields of a message of the binary protocol, as far as they arrived and can be parsed.
struct BinaryFrameText {
    private enum Content { case number, hexadecimal, text }

    private let bytes: [UInt8]
    private var fields: [JSONObject] = []
    private var offset = 0

    init(_ bytes: [UInt8]) {
        self.bytes = bytes
        switch self.number("command", 1) {
        case 0: self.readTokenAndPayload()
        case 1:
            self.number("identifier", 4)
            self.number("expiry", 4)
            self.readTokenAndPayload()
        case 2:
            self.number("frameLength", 4)
            self.readItems()
        default: break
        }
    }

    private mutating func readTokenAndPayload() {
        if let count = self.number("tokenLength", 2) { self.add("token", count, .hexadecimal) }
        if let count = self.number("payloadLength", 2) { self.add("payload", count, .text) }
    }

    private mutating func readItems() {
        while let item = self.number("itemID", 1), let count = self.number("itemLength", 2) {
            switch item {
            case 1: self.add("token", count, .hexadecimal)
            case 2: self.add("payload", count, .text)
            case 3: self.add("identifier", count, .number)
            case 4: self.add("expiry", count, .number)
            case 5: self.add("priority", count, .number)
            default: self.add("item", count, .hexadecimal)
            }
        }
    }

    /// Reads a number; `nil` if its bytes are incomplete.
    @discardableResult
    private mutating func number(_ name: String, _ count: Int) -> Int? {
        guard self.offset + count <= self.bytes.count else { return nil }
        let value = self.bytes[self.offset..<(self.offset + count)].reduce(0) { $0 << 8 | Int($1) }
        self.add(name, count, .number)
        return value
    }

    private mutating func add(_ name: String, _ count: Int, _ content: Content) {
        let bytes = self.bytes[self.offset..<min(self.offset + count, self.bytes.count)]
        guard !bytes.isEmpty || count == 0 else { return }
        let field = JSONObject { field in
            field.add("name", name)
            field.add("offset", self.offset)
            field.add("length", bytes.count)
            switch content {
            case .number where bytes.count <= 4: field.add("value", bytes.reduce(0) { $0 << 8 | Int($1) })
            case .number, .hexadecimal: field.add("value", Hexadecimal.text(bytes))
            case .text: field.add("value", String(decoding: bytes, as: UTF8.self))
            }
        }
        self.fields.append(field)
        self.offset += bytes.count
    }

    var json: JSONObject {
        JSONObject { object in
            object.add("hex", Hexadecimal.text(self.bytes))
            object.add("fields", elements: self.fields)
        }
    }
}
