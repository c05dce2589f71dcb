// SPDX-License-Identifier: Apache-2.0

import TestSupport

/// Generates random payloads, with random white space.
struct JSONGenerator {
    var random: SplitMix64
    /// The chance of white space at each place where it is permitted, in percent.
    var whiteSpacePercent = 30

    init(seed: UInt64) {
        self.random = SplitMix64(seed: seed)
    }

    /// A payload with known keys, valid and invalid ones, and unknown ones.
    mutating func payload() -> String {
        self.space() + self.object(depth: 0, path: "") + self.space()
    }

    private mutating func chance(_ percent: Int) -> Bool {
        Int.random(in: 0..<100, using: &self.random) < percent
    }

    private mutating func space() -> String {
        guard self.chance(self.whiteSpacePercent) else { return "" }
        return String((0..<Int.random(in: 1...4, using: &self.random)).map { _ in self.pick([" ", "\t", "\n", "\r"]) })
    }

    private mutating func pick<Item>(_ items: [Item]) -> Item {
        items[Int.random(in: 0..<items.count, using: &self.random)]
    }

    private mutating func object(depth: Int, path: String) -> String {
        var members: [String] = []
        var keys: Set<String> = []
        for _ in 0..<Int.random(in: 0...5, using: &self.random) {
            let known = PayloadKeyTable.kinds.keys
                .filter { $0.hasPrefix(path) && !$0.dropFirst(path.count).contains(".") }.sorted()
            let key: String
            var value: String?
            if !known.isEmpty, path.isEmpty || path.hasPrefix("aps"), self.chance(75) {
                let name = self.pick(known)
                key = String(name.dropFirst(path.count))
                value = self.value(of: name, depth: depth)
            } else {
                key = String((0..<Int.random(in: 0...20, using: &self.random)).map { _ in self.pick(Array("aäz-9€")) })
            }
            guard keys.insert(key).inserted || self.chance(5) else { continue }
            let printed = value ?? self.value(depth: depth + 1)
            members.append(self.space() + self.string(key) + self.space() + ":" + self.space() + printed + self.space())
        }
        return "{" + (members.isEmpty ? self.space() : members.joined(separator: ",")) + "}"
    }

    /// Usually a value of a kind that the key may have.
    private mutating func value(of name: String, depth: Int) -> String? {
        guard self.chance(95), let kinds = PayloadKeyTable.kinds[name] else { return nil }
        switch self.pick(kinds) {
        case "object": return self.object(depth: depth + 1, path: name + ".")
        case "array": return "[" + self.space() + self.string("one") + self.space() + "," + self.string("€") + "]"
        case "number": return self.number()
        case "null": return "null"
        case "boolean": return "true"
        default: return self.string(self.text())
        }
    }

    mutating func value(depth: Int) -> String {
        switch Int.random(in: 0..<(depth > 6 ? 5 : 8), using: &self.random) {
        case 0: return "null"
        case 1: return self.pick(["true", "false"])
        case 2: return self.number()
        case 3, 4: return self.string(self.text())
        case 5: return self.object(depth: depth, path: "-")
        default:
            let elements = (0..<Int.random(in: 0...4, using: &self.random)).map { _ in
                self.space() + self.value(depth: depth + 1) + self.space()
            }
            return "[" + (elements.isEmpty ? self.space() : elements.joined(separator: ",")) + "]"
        }
    }

    private mutating func number() -> String {
        self.pick(["0", "-0", "1", "7", "12345", "-3.25", "1e3", "0.5E-2", "1E+2", "100000000000", "0.0"])
    }

    mutating func text() -> String {
        let alphabet: [Character] = Array(
            "abc xyz,:{}[]\"\\/\u{8}\u{C}\n\r\t\u{0}\u{1F}\u{7F}äß€\u{FFFD}日本語😀👩‍👧\u{10FFFF}\u{D7FF}\u{E000}"
        )
        return String((0..<Int.random(in: 0...24, using: &self.random)).map { _ in self.pick(alphabet) })
    }

    /// Encodes a string, each character in one of the ways that JSON permits.
    mutating func string(_ text: String) -> String {
        let short: [Unicode.Scalar: String] = [
            "\"": "\\\"", "\\": "\\\\", "/": "\\/", "\u{8}": "\\b", "\u{C}": "\\f", "\n": "\\n", "\r": "\\r",
            "\t": "\\t",
        ]
        var printed = "\""
        for scalar in text.unicodeScalars {
            let mustEscape = scalar < " " || scalar == "\"" || scalar == "\\"
            if let short = short[scalar], mustEscape || self.chance(20), self.chance(80) {
                printed += short
            } else if mustEscape || self.chance(10) {
                for unit in String(scalar).utf16 {
                    let digits = String(unit, radix: 16, uppercase: self.chance(50))
                    printed += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
                }
            } else {
                printed.unicodeScalars.append(scalar)
            }
        }
        return printed + "\""
    }
}
