// SPDX-License-Identifier: Apache-2.0

import APNSWire
import ServiceSupport

/// One key of the configuration file, as the reference shows it.
struct SettingRow: Sendable {
    /// A property of some keys.
    enum Trait: Hashable, Sendable {
        case required
        /// A change takes effect only after a restart.
        case restart
        /// An environment variable overrides the file.
        case variable
    }

    var key: String
    /// The kind of the value, such as "number".
    var kind: String
    /// The valid values, such as "1 to 64"; empty if any is valid.
    var range: String
    var example: String
    var help = ""
    var traits: Set<Trait>
    /// The default, as in a file; `nil` for none, and for sections and lists.
    var standard: String?
    /// The keys of the value, or of each element of a list.
    var rows: [SettingRow]
}

/// How values of a type are read, written and described.
struct SettingKind<Value>: Sendable {
    typealias Reader = @Sendable (YAMLNode, _ current: Value?) throws(YAMLNode.Problem) -> Value
    typealias Writer = @Sendable (Value, _ directory: String) -> YAMLNode?

    var name: String
    var range = ""
    var rows: [SettingRow] = []
    /// Reads a value; a section has the current value of the keys that it omits.
    var read: Reader
    /// Returns the value as in a file, with paths made absolute; `nil` if the file omits the key.
    var write: Writer

    fileprivate func row(_ key: String, _ example: String, _ traits: [SettingRow.Trait]) -> SettingRow {
        SettingRow(key: key, kind: self.name, range: self.range, example: example, traits: Set(traits), rows: self.rows)
    }
}

/// One key of a section of the configuration file: its name, its property, and the kind of its value.
struct Setting<Section>: Sendable {
    var row: SettingRow
    /// The earlier name of the key.
    private(set) var formerKey: String?
    let read: @Sendable (YAMLNode, inout Section) throws(YAMLNode.Problem) -> Void
    let write: @Sendable (Section, _ directory: String) -> YAMLNode?

    /// A key with a default.
    init<Value>(
        _ key: String,
        _ path: any WritableKeyPath<Section, Value> & Sendable,
        _ kind: SettingKind<Value>,
        example: String = "",
        _ traits: SettingRow.Trait...
    ) {
        self.row = kind.row(key, example, traits)
        self.read = { node, section throws(YAMLNode.Problem) in
            section[keyPath: path] = try kind.read(node, section[keyPath: path])
        }
        self.write = { section, directory in kind.write(section[keyPath: path], directory) }
    }

    /// A key without a default.
    init<Value>(
        _ key: String,
        _ path: any WritableKeyPath<Section, Value?> & Sendable,
        _ kind: SettingKind<Value>,
        example: String = "",
        _ traits: SettingRow.Trait...
    ) {
        self.row = kind.row(key, example, traits)
        self.read = { node, section throws(YAMLNode.Problem) in
            section[keyPath: path] = try kind.read(node, section[keyPath: path])
        }
        self.write = { section, directory in section[keyPath: path].flatMap { kind.write($0, directory) } }
    }

    /// Accepts an earlier name of the key, for one version.
    func formerly(_ key: String) -> Self {
        var setting = self
        setting.formerKey = key
        return setting
    }

    /// The value of the key in a section.
    func value(in node: YAMLNode) throws(YAMLNode.Problem) -> YAMLNode? {
        guard let formerKey, let value = node[formerKey] else { return node[self.row.key] }
        guard node[self.row.key] == nil else {
            throw value.problem("the earlier name of \(self.row.key), which is there too; remove it")
        }
        return value
    }

    /// Sets the description in the reference.
    func help(_ text: String) -> Self {
        var setting = self
        setting.row.help = text
        return setting
    }
}

/// The keys of a section of the configuration file, and the rules between them.
struct Settings<Section: Sendable>: Sendable {
    /// Checks a section that was read from a node.
    typealias Check = @Sendable (Section, YAMLNode) throws(YAMLNode.Problem) -> Void

    /// The section with all defaults.
    let standard: Section
    let all: [Setting<Section>]
    private let check: Check

    init(_ standard: Section, _ all: [Setting<Section>], check: @escaping Check = { _, _ in }) {
        self.standard = standard
        self.all = all
        self.check = check
    }

    /// The keys with their defaults.
    var rows: [SettingRow] {
        self.all.map { setting in
            var row = setting.row
            row.standard = setting.write(self.standard, "").flatMap { try? $0.text }
            return row
        }
    }

    func read(_ node: YAMLNode, into current: Section) throws(YAMLNode.Problem) -> Section {
        try node.requireKeys(self.all.map(\.row.key), ignoring: self.all.compactMap(\.formerKey))
        var section = current
        for setting in self.all {
            if let value = try setting.value(in: node) {
                try setting.read(value, &section)
            } else if setting.row.traits.contains(.required) {
                throw node.problem("missing key: \(setting.row.key): \(setting.row.help)")
            }
        }
        try self.check(section, node)
        return section
    }

    func write(_ section: Section, _ directory: String) -> YAMLNode {
        YAMLNode(fields: self.all.map { ($0.row.key, $0.write(section, directory)) })
    }
}

// MARK: Kinds

extension SettingKind<String> {
    static var text: Self {
        Self(name: "text") { node, _ throws(YAMLNode.Problem) in
            try node.text
        } write: { text, _ in
            YAMLNode(text: text)
        }
    }

    /// An empty path is not written: a required one was not read.
    static var path: Self {
        Self(name: "path") { node, _ throws(YAMLNode.Problem) in
            try node.path
        } write: { path, directory in
            path.isEmpty ? nil : YAMLNode(text: path.hasPrefix("/") ? path : "\(directory)/\(path)")
        }
    }
}

extension SettingKind<Bool> {
    static var flag: Self {
        Self(name: "true or false") { node, _ throws(YAMLNode.Problem) in
            try node.isTrue
        } write: { flag, _ in
            YAMLNode(scalar: "\(flag)")
        }
    }
}

extension SettingKind<Int> {
    static func number(_ range: ClosedRange<Int>) -> Self {
        Self(name: "number", range: "\(range.lowerBound) to \(range.upperBound)") { node, _ throws(YAMLNode.Problem) in
            try node.number(range)
        } write: { number, _ in
            YAMLNode(scalar: "\(number)")
        }
    }
}

extension SettingKind<Duration> {
    static func time(_ range: ClosedRange<Duration>) -> Self {
        Self(name: "time", range: "\(Self.text(range.lowerBound)) to \(Self.text(range.upperBound))") {
            node,
            _ throws(YAMLNode.Problem) in
            try node.duration(range)
        } write: { duration, _ in
            YAMLNode(duration)
        }
    }

    /// The duration in the greatest unit that it is a multiple of.
    static func text(_ duration: Duration) -> String {
        let (seconds, attoseconds) = duration.components
        let units: [(name: String, seconds: Int64)] = [("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)]
        guard attoseconds == 0, let unit = units.first(where: { seconds != 0 && seconds % $0.seconds == 0 }) else {
            return seconds == 0 && attoseconds == 0 ? "0s" : "\(Int(duration / .milliseconds(1)))ms"
        }
        return "\(seconds / unit.seconds)\(unit.name)"
    }
}

extension SettingKind where Value: Equatable & Sendable {
    /// One of some words.
    static func oneOf(_ words: [(String, Value)]) -> Self {
        Self(name: "one of", range: words.map(\.0).joined(separator: ", ")) { node, _ throws(YAMLNode.Problem) in
            try node.word(words)
        } write: { value, _ in
            words.first { $0.1 == value }.map { YAMLNode(text: $0.0) }
        }
    }
}

extension SettingKind where Value: RawRepresentable<String> & Equatable & Sendable {
    static func oneOf(_ values: [Value]) -> Self { Self.oneOf(values.map { ($0.rawValue, $0) }) }
}

extension SettingKind where Value: Sendable {
    /// Keys with values.
    static func section(_ settings: Settings<Value>) -> Self {
        Self(name: "section", rows: settings.rows) { node, current throws(YAMLNode.Problem) in
            try settings.read(node, into: current ?? settings.standard)
        } write: { section, directory in
            settings.write(section, directory)
        }
    }

    /// Keys with values, or "off".
    static func sectionOrOff<Section>(_ settings: Settings<Section>) -> Self where Value == Section? {
        Self(name: "section or `off`", rows: settings.rows) { node, current throws(YAMLNode.Problem) in
            if node.isOff { return nil }
            guard node.isMapping else { throw node.problem("expected keys with values, or off") }
            return try settings.read(node, into: (current ?? nil) ?? settings.standard)
        } write: { section, directory in
            section.map { settings.write($0, directory) } ?? YAMLNode(text: "off")
        }
    }

    /// A list; an empty one is not written.
    static func list<Element>(of kind: SettingKind<Element>) -> Self where Value == [Element] {
        Self(name: "list", rows: kind.rows) { node, _ throws(YAMLNode.Problem) in
            var elements: [Element] = []
            for element in try node.elements { elements.append(try kind.read(element, nil)) }
            return elements
        } write: { elements, directory in
            elements.isEmpty ? nil : YAMLNode(elements: elements.compactMap { kind.write($0, directory) })
        }
    }
}
