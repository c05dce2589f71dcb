// SPDX-License-Identifier: Apache-2.0

import APNSPayload
import NIOConcurrencyHelpers

/// The result of a command, for the JSON object at the end of its output.
package final class CommandSummary: Sendable {
    private let members = NIOLockedValueBox<[(name: String, json: String)]>([])

    /// Creates a summary without counts.
    package init() {}

    /// Sets a member to a JSON value.
    func set(_ name: String, json: String) {
        self.members.withLockedValue { members in
            members.removeAll { $0.name == name }
            members.append((name, json))
        }
    }

    func set(_ name: String, _ count: some BinaryInteger) { self.set(name, json: "\(count)") }

    func set(_ name: String, _ isTrue: Bool) { self.set(name, json: "\(isTrue)") }

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
    func add(_ name: String, _ count: some BinaryInteger) {
        self.members.withLockedValue { members in
            let sum = (members.first { $0.name == name }.flatMap { Int64($0.json) } ?? 0) + Int64(count)
            members.removeAll { $0.name == name }
            members.append((name, "\(sum)"))
        }
    }

    /// Adds the members of a JSON object, such as `{"accepted":1}`.
    func set(object: String) { self.set("", json: String(object.dropFirst().dropLast())) }

    /// The whole object as one line.
    func json(command: String, _ status: ExitStatus) -> String {
        let fixed = "\"command\":\(JSONWriter.quoted(command)),\"exitCode\":\(status.rawValue)"
        let rest = self.members.withLockedValue { $0 }.map { member in
            member.name.isEmpty ? member.json : "\(JSONWriter.quoted(member.name)):\(member.json)"
        }
        return "{\(([fixed] + rest.filter { !$0.isEmpty }).joined(separator: ","))}"
    }
}
