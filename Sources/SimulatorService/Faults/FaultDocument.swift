// SPDX-License-Identifier: Apache-2.0

import APNSPayload
import Yams

/// A YAML or JSON text as values, with their lines.
struct FaultDocument {
    typealias Mistake = FaultsFile.Mistake

    let value: JSONValue
    /// The parsed YAML; `nil` for JSON, where errors are located by keys only.
    private let node: Node?

    private init(_ value: JSONValue, _ node: Node?) {
        self.value = value
        self.node = node
    }

    // MARK: JSON

    /// Reads JSON.
    ///
    /// - Throws: the first error.
    init(json bytes: [UInt8]) throws(Mistake) {
        do throws(PayloadProblem) {
            self.init(try JSONValue(parsing: bytes), nil)
        } catch {
            throw Mistake(line: nil, key: "", sentence: "invalid JSON: \(error)")
        }
    }

    // MARK: YAML

    /// The maximum nesting depth.
    private static let depthMax = 32

    /// The maximum number of compared keys.
    ///
    /// The parser compares the keys of a mapping pairwise. A key that is a list or mapping is compared with all its
    /// content, and again if it is part of another such key.
    private static let comparisonCountMax = 1 << 20

    /// Reads YAML, of which JSON is a subset.
    ///
    /// - Returns: `nil` for an empty text.
    /// - Throws: the first error.
    static func yaml(_ text: String) throws(Mistake) -> FaultDocument? {
        let bytes = Array(text.utf8)
        try Self.checkAliases(bytes)
        try Self.checkKeys(bytes)
        let root: Node?
        // Plain scalars are interpreted below.
        do { root = try Yams.compose(yaml: text, .basic) } catch { throw Mistake(yaml: error) }
        guard let root else { return nil }
        return FaultDocument(try Self.value(root, depth: 0), root)
    }

    /// Rejects aliases before parsing: each stands for all of its anchor's content, so a thousand bytes of aliases
    /// could make comparisons take forever.
    private static func checkAliases(_ bytes: [UInt8]) throws(Mistake) {
        var anchors: Set<ArraySlice<UInt8>> = []
        for index in bytes.indices where bytes[index] == UInt8(ascii: "&") {
            anchors.insert(Self.name(bytes[(index + 1)...]))
        }
        anchors.remove([])
        guard !anchors.isEmpty else { return }
        for index in bytes.indices where bytes[index] == UInt8(ascii: "*") {
            guard anchors.contains(Self.name(bytes[(index + 1)...])) else { continue }
            let line = bytes[..<index].count { $0 == UInt8(ascii: "\n") } + 1
            throw Mistake(line: line, key: "", sentence: "aliases are not supported; write the value itself")
        }
    }

    /// Returns the anchor name at the start of the bytes.
    private static func name(_ bytes: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
        bytes.prefix { byte in
            byte == UInt8(ascii: "-") || byte == UInt8(ascii: "_")
                || UInt8(ascii: "0")...UInt8(ascii: "9") ~= byte
                || UInt8(ascii: "a")...UInt8(ascii: "z") ~= byte | 0x20
        }
    }

    /// Rejects a text with too many keys that are lists or mappings, whose comparison would take too long.
    ///
    /// Such a key starts with a question mark, or ends with a bracket and a colon on the same line.
    private static func checkKeys(_ bytes: [UInt8]) throws(Mistake) {
        var count = 0
        var isBehindBracket = false
        for byte in bytes {
            switch byte {
            case UInt8(ascii: "?"): count += 1
            case UInt8(ascii: ":") where isBehindBracket: count += 1
            default: break
            }
            switch byte {
            case UInt8(ascii: "]"), UInt8(ascii: "}"): isBehindBracket = true
            case UInt8(ascii: " "), UInt8(ascii: "\t"): break
            default: isBehindBracket = false
            }
        }
        guard count > 0, (count + 1) * bytes.count > Self.comparisonCountMax else { return }
        throw Mistake(line: nil, key: "", sentence: "too many keys that are lists or mappings; use words as keys")
    }

    private static func value(_ node: Node, depth: Int) throws(Mistake) -> JSONValue {
        guard depth < Self.depthMax else {
            throw Mistake(line: node.mark?.line, key: "", sentence: "values are nested too deeply")
        }
        switch node {
        case .scalar(let scalar): return Self.value(scalar)
        case .sequence(let sequence):
            var elements: [JSONValue] = []
            for element in sequence { elements.append(try Self.value(element, depth: depth + 1)) }
            return .array(elements)
        case .mapping(let mapping):
            var members: [String: JSONValue] = [:]
            for (key, value) in mapping {
                guard case .scalar(let name) = key else {
                    throw Mistake(line: key.mark?.line, key: "", sentence: "expected a word as key")
                }
                members[name.string] = try Self.value(value, depth: depth + 1)
            }
            return .object(members)
        case .alias: throw Mistake(line: node.mark?.line, key: "", sentence: "aliases are not supported")
        }
    }

    /// Interprets a scalar: quoted as text, otherwise also as a number, true, false or null.
    private static func value(_ scalar: Node.Scalar) -> JSONValue {
        let text = scalar.string
        guard scalar.style == .plain else { return .string(text) }
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

    // MARK: Elements

    /// Returns the element of a list.
    func element(_ index: Int, _ value: JSONValue) -> FaultDocument {
        FaultDocument(value, self.node?.sequence?[index])
    }

    /// Returns the member of an object.
    func member(_ name: String) -> FaultDocument? {
        self.value[name].map { FaultDocument($0, self.node?[name]) }
    }

    /// Creates an error for this value.
    func mistake(_ key: String, _ sentence: String) -> Mistake {
        Mistake(line: self.node?.mark?.line, key: key, sentence: sentence)
    }

    /// Creates an error for a key of this value.
    func mistake(atKey name: String, _ key: String, _ sentence: String) -> Mistake {
        let line = self.node?.mapping?.keys.first { $0.string == name }?.mark?.line
        return Mistake(line: line ?? self.node?.mark?.line, key: key, sentence: sentence)
    }

    /// Returns the line of the longest existing prefix of a path.
    func line(of path: [String]) -> Int? {
        var place = self.node
        var line = self.node?.mark?.line
        for name in path {
            guard case .mapping(let mapping)? = place else { break }
            // For an unknown key, this is the line of the key.
            if let key = mapping.keys.first(where: { $0.string == name }) { line = key.mark?.line }
            place = mapping[name]
        }
        return line
    }
}

extension FaultsFile.Mistake {
    /// Describes an error of the YAML parser, without the text itself.
    fileprivate init(yaml error: any Error) {
        switch error as? YamlError {
        case .scanner(_, let problem, let mark, _), .parser(_, let problem, let mark, _),
            .composer(_, let problem, let mark, _):
            self.init(line: mark.line, key: "", sentence: "invalid YAML: \(problem)")
        case .reader(let problem, _, _, _): self.init(line: nil, key: "", sentence: "invalid YAML: \(problem)")
        case .duplicatedKeysInMapping(let names, let context):
            let sentence = "duplicate key \(names.first ?? "")"
            self.init(line: context.mark.line, key: "", sentence: sentence)
        default: self.init(line: nil, key: "", sentence: "invalid YAML")
        }
    }
}
