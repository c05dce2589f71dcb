// SPDX-License-Identifier: Apache-2.0

import APNSPayload
import APNSWire

/// A JSON object as text in one line, whose members stand in the order in which they are added.
struct JSONObjectText {
    private var members = ""

    /// The whole object.
    var text: String { "{\(self.members)}" }

    /// Adds a member whose value is JSON text already; no member for `nil`.
    mutating func add(_ name: StaticString, json: String?) {
        guard let json else { return }
        if !self.members.isEmpty { self.members += "," }
        self.members += "\"\(name)\":\(json)"
    }

    /// Adds a member with a text; no member for `nil`.
    mutating func add(_ name: StaticString, _ text: String?) {
        self.add(name, json: text.map(JSONWriter.quoted))
    }

    /// Adds a member with a number; no member for `nil`.
    mutating func add(_ name: StaticString, _ number: (some BinaryInteger)?) {
        self.add(name, json: number.map { "\($0)" })
    }

    /// Adds a member that is true or false.
    mutating func add(_ name: StaticString, _ isTrue: Bool) {
        self.add(name, json: isTrue ? "true" : "false")
    }

    /// Adds a member with a moment, in milliseconds since 1970 (UTC); no member for `nil`.
    mutating func add(_ name: StaticString, time milliseconds: UInt64?) {
        self.add(name, milliseconds.map(Self.time))
    }

    /// Adds a member with an array of JSON texts.
    mutating func add(_ name: StaticString, elements: some Sequence<String>) {
        self.add(name, json: "[\(elements.joined(separator: ","))]")
    }

    /// A moment as `2026-01-05T10:00:00.123Z`.
    static func time(_ milliseconds: UInt64) -> String {
        let fraction = String(milliseconds % 1000 + 1000).dropFirst()
        return "\(ISO8601Time.text(Int64(clamping: milliseconds / 1000)).dropLast()).\(fraction)Z"
    }
}
