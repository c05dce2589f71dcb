// SPDX-License-Identifier: Apache-2.0

import APNSWire
import Yams

/// A fault of a configuration file: where, and what is wrong.
struct ConfigurationFault: Error, Hashable, CustomStringConvertible {
    /// The line from 1; `nil` where the fault is not on one, such as in a variable of the environment.
    var line: Int?
    /// The key with those around it, such as "listen.port".
    var key: String
    var sentence: String

    var description: String {
        let place = self.line.map { "line \($0)" }
        return [place, self.key.isEmpty ? nil : self.key, self.sentence].compactMap(\.self).joined(separator: ": ")
    }
}

/// One value of a configuration file, with its place, so that errors can name it.
struct ConfigurationNode {
    let node: Node
    let key: String
    /// The folder of the file, with a slash at its end, or nothing.
    private let folder: String

    var line: Int? { self.node.mark?.line }

    /// Reads a YAML text; files that it names are looked for in a folder.
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

    /// The values of a mapping by their keys, of which only those of a section are allowed.
    func fields(_ section: GatewaySection) throws(ConfigurationFault) -> [String: ConfigurationNode] {
        guard case .mapping(let mapping) = self.node else { throw self.fault("keys with values are needed here") }
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
            guard case .sequence(let sequence) = self.node else { throw self.fault("a list is needed here") }
            return sequence.enumerated().map { ConfigurationNode($1, key: "\(self.key)[\($0)]", folder: self.folder) }
        }
    }

    var text: String {
        get throws(ConfigurationFault) {
            guard let text = self.node.scalar?.string, !text.isEmpty else { throw self.fault("a text is needed here") }
            return text
        }
    }

    /// The path of a file, which is looked for in the folder of the configuration unless it begins with a slash.
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
            default: throw self.fault("true or false is needed here")
            }
        }
    }

    func number(_ range: ClosedRange<Int>) throws(ConfigurationFault) -> Int {
        guard let number = self.node.scalar.flatMap({ Int($0.string) }), range.contains(number) else {
            throw self.fault("a number from \(range.lowerBound) to \(range.upperBound) is needed here")
        }
        return number
    }

    /// A duration such as "30s", with one of the units ms, s, m, h, d and w.
    func duration(_ range: ClosedRange<Duration>) throws(ConfigurationFault) -> Duration {
        guard let text = self.node.scalar.flatMap({ DurationText($0.string.utf8) }), text.unit != nil,
            range.contains(text.duration)
        else {
            throw self.fault("a time from \(range.lowerBound) to \(range.upperBound) is needed here, such as 30s or 5m")
        }
        return text.duration
    }

    /// One of some words.
    func word<Word: RawRepresentable & CaseIterable>(
        _ type: Word.Type
    ) throws(ConfigurationFault) -> Word where Word.RawValue == String {
        guard let word = self.node.scalar.flatMap({ Word(rawValue: $0.string) }) else {
            let words = Word.allCases.map(\.rawValue).joined(separator: ", ")
            throw self.fault("one of these is needed here: \(words)")
        }
        return word
    }
}

extension ConfigurationFault {
    fileprivate init(_ error: YamlError) {
        switch error {
        case .scanner(_, let problem, let mark, _), .parser(_, let problem, let mark, _),
            .composer(_, let problem, let mark, _):
            self.init(line: mark.line, key: "", sentence: problem)
        case .duplicatedKeysInMapping(let duplicates, let context):
            self.init(
                line: context.mark.line,
                key: "",
                sentence: "a key stands there twice: \(duplicates.joined(separator: ", "))"
            )
        case .reader(let problem, _, _, _): self.init(line: nil, key: "", sentence: problem)
        default: self.init(line: nil, key: "", sentence: "it cannot be read as YAML")
        }
    }
}
