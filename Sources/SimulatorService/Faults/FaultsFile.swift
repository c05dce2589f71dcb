// SPDX-License-Identifier: Apache-2.0

package import APNSSimulator
import Yams

/// Faults as a file or a request has them, in YAML or JSON: a list, or an object whose key `faults` has one.
package struct FaultsFile: Sendable {
    /// A mistake, and where it is.
    package struct Mistake: Error, CustomStringConvertible {
        /// From 1; `nil` where the mistake is on no line of its own.
        package var line: Int?
        /// The keys that lead to it, such as "faults[2].effect.name".
        package var key: String
        package var sentence: String

        package var description: String {
            [self.line.map { "line \($0)" }, self.key.isEmpty ? nil : self.key, self.sentence].compactMap(\.self)
                .joined(separator: ": ")
        }
    }

    /// What is written, in order.
    package var entries: [PlannedFault] = []

    /// How many faults there may be.
    private static let countMax = 1000

    /// Reads a list of faults.
    ///
    /// - Parameter text: YAML, of which JSON is a part.
    /// - Throws: the first mistake.
    package init(_ text: String) throws(Mistake) {
        guard let root = try Self.compose(text) else { return }
        var list = root
        var name = ""
        if case .mapping(let mapping) = root {
            for (key, _) in mapping where key.string != "faults" {
                let sentence = "unknown key; valid keys: faults"
                throw Mistake(line: key.mark?.line, key: key.string ?? "", sentence: sentence)
            }
            list = mapping["faults"] ?? list
            name = "faults"
        }
        guard case .sequence(let sequence) = list else {
            throw Mistake(line: list.mark?.line, key: name, sentence: "a list of faults is needed here")
        }
        guard sequence.count <= Self.countMax else {
            let sentence = "there are \(sequence.count) faults, at most \(Self.countMax)"
            throw Mistake(line: nil, key: name, sentence: sentence)
        }
        for (index, node) in sequence.enumerated() {
            self.entries.append(try Self.entry(node, key: "\(name)[\(index)]", index: index))
        }
    }

    /// Reads one fault.
    ///
    /// - Parameter text: YAML, of which JSON is a part.
    /// - Returns: the fault.
    /// - Throws: what is wrong with it.
    static func entry(_ text: String) throws(Mistake) -> PlannedFault {
        guard let node = try Self.compose(text) else {
            throw Mistake(line: nil, key: "", sentence: "there is no fault")
        }
        return try Self.entry(node, key: "", index: 0)
    }

    private static func compose(_ text: String) throws(Mistake) -> Node? {
        do { return try Yams.compose(yaml: text) } catch {
            switch error as? YamlError {
            case .scanner(_, let problem, let mark, _), .parser(_, let problem, let mark, _),
                .composer(_, let problem, let mark, _):
                throw Mistake(line: mark.line, key: "", sentence: "this is no YAML: \(problem)")
            default: throw Mistake(line: nil, key: "", sentence: "this is no YAML: \(error)")
            }
        }
    }

    private static func entry(_ node: Node, key: String, index: Int) throws(Mistake) -> PlannedFault {
        guard case .mapping(var mapping) = node else {
            throw Mistake(line: node.mark?.line, key: key, sentence: "a fault is keys with values, such as effect")
        }
        var isEnabled = true
        if let value = mapping["isEnabled"] {
            guard let isTrue = Bool(value.string ?? "") else {
                throw Mistake(line: value.mark?.line, key: "\(key).isEnabled", sentence: "true or false is needed here")
            }
            isEnabled = isTrue
        }
        // So that what the simulator tells of its faults can be given back.
        for name in ["id", "isEnabled", "occurrenceCount"] { mapping[Node(name)] = nil }
        let fault: Fault
        do {
            fault = try YAMLDecoder().decode(Fault.self, from: .mapping(mapping))
        } catch {
            throw Mistake(error, in: node, key: key)
        }
        if let reason = fault.problem { throw Mistake(line: node.mark?.line, key: key, sentence: reason) }
        return PlannedFault(fault, isEnabled: isEnabled)
    }
}

extension FaultsFile.Mistake {
    /// Finds the line of what the decoder complains of.
    fileprivate init(_ error: any Error, in node: Node, key: String) {
        guard let error = error as? DecodingError else {
            self.init(line: node.mark?.line, key: key, sentence: "\(error)")
            return
        }
        let (path, sentence): ([any CodingKey], String) =
            switch error {
            case .keyNotFound(let name, let context): (context.codingPath, "the key \(name.stringValue) is missing")
            case .typeMismatch(let type, let context): (context.codingPath, "a value of type \(type) is needed here")
            case .valueNotFound(let type, let context): (context.codingPath, "a value of type \(type) is needed here")
            case .dataCorrupted(let context): (context.codingPath, context.debugDescription)
            @unknown default: ([], "\(error)")
            }
        var place = node
        var line = node.mark?.line
        for component in path {
            guard case .mapping(let mapping) = place else { break }
            // A key that is unknown is what its line is of.
            if let name = mapping.keys.first(where: { $0.string == component.stringValue }) { line = name.mark?.line }
            guard let next = mapping[component.stringValue] else { break }
            place = next
        }
        let name = ([key] + path.map(\.stringValue)).filter { !$0.isEmpty }.joined(separator: ".")
        self.init(line: line, key: name, sentence: sentence)
    }
}
