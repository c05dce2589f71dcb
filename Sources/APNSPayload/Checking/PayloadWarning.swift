// SPDX-License-Identifier: Apache-2.0

/// What a payload may say, and is hardly what its writer meant.
///
/// Unlike ``PayloadProblem``, its description has the name of a key as the payload writes it, since that is what is to
/// be looked for; at most ``nameCharacterCountMax`` characters of it, and none that a terminal would obey.
public struct PayloadWarning: Hashable, Sendable {
    /// What is odd.
    ///
    /// There may be more in later versions.
    @nonexhaustive
    public enum Kind: Hashable, Sendable {
        /// A key stands beside `aps`, and the system looks for it in there.
        case outsideAPS(PayloadKey)
        /// A key that the system does not know has nearly the name of one that it knows.
        case misspelt(PayloadKey)
        /// The value of a known key is not one that it can have; `expected` says which it can have.
        case unexpectedValue(expected: String)
        /// Arguments for a localized text stand there without the key of the text.
        case argumentsWithoutKey(PayloadKey)
        /// A text has no characters.
        case emptyText
        /// Nothing in the payload is for the system to show, to play or to wake an app for.
        case noEffect
    }

    /// How many characters of a name are shown.
    public static let nameCharacterCountMax = 40

    /// Where it is: the names of the keys from the outermost one on, with periods between them; empty for the payload
    /// as a whole.
    public let path: String
    /// What is odd.
    public let kind: Kind

    init(_ kind: Kind, at path: String = "") {
        self.path = path
        self.kind = kind
    }
}

extension PayloadWarning: CustomStringConvertible {
    /// The place and what is odd, as in `aps.bagde is not known; aps.badge is`.
    public var description: String {
        let place = Self.plain(self.path)
        return switch self.kind {
        case .outsideAPS(let key): "\(place) is outside aps, where no device looks for it; it should be \(key)"
        case .misspelt(let key): "\(place) is not known; \(key) is"
        case .unexpectedValue(let expected): "\(place) should be \(expected)"
        case .argumentsWithoutKey(let key): "\(place) is of no use without \(key)"
        case .emptyText: "\(place) is empty"
        case .noEffect: "there is no alert, badge or sound in aps, nor content-available: a device does nothing"
        }
    }

    /// A name that a terminal can show.
    private static func plain(_ name: String) -> String {
        let shown = name.unicodeScalars.prefix(Self.nameCharacterCountMax).map { scalar in
            switch scalar.properties.generalCategory {
            case .control, .format, .lineSeparator, .paragraphSeparator, .surrogate, .privateUse, .unassigned: "?"
            default: String(scalar)
            }
        }
        let isShort = name.unicodeScalars.count <= Self.nameCharacterCountMax
        return shown.joined() + (isShort ? "" : "…")
    }
}

extension Payload {
    /// Looks for what is legal in the payload and is hardly what its writer meant, such as an `alert` outside of `aps`.
    ///
    /// - Returns: what was found, in the order of the payload's levels and of the names in each; empty for nothing.
    /// - Throws: ``PayloadProblem`` for what is no JSON object. Whether the payload passes ``check(rules:)`` is not
    ///   looked at.
    public func warnings() throws(PayloadProblem) -> [PayloadWarning] {
        try self.check(rules: PayloadRules(byteCountMax: .max, checksKnownKeys: false))
        guard case .object(let members) = try self.value() else { return [] }
        return PayloadWarnings(members).found
    }
}

/// Collects what is odd in a payload.
private struct PayloadWarnings {
    private(set) var found: [PayloadWarning] = []

    /// Keys that mean what they mean in `aps` for every app; others, such as `category`, may be an app's own.
    private static let unmistakable: [PayloadKey] = [
        .alert, .badge, .sound, .contentAvailable, .mutableContent, .threadID, .interruptionLevel,
    ]

    init(_ members: [String: JSONValue]) {
        self.lookOutside(members)
        guard case .object(let aps)? = members["aps"] else {
            // Wallet sends an empty object, and device management one of its own.
            let hasOther = self.found.isEmpty && !members.isEmpty && members["mdm"] == nil
            if hasOther { self.add(.noEffect) }
            return
        }
        self.lookForMisspelt(aps, in: "aps")
        self.lookAtValues(aps)
        if case .object(let alert)? = aps["alert"] {
            self.lookForMisspelt(alert, in: "aps.alert")
            self.lookAtTexts(alert)
        }
        if case .object(let sound)? = aps["sound"] {
            self.lookForMisspelt(sound, in: "aps.sound")
            self.expect(sound["volume"], .soundVolume, "a number from 0 to 1") { (0...1).contains($0) }
            self.expect(sound["critical"], .soundCritical, "1 or 0") { $0 == 0 || $0 == 1 }
        }
        let effects: [PayloadKey] = [.alert, .badge, .sound, .contentAvailable, .contentState, .event]
        if self.found.isEmpty, !effects.contains(where: { aps[$0.name] != nil }) { self.add(.noEffect) }
    }

    private mutating func add(_ kind: PayloadWarning.Kind, at path: String = "") {
        self.found.append(PayloadWarning(kind, at: path))
    }

    /// Looks beside `aps`.
    private mutating func lookOutside(_ members: [String: JSONValue]) {
        for name in members.keys.sorted() where name != "aps" {
            if let key = Self.unmistakable.first(where: { $0.name == name }), members["aps"]?[name] == nil {
                self.add(.outsideAPS(key), at: name)
            } else if members["aps"] == nil, Self.isNear(name, "aps") {
                self.add(.misspelt(.aps), at: name)
            }
        }
    }

    /// Looks for names in an object that are nearly those of known keys.
    private mutating func lookForMisspelt(_ members: [String: JSONValue], in path: String) {
        let keys = PayloadKey.allCases.filter { $0.description.hasPrefix(path + ".") && $0.enclosing == path }
        for name in members.keys.sorted() where !keys.contains(where: { $0.name == name }) {
            let near = keys.filter { Self.isNear(name, $0.name) }
            if let key = near.min(by: { Self.distance(name, $0.name) < Self.distance(name, $1.name) }) {
                self.add(.misspelt(key), at: "\(path).\(name)")
            }
        }
    }

    private mutating func lookAtValues(_ aps: [String: JSONValue]) {
        if aps["alert"]?.string == "" { self.add(.emptyText, at: "aps.alert") }
        self.expect(aps["badge"], .badge, "a whole number, 0 or more") { $0 >= 0 && $0 == $0.rounded() }
        for key in [PayloadKey.contentAvailable, .mutableContent] {
            self.expect(aps[key.name], key, "1 or 0") { $0 == 0 || $0 == 1 }
        }
        self.expect(aps["relevance-score"], .relevanceScore, "a number from 0 to 1, or more for a Live Activity") {
            $0 >= 0
        }
        let levels = ["passive", "active", "time-sensitive", "critical"]
        if let level = aps["interruption-level"]?.string, !levels.contains(level) {
            self.add(
                .unexpectedValue(expected: "passive, active, time-sensitive or critical"),
                at: "aps.interruption-level"
            )
        }
    }

    private mutating func lookAtTexts(_ alert: [String: JSONValue]) {
        for key in [PayloadKey.alertTitle, .alertSubtitle, .alertBody] where alert[key.name]?.string == "" {
            self.add(.emptyText, at: "\(key)")
        }
        for (arguments, key) in [
            (PayloadKey.alertLocArguments, PayloadKey.alertLocKey), (.alertTitleLocArguments, .alertTitleLocKey),
            (.alertSubtitleLocArguments, .alertSubtitleLocKey),
        ] where alert[arguments.name] != nil && alert[key.name] == nil {
            self.add(.argumentsWithoutKey(key), at: "\(arguments)")
        }
    }

    private mutating func expect(
        _ value: JSONValue?,
        _ key: PayloadKey,
        _ expected: String,
        _ isExpected: (Double) -> Bool
    ) {
        guard case .number(let number)? = value, !(Double(number.text).map(isExpected) ?? false) else { return }
        self.add(.unexpectedValue(expected: expected), at: "\(key)")
    }

    // MARK: Names

    /// A name as it is compared: without what people leave out or write in another way.
    private static func folded(_ name: String) -> String {
        String(name.lowercased().filter { $0 != "-" && $0 != "_" })
    }

    private static func distance(_ name: String, _ known: String) -> Int {
        self.folded(name).editDistance(to: self.folded(known))
    }

    /// Whether a name is nearly a known one: by one character where that is short, by two where it is long.
    private static func isNear(_ name: String, _ known: String) -> Bool {
        // No longer name is near, and peers should not choose how long this takes.
        guard name.utf8.count <= known.utf8.count + 4 else { return false }
        return self.distance(name, known) <= (known.count > 5 ? 2 : 1)
    }
}

extension PayloadKey {
    /// The last part of the path: the name that stands in the payload.
    fileprivate var name: String { String(self.description.split(separator: ".").last ?? "") }

    /// The path without its last part.
    fileprivate var enclosing: String {
        self.description.split(separator: ".").dropLast().joined(separator: ".")
    }
}
