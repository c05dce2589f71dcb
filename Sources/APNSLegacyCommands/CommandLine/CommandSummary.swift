// SPDX-License-Identifier: Apache-2.0

import APNSJSON
import NIOConcurrencyHelpers

/// The result of a command, for the JSON object at the end of its output.
package final class CommandSummary: Sendable {
    /// The value of a member.
    private enum Value: Sendable {
        case count(Int64)
        /// A JSON value.
        case json(String)
        /// The members of an object, instead of one member.
        case members(JSONObject)
    }

    private let members = NIOLockedValueBox<[(name: String, value: Value)]>([])

    /// Creates a summary without counts.
    package init() {}

    private func set(_ name: String, _ value: Value) {
        self.members.withLockedValue { members in
            members.removeAll { $0.name == name }
            members.append((name, value))
        }
    }

    /// Sets a member to a JSON value.
    func set(_ name: String, json: String) { self.set(name, .json(json)) }

    func set(_ name: String, _ count: some BinaryInteger) { self.set(name, .count(Int64(clamping: count))) }

    func set(_ name: String, _ text: String) { self.set(name, json: JSONWriter.quoted(text)) }

    /// Sets a member that is not set yet.
    func setDefault(_ name: String, _ text: String) {
        guard self.members.withLockedValue({ !$0.contains { $0.name == name } }) else { return }
        self.set(name, text)
    }

    func set(_ name: String, _ texts: [String]) {
        self.set(name, json: "[\(texts.map { JSONWriter.quoted($0) }.joined(separator: ","))]")
    }

    /// Adds a number to a member.
    @discardableResult
    func add(_ name: String, _ count: some BinaryInteger) -> Int64 {
        self.members.withLockedValue { members in
            let index = members.firstIndex { $0.name == name } ?? members.endIndex
            if index == members.endIndex { members.append((name, .count(0))) }
            guard case .count(let old) = members[index].value else { return 0 }
            let sum = old.addingReportingOverflow(Int64(clamping: count))
            members[index].value = .count(sum.overflow ? .max : sum.partialValue)
            return sum.overflow ? .max : sum.partialValue
        }
    }

    /// Adds the members of an object.
    func set(_ object: JSONObject) { self.set("", .members(object)) }

    /// The whole object as one line.
    func json(command: String, _ status: ExitStatus) -> String {
        JSONObject { object in
            object.add("command", command)
            object.add("exitCode", status.rawValue)
            for (name, value) in self.members.withLockedValue({ $0 }) {
                switch value {
                case .count(let count): object.add(name, count)
                case .json(let text): object.add(name, json: text)
                case .members(let members): object.add(membersOf: members)
                }
            }
        }.text
    }
}
