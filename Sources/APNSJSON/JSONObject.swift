// SPDX-License-Identifier: Apache-2.0

/// Writes a JSON object on one line, with its members in the order in which they are added.
///
/// The caller adds each name once.
package struct JSONObject: Sendable {
    /// The object without its closing brace.
    private var open: [UInt8] = [UInt8(ascii: "{")]

    /// Enough for most objects, so that they grow once.
    private static let byteCountUsual = 256

    /// Begins an object without members.
    package init() { self.open.reserveCapacity(Self.byteCountUsual) }

    /// Writes a whole object.
    package init(_ write: (inout JSONObject) -> Void) {
        self.init()
        write(&self)
    }

    /// The object in UTF-8.
    package var bytes: [UInt8] { self.open + CollectionOfOne(UInt8(ascii: "}")) }

    /// The object as text.
    package var text: String { String(decoding: self.bytes, as: UTF8.self) }

    /// Adds a member whose value is JSON already; `nil` adds nothing.
    package mutating func add(_ name: String, json: String?) {
        guard let json else { return }
        self.begin(name)
        self.open.append(contentsOf: json.utf8)
    }

    /// Adds a member with a text; `nil` adds nothing.
    package mutating func add(_ name: String, _ text: String?) {
        guard let text else { return }
        self.begin(name)
        self.append(quoted: text)
    }

    /// Adds a member with a number; `nil` adds nothing.
    package mutating func add(_ name: String, _ number: (some BinaryInteger)?) {
        self.add(name, json: number.map { "\($0)" })
    }

    /// Adds a Boolean member.
    package mutating func add(_ name: String, _ isTrue: Bool) { self.add(name, json: isTrue ? "true" : "false") }

    /// Adds a member with an object; `nil` adds nothing.
    package mutating func add(_ name: String, _ object: JSONObject?) {
        guard let object else { return }
        self.begin(name)
        self.open.append(contentsOf: object.bytes)
    }

    /// Adds the members of an object.
    package mutating func add(membersOf object: JSONObject) {
        let members = object.open.dropFirst()
        guard !members.isEmpty else { return }
        if self.open.count > 1 { self.open.append(UInt8(ascii: ",")) }
        self.open.append(contentsOf: members)
    }

    /// Adds a member with an array of values that are JSON already.
    package mutating func add(_ name: String, elements: some Sequence<String>) {
        self.add(name, json: "[\(elements.joined(separator: ","))]")
    }

    /// Adds a member with an array of objects.
    package mutating func add(_ name: String, elements: some Sequence<JSONObject>) {
        self.add(name, elements: elements.map(\.text))
    }

    /// Adds a member with an array of texts.
    package mutating func add(_ name: String, texts: some Sequence<String>) {
        self.add(name, elements: texts.map(JSONWriter.quoted))
    }

    private mutating func begin(_ name: String) {
        if self.open.count > 1 { self.open.append(UInt8(ascii: ",")) }
        self.append(quoted: name)
        self.open.append(UInt8(ascii: ":"))
    }

    private mutating func append(quoted text: String) {
        guard text.utf8.allSatisfy({ JSONWriter.escapedByteCount($0) == 1 }) else {
            return self.open.append(contentsOf: JSONWriter.quoted(text).utf8)
        }
        self.open.append(UInt8(ascii: "\""))
        self.open.append(contentsOf: text.utf8)
        self.open.append(UInt8(ascii: "\""))
    }
}
