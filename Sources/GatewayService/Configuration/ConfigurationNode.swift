// SPDX-License-Identifier: Apache-2.0

import APNSWire
import Yams

/// An error in a configuration file, with its place.
struct ConfigurationFault: Error, Hashable, CustomStringConvertible {
    /// The line, from 1; `nil` if there is none, as for an environment variable.
    var line: Int?
    /// The full key, such as "listen.port".
    var key: String
    var sentence: String

    /// The error without its line.
    var text: String { self.key.isEmpty ? self.sentence : "\(self.key): \(self.sentence)" }

    var description: String { self.line.map { "line \($0): \(self.text)" } ?? self.text }
}

/// One value of a configuration file, with its place for errors.
struct ConfigurationNode {
    let node: Node
    let key: String
    /// The folder of the file, with a trailing slash, or an empty string.
    private let folder: String

    var line: Int? { self.node.mark?.line }

    /// Parses a YAML text.
    ///
    /// Relative paths in it are resolved against `folder`.
    init(yaml: String, folder: String) throws(ConfigurationFault) {
        self.folder = folder
        do {
            self.node = try Yams.compose(yaml: yaml) ?? Node([] as [(Node, Node)])
            self.key = ""
        } catch let error as YamlError {
            throw ConfigurationFault(error)
        } catch {
            throw ConfigurationFault(line: nil, key: "", sentence: "\(error)")
        }
    }

    private init(_ node: Node, key: String, folder: String) {
        self.node = node
        self.key = key
        self.folder = folder
    }

    func fault(_ sentence: String) -> ConfigurationFault {
        ConfigurationFault(line: self.line, key: self.key, sentence: sentence)
    }

    /// Returns the values of a mapping by key, and rejects keys that the section does not have.
    func fields(_ section: GatewaySection) throws(ConfigurationFault) -> [String: ConfigurationNode] {
        guard case .mapping(let mapping) = self.node else {
            throw self.fault("expected keys with values\(section == .admin ? ", or off" : "")")
        }
        var fields: [String: ConfigurationNode] = [:]
        for (name, value) in mapping {
            let text = name.scalar?.string ?? "?"
            let key = self.key.isEmpty ? text : "\(self.key).\(text)"
            guard section.keys.contains(text) else {
                throw ConfigurationFault(line: name.mark?.line, key: key, sentence: section.answer(toUnknown: text))
            }
            fields[text] = ConfigurationNode(value, key: key, folder: self.folder)
        }
        return fields
    }

    var elements: [ConfigurationNode] {
        get throws(ConfigurationFault) {
            guard case .sequence(let sequence) = self.node else { throw self.fault("expected a list") }
            return sequence.enumerated().map { ConfigurationNode($1, key: "\(self.key)[\($0)]", folder: self.folder) }
        }
    }

    var text: String {
        get throws(ConfigurationFault) {
            guard let text = self.node.scalar?.string, !text.isEmpty else { throw self.fault("expected text") }
            return text
        }
    }

    /// The path of a file; a relative path is resolved against the folder of the configuration.
    var path: String {
        get throws(ConfigurationFault) {
            let text = try self.text
            return text.hasPrefix("/") ? text : self.folder + text
        }
    }

    var isOff: Bool { self.node.scalar?.string == "off" }

    var isTrue: Bool {
        get throws(ConfigurationFault) {
            switch self.node.scalar?.string {
            case "true": return true
            case "false": return false
            default: throw self.fault("expected true or false")
            }
        }
    }

    func number(_ range: ClosedRange<Int>) throws(ConfigurationFault) -> Int {
        guard let number = self.node.scalar.flatMap({ Int($0.string) }), range.contains(number) else {
            throw self.fault("expected a number from \(range.lowerBound) to \(range.upperBound)")
        }
        return number
    }

    /// A duration such as "30s", with one of the units ms, s, m, h, d and w.
    func duration(_ range: ClosedRange<Duration>) throws(ConfigurationFault) -> Duration {
        guard let text = self.node.scalar.flatMap({ DurationText($0.string.utf8) }), text.unit != nil,
            range.contains(text.duration)
        else {
            throw self.fault("expected a duration from \(range.lowerBound) to \(range.upperBound), such as 30s or 5m")
        }
        return text.duration
    }

    /// One of a set of words.
    func word<Word: RawRepresentable & CaseIterable>(
        _ type: Word.Type
    ) throws(ConfigurationFault) -> Word where Word.RawValue == String {
        guard let word = self.node.scalar.flatMap({ Word(rawValue: $0.string) }) else {
            let words = Word.allCases.map(\.rawValue).joined(separator: ", ")
            throw self.fault("expected one of: \(words)")
        }
        return word
    }
}

extension ConfigurationFault {
    fileprivate init(_ error: YamlError) {
        switch error {
        case .scanner(_, let problem, let mark, _), .parser(_, let problem, let mark, _),
            .composer(_, let problem, let mark, _):
            self.init(line: mark.line, key: "", sentence: Self.sentence(problem))
        case .duplicatedKeysInMapping(let duplicates, let context):
            self.init(
                line: context.mark.line,
                key: "",
                sentence: "duplicate key: \(duplicates.joined(separator: ", "))"
            )
        case .reader(let problem, _, _, _): self.init(line: nil, key: "", sentence: problem)
        default: self.init(line: nil, key: "", sentence: "not valid YAML")
        }
    }

    /// The parser's message, with advice where it does not name the usual cause.
    private static func sentence(_ problem: String) -> String {
        guard problem == "found character that cannot start any token" else { return problem }
        return "\(problem); indent with spaces, not tabs, and write values with special characters in quotes"
    }
}
