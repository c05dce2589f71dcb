// SPDX-License-Identifier: Apache-2.0

import APNSPayload
package import APNSSimulator
import FoundationEssentials

/// Faults as a file or a request has them, in YAML or JSON: a list, or an object whose key `faults` has one.
package struct FaultsFile: Sendable {
    /// A mistake, and where it is.
    package struct Mistake: Error, CustomStringConvertible {
        /// From 1; `nil` where the mistake is on no line of its own, and for JSON.
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

    /// Reads a list of faults.
    ///
    /// - Parameter text: YAML, of which JSON is a part.
    /// - Throws: the first mistake.
    package init(_ text: String) throws(Mistake) {
        try self.init(FaultDocument.yaml(text))
    }

    /// Reads a list of faults.
    ///
    /// - Parameter document: the list; `nil` for a text with nothing in it.
    /// - Throws: the first mistake.
    init(_ document: FaultDocument?) throws(Mistake) {
        guard let document else { return }
        var list = document
        var name = ""
        if case .object(let members) = document.value {
            if let key = members.keys.sorted().first(where: { $0 != "faults" }) {
                throw document.mistake(atKey: key, key, "unknown key; valid keys: faults")
            }
            list = document.member("faults") ?? list
            name = "faults"
        }
        guard let elements = list.value.elements else { throw list.mistake(name, "expected a list of faults") }
        guard elements.count <= Fault.countMax else {
            let sentence = "there are \(elements.count) faults, at most \(Fault.countMax)"
            throw Mistake(line: nil, key: name, sentence: sentence)
        }
        for (index, element) in elements.enumerated() {
            self.entries.append(try Self.entry(list.element(index, element), key: "\(name)[\(index)]"))
        }
    }

    /// Reads one fault.
    ///
    /// - Parameters:
    ///   - document: the fault; `nil` for a text with nothing in it.
    ///   - key: where it is.
    /// - Returns: the fault.
    /// - Throws: what is wrong with it.
    static func entry(_ document: FaultDocument?, key: String = "") throws(Mistake) -> PlannedFault {
        guard let document else { throw Mistake(line: nil, key: key, sentence: "there is no fault") }
        guard case .object(var members) = document.value else {
            throw document.mistake(key, "a fault is keys with values, such as effect")
        }
        var isEnabled = true
        if let value = members["isEnabled"] {
            guard case .boolean(let isTrue) = value else {
                let name = key.isEmpty ? "isEnabled" : "\(key).isEnabled"
                throw document.mistake(atKey: "isEnabled", name, "expected true or false")
            }
            isEnabled = isTrue
        }
        // So that what the simulator tells of its faults can be sent back.
        for name in ["id", "isEnabled", "occurrenceCount"] { members[name] = nil }
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
    /// Finds the line of what the decoder complains of.
    fileprivate init(_ error: any Error, in document: FaultDocument, key: String) {
        guard let error = error as? DecodingError else {
            self = document.mistake(key, "\(error)")
            return
        }
        let (path, sentence): ([any CodingKey], String) =
            switch error {
            case .keyNotFound(let name, let context): (context.codingPath, "the key \(name.stringValue) is missing")
            case .typeMismatch(let type, let context): (context.codingPath, "expected \(Self.name(type))")
            case .valueNotFound(let type, let context): (context.codingPath, "expected \(Self.name(type))")
            case .dataCorrupted(let context): (context.codingPath, context.debugDescription)
            @unknown default: ([], "\(error)")
            }
        let names = path.map(\.stringValue)
        let place = ([key] + names).filter { !$0.isEmpty }.joined(separator: ".")
        self.init(line: document.line(of: names), key: place, sentence: sentence)
    }

    /// What a value of a type is called.
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
