// SPDX-License-Identifier: Apache-2.0

/// A mutable JSON value; the members of an object keep the order in which they were added.
package final class JSONNode {
    package enum Content {
        /// Nothing was written; it is encoded as an empty object.
        case empty
        /// The text of `null`, a boolean or a number.
        case scalar(String)
        case string(String)
        case array([JSONNode])
        case object([(name: String, node: JSONNode)])
    }

    var content: Content

    package init(_ content: Content = .empty) { self.content = content }

    /// Adds a member to an object; a member of the same name is replaced.
    func add(_ name: String) -> JSONNode {
        let node = JSONNode()
        var members: [(name: String, node: JSONNode)] = []
        if case .object(let present) = self.content { members = present }
        self.content = .empty
        if let index = members.firstIndex(where: { $0.name == name }) {
            members[index].node = node
        } else {
            members.append((name, node))
        }
        self.content = .object(members)
        return node
    }

    /// Adds an element to an array.
    func add() -> JSONNode {
        let node = JSONNode()
        var elements: [JSONNode] = []
        if case .array(let present) = self.content { elements = present }
        self.content = .empty
        elements.append(node)
        self.content = .array(elements)
        return node
    }

    /// How many elements an array has.
    var elementCount: Int {
        guard case .array(let elements) = self.content else { return 0 }
        return elements.count
    }

    /// Appends the JSON text in UTF-8, without white space.
    package func write(to bytes: inout [UInt8]) {
        switch self.content {
        case .empty: bytes.append(contentsOf: "{}".utf8)
        case .scalar(let text): bytes.append(contentsOf: text.utf8)
        case .string(let text): bytes.append(contentsOf: JSONWriter.quoted(text).utf8)
        case .array(let elements):
            bytes.append(UInt8(ascii: "["))
            for (index, element) in elements.enumerated() {
                if index > 0 { bytes.append(UInt8(ascii: ",")) }
                element.write(to: &bytes)
            }
            bytes.append(UInt8(ascii: "]"))
        case .object(let members):
            bytes.append(UInt8(ascii: "{"))
            for (index, member) in members.enumerated() {
                if index > 0 { bytes.append(UInt8(ascii: ",")) }
                bytes.append(contentsOf: JSONWriter.quoted(member.name).utf8)
                bytes.append(UInt8(ascii: ":"))
                member.node.write(to: &bytes)
            }
            bytes.append(UInt8(ascii: "}"))
        }
    }

    /// The resulting value.
    var value: JSONValue {
        switch self.content {
        case .empty: .object([:])
        case .scalar("null"): .null
        case .scalar("true"): .boolean(true)
        case .scalar("false"): .boolean(false)
        case .scalar(let text): .number(JSONNumber(scanned: text))
        case .string(let text): .string(text)
        case .array(let elements): .array(elements.map(\.value))
        case .object(let members):
            .object(Dictionary(members.map { ($0.name, $0.node.value) }) { _, last in last })
        }
    }
}
