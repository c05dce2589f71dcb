// SPDX-License-Identifier: Apache-2.0

import APNSWire
import JSON

/// A JSON object on one line, with its members in insertion order.
struct JSONObjectText {
    private var members = ""

    /// The whole object.
    var text: String { "{\(self.members)}" }

    /// Adds a member with a JSON value; `nil` adds nothing.
    mutating func add(_ name: String, json: String?) {
        guard let json else { return }
        if !self.members.isEmpty { self.members += "," }
        self.members += "\"\(name)\":\(json)"
    }

    /// Adds a member with a text; `nil` adds nothing.
    mutating func add(_ name: String, _ text: String?) {
        self.add(name, json: text.map(JSONWriter.quoted))
    }

    /// Adds a member with a number; `nil` adds nothing.
    mutating func add(_ name: String, _ number: (some BinaryInteger)?) {
        self.add(name, json: number.map { "\($0)" })
    }

    /// Adds a Boolean member.
    mutating func add(_ name: String, _ isTrue: Bool) {
        self.add(name, json: isTrue ? "true" : "false")
    }

    /// Adds a member with a time in milliseconds since 1970 (UTC); `nil` adds nothing.
    mutating func add(_ name: String, time milliseconds: UInt64?) {
        self.add(name, milliseconds.map(Self.time))
    }

    /// Adds a member with an array of JSON texts.
    mutating func add(_ name: String, elements: some Sequence<String>) {
        self.add(name, json: "[\(elements.joined(separator: ","))]")
    }

    /// Formats a time as `2026-01-05T10:00:00.123Z`.
    static func time(_ milliseconds: UInt64) -> String {
        let fraction = String(milliseconds % 1000 + 1000).dropFirst()
        return "\(ISO8601Time.text(Int64(clamping: milliseconds / 1000)).dropLast()).\(fraction)Z"
    }
}
