// SPDX-License-Identifier: Apache-2.0

package import APNSPayload
import APNSWire
import Yams

/// A value of a YAML text, with its place for errors.
package struct YAMLNode {
    /// An error in a YAML text, or in a value that replaces one, with its place.
    package struct Problem: Error, Hashable, CustomStringConvertible {
        /// The line, from 1; `nil` if there is none, as for an environment variable or for JSON.
        package var line: Int?
        /// The path of keys, such as "faults[2].effect.name".
        package var key: String
        package var sentence: String

        /// Creates an error.
        package init(line: Int?, key: String, sentence: String) {
            self.line = line
            self.key = key
            self.sentence = sentence
        }

        /// The error without its line.
        package var text: String { self.key.isEmpty ? self.sentence : "\(self.key): \(self.sentence)" }

        package var description: String { self.line.map { "line \($0): \(self.text)" } ?? self.text }

        /// Returns the error with the file that contains it.
        package func text(path: String) -> String { "\(path)\(self.line == nil ? ": " : ", ")\(self)" }
    }

    /// The maximum length of a text that is not trusted, in bytes, which bounds the time and memory to read it.
    package static let byteCountMax = 1 << 20

    /// The maximum number of compared bytes of keys that are lists or mappings.
    private static let comparisonCountMax = 1 << 20

    /// The maximum nesting depth of a value that is converted to JSON.
    private static let depthMax = 32

    private var node: Node
    /// The path of keys, such as "providers[0].name".
    package let key: String
    /// The folder of relative paths, with a trailing slash, or an empty string.
    private let folder: String

    private init(_ node: Node, key: String, folder: String) {
        self.node = node
        self.key = key
        self.folder = folder
    }

    /// Parses a YAML text, of which JSON is a subset.
    ///
    /// Returns `nil` for an empty text.
    ///
    /// - Throws: the first error.
    package init?(yaml: String, folder: String = "", isTrusted: Bool = true) throws(Problem) {
        guard isTrusted || yaml.utf8.count <= Self.byteCountMax else {
            let sentence = "the text exceeds the limit of \(Self.byteCountMax) bytes"
            throw Problem(line: nil, key: "", sentence: sentence)
        }
        if !isTrusted { try Self.refuseAmplification(yaml) }
        do {
            // Scalars are interpreted when they are read.
            // Some editors write a byte order mark, which the parser takes for content.
            let text = yaml.unicodeScalars.first == "\u{FEFF}" ? String(yaml.unicodeScalars.dropFirst()) : yaml
            guard let node = try Yams.compose(yaml: text, .basic) else { return nil }
            self.init(node, key: "", folder: folder)
        } catch { throw Problem(parsing: error) }
    }

    /// Creates a scalar without a line.
    package init(scalar: String, key: String = "") { self.init(Node(scalar), key: key, folder: "") }

    private static func refuseAmplification(_ yaml: String) throws(Problem) {
        // Such a key begins with a question mark, or ends with a bracket and a colon.
        let keyCount = yaml.matches(of: #/\?|[\]}][ \t]*:/#).count
        guard keyCount == 0 || (keyCount + 1) * yaml.utf8.count <= Self.comparisonCountMax else {
            let sentence = "too many keys that are lists or mappings; use words as keys"
            throw Problem(line: nil, key: "", sentence: sentence)
        }
        let anchors = Set(yaml.matches(of: #/&([\w-]+)/#).map(\.1))
        guard !anchors.isEmpty,
            let alias = yaml.matches(of: #/\*([\w-]+)/#).first(where: { anchors.contains($0.1) })
        else { return }
        let line = yaml[..<alias.range.lowerBound].utf8.count { $0 == UInt8(ascii: "\n") } + 1
        throw Problem(line: line, key: "", sentence: "aliases are not supported; write the value itself")
    }

    // MARK: Errors

    /// Creates an error for this value.
    package func problem(_ sentence: String) -> Problem {
        Problem(line: self.node.mark?.line, key: self.key, sentence: sentence)
    }

    /// Creates an error for a value in this one, with the line of the last key that exists.
    package func problem(at path: [String], _ sentence: String) -> Problem {
        var problem = self.problem(sentence)
        var place: Node? = self.node
        for name in path {
            problem.key += problem.key.isEmpty ? name : ".\(name)"
            let member = place?.mapping?.first { $0.key.scalar?.string == name }
            problem.line = member?.key.mark?.line ?? problem.line
            place = member?.value
        }
        return problem
    }

    // MARK: Mappings and lists

    /// Whether it consists of keys with values.
    package var isMapping: Bool { self.node.mapping != nil }

    /// The value of a key; `nil` if there is none.
    package subscript(name: String) -> YAMLNode? {
        guard let value = self.node.mapping?.first(where: { $0.key.scalar?.string == name })?.value else { return nil }
        return YAMLNode(value, key: self.key.isEmpty ? name : "\(self.key).\(name)", folder: self.folder)
    }

    /// Replaces a value that is not from the text, such as one from an environment variable.
    ///
    /// Returns `false` if a value on the path does not consist of keys.
    package mutating func replace(_ path: [String], with text: String) -> Bool {
        func replaced(_ node: Node?, _ path: ArraySlice<String>) -> Node? {
            guard let name = path.first else { return Node(text) }
            guard case .mapping(var mapping) = node ?? Node([] as [(Node, Node)]) else { return nil }
            guard let value = replaced(mapping[name], path.dropFirst()) else { return nil }
            mapping[name] = value
            return .mapping(mapping)
        }
        guard let node = replaced(self.node, path[...]) else { return false }
        self.node = node
        return true
    }

    /// Rejects a value that does not consist of keys with values, and other keys.
    package func requireKeys(_ valid: [String], ignoring ignored: [String] = []) throws(Problem) {
        guard case .mapping(let mapping) = self.node else { throw self.problem("expected keys with values") }
        for key in mapping.keys {
            guard let name = key.scalar?.string else {
                throw Problem(line: key.mark?.line, key: self.key, sentence: "expected a word as key")
            }
            guard valid.contains(name) || ignored.contains(name) else {
                throw self.problem(at: [name], "unknown key \(name.answer(asUnknownOf: valid, "keys"))")
            }
        }
    }

    /// The elements of a list.
    package var elements: [YAMLNode] {
        get throws(Problem) {
            guard case .sequence(let sequence) = self.node else { throw self.problem("expected a list") }
            return sequence.enumerated().map { YAMLNode($1, key: "\(self.key)[\($0)]", folder: self.folder) }
        }
    }

    // MARK: Scalars

    package var text: String {
        get throws(Problem) {
            guard let text = self.node.scalar?.string, !text.isEmpty else { throw self.problem("expected text") }
            return text
        }
    }

    /// The path of a file; a relative path is resolved against the folder of the text.
    package var path: String {
        get throws(Problem) {
            let text = try self.text
            // A value without a line is not from the text.
            return text.hasPrefix("/") || self.node.mark == nil ? text : self.folder + text
        }
    }

    package var isOff: Bool { self.node.scalar?.string == "off" }

    package var isTrue: Bool {
        get throws(Problem) {
            switch self.node.scalar?.string {
            case "true": return true
            case "false": return false
            default: throw self.problem("expected true or false")
            }
        }
    }

    package func number(_ range: ClosedRange<Int>) throws(Problem) -> Int {
        guard let number = self.node.scalar.flatMap({ Int($0.string) }), range.contains(number) else {
            throw self.problem("expected a number from \(range.lowerBound) to \(range.upperBound)")
        }
        return number
    }

    /// A duration such as "30s", with one of the units ms, s, m, h, d and w.
    package func duration(_ range: ClosedRange<Duration>) throws(Problem) -> Duration {
        guard let text = self.node.scalar.flatMap({ DurationText($0.string.utf8) }), text.unit != nil,
            range.contains(text.duration)
        else {
            throw self.problem("expected a duration from \(range.lowerBound) to \(range.upperBound), such as 30s or 5m")
        }
        return text.duration
    }

    /// One of a set of words, as the value with that word.
    package func word<Value>(_ words: [(String, Value)]) throws(Problem) -> Value {
        guard let word = words.first(where: { $0.0 == self.node.scalar?.string }) else {
            throw self.problem("expected one of: \(words.map(\.0).joined(separator: ", "))")
        }
        return word.1
    }
}

// MARK: JSON

extension YAMLNode {
    /// Creates a value from JSON, without lines.
    package init(json: JSONValue) {
        func node(_ value: JSONValue) -> Node {
            switch value {
            case .null: Node("null")
            case .boolean(let isTrue): Node("\(isTrue)")
            case .number(let number): Node(number.text)
            case .string(let text): Node(text, .implicit, .doubleQuoted)
            case .array(let elements): Node(elements.map(node))
            case .object(let members): Node(members.sorted { $0.key < $1.key }.map { (Node($0), node($1)) })
            }
        }
        self.init(node(json), key: "", folder: "")
    }

    /// The value as JSON; a scalar without quotation marks can be a number, true, false or null.
    package var json: JSONValue {
        get throws(Problem) { try Self.json(self.node, depth: 0) }
    }

    private static func json(_ node: Node, depth: Int) throws(Problem) -> JSONValue {
        func problem(_ sentence: String) -> Problem { Problem(line: node.mark?.line, key: "", sentence: sentence) }
        guard depth < Self.depthMax else { throw problem("values are nested too deeply") }
        switch node {
        case .scalar(let scalar): return Self.json(scalar)
        case .sequence(let sequence):
            var elements: [JSONValue] = []
            for element in sequence { elements.append(try Self.json(element, depth: depth + 1)) }
            return .array(elements)
        case .mapping(let mapping):
            var members: [String: JSONValue] = [:]
            for (key, value) in mapping {
                guard case .scalar(let name) = key else { throw problem("expected a word as key") }
                members[name.string] = try Self.json(value, depth: depth + 1)
            }
            return .object(members)
        case .alias: throw problem("aliases are not supported")
        }
    }

    private static func json(_ scalar: Node.Scalar) -> JSONValue {
        let text = scalar.string
        guard scalar.style == .plain || scalar.style == .any else { return .string(text) }
        switch text {
        case "", "~", "null", "Null", "NULL": return .null
        case "true", "True", "TRUE": return .boolean(true)
        case "false", "False", "FALSE": return .boolean(false)
        default: break
        }
        guard text.utf8.allSatisfy({ UInt8(ascii: "0")...UInt8(ascii: "9") ~= $0 || "+-.eE".utf8.contains($0) }) else {
            return .string(text)
        }
        let number =
            UInt64(text).map { JSONNumber($0) } ?? Int64(text).map { JSONNumber($0) }
            ?? Double(text).flatMap { JSONNumber($0) }
        return number.map { .number($0) } ?? .string(text)
    }
}

// MARK: Writing

extension YAMLNode {
    /// Creates keys with values; those without a value are omitted.
    package init(fields: [(key: String, value: YAMLNode?)]) {
        let pairs = fields.compactMap { field in field.value.map { (Node(field.key), $0.node) } }
        self.init(Node(pairs), key: "", folder: "")
    }

    /// Creates a list.
    package init(elements: [YAMLNode]) { self.init(Node(elements.map(\.node)), key: "", folder: "") }

    /// Creates a text in quotation marks, so that it is never read as a number.
    package init(text: String) { self.init(Node(text, Tag(.str), .doubleQuoted), key: "", folder: "") }

    /// Creates a duration in seconds, or in milliseconds if necessary.
    package init(_ duration: Duration) {
        let (seconds, attoseconds) = duration.components
        let milliseconds = attoseconds / 1_000_000_000_000_000
        self.init(scalar: milliseconds == 0 ? "\(seconds)s" : "\(seconds * 1000 + milliseconds)ms")
    }

    /// The text of the value.
    package var yaml: String {
        // Serializing a node of text never fails.
        (try? Yams.serialize(node: self.node, width: -1)) ?? ""
    }
}

extension YAMLNode: Equatable {
    /// Whether both have the same content, wherever it is.
    package static func == (first: YAMLNode, second: YAMLNode) -> Bool { first.node == second.node }
}

extension YAMLNode.Problem {
    /// Describes an error of the parser, with advice where it does not name the usual cause.
    fileprivate init(parsing error: any Error) {
        switch error as? YamlError {
        case .scanner(_, let problem, let mark, _), .parser(_, let problem, let mark, _),
            .composer(_, let problem, let mark, _):
            var sentence = "invalid YAML: \(problem)"
            if problem == "found character that cannot start any token" {
                sentence += "; indent with spaces, not tabs, and write values with special characters in quotes"
            }
            self.init(line: mark.line, key: "", sentence: sentence)
        case .reader(let problem, _, _, _): self.init(line: nil, key: "", sentence: "invalid YAML: \(problem)")
        case .duplicatedKeysInMapping(let names, let context):
            self.init(line: context.mark.line, key: "", sentence: "duplicate key \(names.first ?? "")")
        default: self.init(line: nil, key: "", sentence: "invalid YAML")
        }
    }
}
