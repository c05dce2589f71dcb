// SPDX-License-Identifier: Apache-2.0

import APNSPayload
package import APNSSimulator
import FoundationEssentials
package import ServiceSupport

/// Faults from a file or request, in YAML or JSON: a list, or an object with the key `faults`.
package struct FaultsFile: Sendable {
    /// The faults in order.
    package var entries: [PlannedFault] = []

    /// Reads a list of faults.
    ///
    /// - Throws: the first error.
    package init(_ text: String) throws(YAMLNode.Problem) {
        try self.init(YAMLNode(yaml: text))
    }

    /// Reads a list of faults.
    ///
    /// - Throws: the first error.
    init(_ document: YAMLNode?) throws(YAMLNode.Problem) {
        guard let document else { return }
        if document.isMapping { try document.requireKeys(["faults"]) }
        let list = document["faults"] ?? document
        let elements = try list.elements
        guard elements.count <= Fault.countMax else {
            throw list.problem("\(elements.count) faults exceed the limit of \(Fault.countMax)")
        }
        for element in elements { self.entries.append(try Self.entry(element)) }
    }

    /// Reads one fault.
    ///
    /// - Throws: the error in the fault.
    static func entry(_ document: YAMLNode?) throws(YAMLNode.Problem) -> PlannedFault {
        guard let document else { throw YAMLNode.Problem(line: nil, key: "", sentence: "expected a fault") }
        // The simulator's own output, which includes the identifier, the count and the warning, is valid input.
        let ignored = ["id", "occurrenceCount", "warning"]
        try document.requireKeys(Fault.keyNames + ["isEnabled"], ignoring: ignored)
        guard case .object(var members) = try document.json else { throw document.problem("expected a fault") }
        guard case .boolean(let isEnabled) = members["isEnabled"] ?? true else {
            throw document.problem(at: ["isEnabled"], "expected true or false")
        }
        for name in ignored + ["isEnabled"] { members[name] = nil }
        let fault: Fault
        do {
            fault = try JSONDecoder().decode(Fault.self, from: Data(JSONValue.object(members).bytes))
        } catch {
            throw YAMLNode.Problem(error, in: document)
        }
        if let reason = fault.problem { throw document.problem(reason) }
        return PlannedFault(fault, isEnabled: isEnabled)
    }
}

extension YAMLNode.Problem {
    /// Converts a decoding error, and finds its line.
    fileprivate init(_ error: any Error, in document: YAMLNode) {
        let (path, sentence): ([any CodingKey], String) =
            switch error {
            case DecodingError.keyNotFound(let name, let context):
                (context.codingPath, "missing key: \(name.stringValue)")
            case DecodingError.typeMismatch(let type, let context), DecodingError.valueNotFound(let type, let context):
                (context.codingPath, "expected \(Self.name(type))")
            case DecodingError.dataCorrupted(let context): (context.codingPath, context.debugDescription)
            default: ([], "\(error)")
            }
        self = document.problem(at: path.map(\.stringValue), sentence)
    }

    /// Names the expected type.
    private static func name(_ type: any Any.Type) -> String {
        switch type {
        case is String.Type: "a string; in YAML, write digits in quotes"
        case is Bool.Type: "true or false"
        case is any BinaryInteger.Type: "an integer"
        case is any BinaryFloatingPoint.Type: "a number"
        default: "keys with values"
        }
    }
}
