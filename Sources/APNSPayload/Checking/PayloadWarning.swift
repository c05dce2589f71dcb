// SPDX-License-Identifier: Apache-2.0

import APNSJSON

/// Something in a payload that is valid, but probably a mistake.
///
/// Unlike that of ``PayloadProblem``, the description contains the name of a key as in the payload, so that you can
/// search for it: at most ``nameCharacterCountMax`` characters, without control characters.
public struct PayloadWarning: Hashable, Sendable {
    /// What is suspicious.
    ///
    /// Later versions may add cases.
    @nonexhaustive
    public enum Kind: Hashable, Sendable {
        /// A key is next to `aps`, but the system expects it inside.
        case outsideAPS(PayloadKey)
        /// A key is in another object than the one where the system expects it.
        case misplaced(PayloadKey)
        /// A key that the others require is missing.
        case missing(PayloadKey)
        /// An unknown key has almost the name of a known one.
        case misspelled(PayloadKey)
        /// The value of a known key is invalid; `expected` describes the valid values.
        case unexpectedValue(expected: String)
        /// Arguments for a localized text without the key of the text.
        case argumentsWithoutKey(PayloadKey)
        /// A text is empty.
        case emptyText
        /// The payload contains nothing to show or play, and does not wake the app.
        case noEffect
    }

    /// The maximum number of characters of a name in the description.
    public static let nameCharacterCountMax = 40

    /// The path: the names of the keys from the outermost one, separated by periods; empty for the payload itself.
    public let path: String
    /// What is suspicious.
    public let kind: Kind

    init(_ kind: Kind, at path: String = "") {
        self.path = path
        self.kind = kind
    }
}

extension PayloadWarning: CustomStringConvertible {
    /// The path and the problem, as in `aps.bagde is unknown; did you mean aps.badge?`.
    public var description: String { self.text(place: Self.plain(self.path)) }

    /// The same without the name of an unknown key, which may be private, for logs.
    package var textOfKnownKeys: String {
        switch self.kind {
        case .outsideAPS, .misspelled: self.text(place: "a key")
        default: self.description
        }
    }

    private func text(place: String) -> String {
        switch self.kind {
        case .outsideAPS(let key): "\(place) is outside aps and has no effect; did you mean \(key)?"
        case .misplaced(let key): "\(place) has no effect; did you mean \(key)?"
        case .missing: "\(place) is missing; a Live Activity requires it"
        case .misspelled(let key): "\(place) is unknown; did you mean \(key)?"
        case .unexpectedValue(let expected): "\(place) should be \(expected)"
        case .argumentsWithoutKey(let key): "\(place) has no effect without \(key)"
        case .emptyText: "\(place) is empty"
        case .noEffect: "the payload has no effect: aps has no alert, badge, sound or content-available"
        }
    }

    /// A name without control characters.
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
    /// Finds what is valid in the payload but probably a mistake, such as an `alert` outside `aps`.
    ///
    /// - Returns: the warnings, ordered by level and then by name; empty if there are none.
    /// - Throws: ``PayloadProblem`` if the payload is not a JSON object. This does not check the payload against
    ///   ``PayloadRules``.
    public func warnings() throws(PayloadProblem) -> [PayloadWarning] {
        try self.check(rules: PayloadRules(byteCountMax: .max, checksKnownKeys: false))
        guard case .object(let members) = try self.value() else { return [] }
        return PayloadWarnings(members).found
    }
}

/// Collects the warnings about a payload.
private struct PayloadWarnings {
    private(set) var found: [PayloadWarning] = []

    /// Keys that only `aps` has; others, such as `category`, may be an app's own.
    private static let unmistakable: [PayloadKey] = [
        .alert, .badge, .sound, .contentAvailable, .mutableContent, .threadID, .interruptionLevel,
    ]

    init(_ members: [String: JSONValue]) {
        self.checkOutside(members)
        guard case .object(let aps)? = members["aps"] else {
            // Wallet sends an empty object, and device management its own.
            let hasOther = self.found.isEmpty && !members.isEmpty && members["mdm"] == nil
            if hasOther { self.add(.noEffect) }
            return
        }
        self.findMisspelled(aps, in: "aps")
        self.checkValues(aps)
        self.checkLiveActivity(aps)
        if case .object(let alert)? = aps["alert"] {
            for key in Self.unmistakable where key != .alert && alert[key.name] != nil {
                self.add(.misplaced(key), at: "aps.alert.\(key.name)")
            }
            self.findMisspelled(alert, in: "aps.alert")
            self.checkTexts(alert)
        }
        if case .object(let sound)? = aps["sound"] {
            self.findMisspelled(sound, in: "aps.sound")
            self.expect(sound["volume"], .soundVolume, "a number from 0 to 1") { (0...1).contains($0) }
            self.expect(sound["critical"], .soundCritical, "1 or 0") { $0 == 0 || $0 == 1 }
        }
        let effects: [PayloadKey] = [
            .alert, .badge, .sound, .contentAvailable, .contentChanged, .contentState, .event,
        ]
        if self.found.isEmpty, !effects.contains(where: { aps[$0.name] != nil }) { self.add(.noEffect) }
    }

    private mutating func add(_ kind: PayloadWarning.Kind, at path: String = "") {
        self.found.append(PayloadWarning(kind, at: path))
    }

    /// Checks the keys next to `aps`.
    private mutating func checkOutside(_ members: [String: JSONValue]) {
        for name in members.keys.sorted() where name != "aps" {
            if let key = Self.unmistakable.first(where: { $0.name == name }), members["aps"]?[name] == nil {
                self.add(.outsideAPS(key), at: name)
            } else if members["aps"] == nil, NearestName.find(name, in: ["aps"], .typingErrors) != nil {
                self.add(.misspelled(.aps), at: name)
            }
        }
    }

    /// Finds names in an object that are similar to those of known keys.
    private mutating func findMisspelled(_ members: [String: JSONValue], in path: String) {
        let keys = PayloadKey.allCases.filter { $0.description.hasPrefix(path + ".") && $0.enclosing == path }
        for name in members.keys.sorted() where !keys.contains(where: { $0.name == name }) {
            let near = NearestName.find(name, in: keys.map(\.name), .typingErrors)
            if let key = keys.first(where: { $0.name == near }) {
                self.add(.misspelled(key), at: "\(path).\(name)")
            }
        }
    }

    private mutating func checkValues(_ aps: [String: JSONValue]) {
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

    private mutating func checkLiveActivity(_ aps: [String: JSONValue]) {
        let events = ["start", "update", "end"]
        let event = aps["event"]?.string
        if let event, !events.contains(event) {
            self.add(.unexpectedValue(expected: "start, update or end"), at: "aps.event")
        }
        let keys: [PayloadKey] = [.contentState, .staleDate, .dismissalDate, .attributesType, .attributes]
        let isLiveActivity = keys.contains { aps[$0.name] != nil } || event.map(events.contains) == true
        guard isLiveActivity else { return }
        let required = [.event, .timestamp] + (event == "start" ? [PayloadKey.attributesType, .attributes] : [])
        for key in required where aps[key.name] == nil { self.add(.missing(key), at: "\(key)") }
    }

    private mutating func checkTexts(_ alert: [String: JSONValue]) {
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
}

extension PayloadKey {
    /// The last part of the path: the name in the payload.
    fileprivate var name: String { String(self.description.split(separator: ".").last ?? "") }

    /// The path without its last part.
    fileprivate var enclosing: String {
        self.description.split(separator: ".").dropLast().joined(separator: ".")
    }
}
