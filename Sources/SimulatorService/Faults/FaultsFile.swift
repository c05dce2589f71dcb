// SPDX-License-Identifier: Apache-2.0

import APNSPayload
package import APNSSimulator
import FoundationEssentials

/// Faults from a file or request, in YAML or JSON: a list, or an object with the key `faults`.
package struct FaultsFile: Sendable {
    /// An error and its place.
    package struct Mistake: Error, CustomStringConvertible {
        /// The line, from 1; `nil` if there is none, as for JSON.
        package var line: Int?
        /// The path of keys, such as "faults[2].effect.name".
        package var key: String
        package var sentence: String

        package var description: String {
            [self.line.map { "line \($0)" }, self.key.isEmpty ? nil : self.key, self.sentence].compactMap(\.self)
                .joined(separator: ": ")
        }
    }

    /// The faults in order.
    package var entries: [PlannedFault] = []

    /// Reads a list of faults.
    ///
    /// - Parameter text: YAML, of which JSON is a subset.
    /// - Throws: the first error.
    package init(_ text: String) throws(Mistake) {
        try self.init(FaultDocument.yaml(text))
    }

    /// Reads a list of faults.
    ///
    /// - Parameter document: the list; `nil` for an empty text.
    /// - Throws: the first error.
    init(_ document: FaultDocument?) throws(Mistake) {
        guard let document else { return }
        var list = document
        var name = ""
        if case .object(let members) = document.value {
            if let key = members.keys.sorted().first(where: { $0 != "faults" }) {
                throw document.mistake(atKey: key, key, "unknown key; expected a list of faults, or the key faults")
            }
            list = document.member("faults") ?? list
            name = "faults"
        }
        guard let elements = list.value.elements else { throw list.mistake(name, "expected a list of faults") }
        guard elements.count <= Fault.countMax else {
            let sentence = "\(elements.count) faults exceed the limit of \(Fault.countMax)"
            throw Mistake(line: nil, key: name, sentence: sentence)
        }
        for (index, element) in elements.enumerated() {
            self.entries.append(try Self.entry(list.element(index, element), key: "\(name)[\(index)]"))
        }
    }

    /// Reads one fault.
    ///
    /// - Parameters:
    ///   - document: the fault; `nil` for an empty text.
    ///   - key: the path of the fault.
    /// - Returns: the fault.
    /// - Throws: the error in the fault.
    static func entry(_ document: FaultDocument?, key: String = "") throws(Mistake) -> PlannedFault {
        guard let document else { throw Mistake(line: nil, key: key, sentence: "expected a fault") }
        guard case .object(var members) = document.value else {
            throw document.mistake(key, "expected a fault as keys with values, such as effect")
        }
        var isEnabled = true
        if let value = members["isEnabled"] {
            guard case .boolean(let isTrue) = value else {
                let name = key.isEmpty ? "isEnabled" : "\(key).isEnabled"
                throw document.mistake(atKey: "isEnabled", name, "expected true or false")
            }
            isEnabled = isTrue
        }
        // The simulator's own output, which includes the identifier, the count and the warning, is valid input.
        for name in ["id", "isEnabled", "occurrenceCount", "warning"] { members[name] = nil }
        let names = Fault.keyNames + ["isEnabled"]
        if let unknown = members.keys.sorted().first(where: { !names.contains($0) }) {
            let place = key.isEmpty ? unknown : "\(key).\(unknown)"
            let sentence = "unknown key \(unknown.answer(asUnknownOf: names, "keys"))"
            throw document.mistake(atKey: unknown, place, sentence)
        }
        let fault: Fault
        do {
            fault = try JSONDecoder().decode(Fault.self, from: Data(JSONValue.object(members).bytes))
        } catch {
            throw Mistake(error, in: document, key: key)
        }
        if let reason = fault.problem { throw document.mistake(key, reason) }
        return PlannedFault(fault, isEnabled: isEnabled)
    }
}

extension FaultsFile.Mistake {
    /// Converts a decoding error, and finds its line.
    fileprivate init(_ error: any Error, in document: FaultDocument, key: String) {
        guard let error = error as? DecodingError else {
            self = document.mistake(key, "\(error)")
            return
        }
        let (path, sentence): ([any CodingKey], String) =
            switch error {
            case .keyNotFound(let name, let context): (context.codingPath, "missing key: \(name.stringValue)")
            case .typeMismatch(let type, let context): (context.codingPath, "expected \(Self.name(type))")
            case .valueNotFound(let type, let context): (context.codingPath, "expected \(Self.name(type))")
            case .dataCorrupted(let context): (context.codingPath, context.debugDescription)
            @unknown default: ([], "\(error)")
            }
        let names = path.map(\.stringValue)
        let place = ([key] + names).filter { !$0.isEmpty }.joined(separator: ".")
        self.init(line: document.line(of: names), key: place, sentence: sentence)
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
