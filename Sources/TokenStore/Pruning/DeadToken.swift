// SPDX-License-Identifier: Apache-2.0

public import APNSWire
import GRDB
import APNSJSON

/// A dead token, for a database other than SQLite.
public struct DeadToken: Hashable, Sendable {
    /// The scope in which it is dead; of several topics, the first.
    public let scope: TokenScope
    /// The token.
    public let bytes: [UInt8]
    /// When it failed, in seconds since 1970; of several topics, the earliest time.
    public let failedAt: Int64

    /// A JSON object: `token` in hexadecimal digits, `topic`, `environment`, `failedAt`.
    public var json: String {
        JSONObject { object in
            object.add("token", Hexadecimal.text(self.bytes))
            object.add("topic", self.scope.topic)
            object.add("environment", self.scope.environment.rawValue)
            object.add("failedAt", self.failedAt)
        }.text
    }
}

extension DeadToken: CustomStringConvertible, CustomReflectable {
    /// Everything but the token, which is private data.
    public var description: String {
        "\(self.bytes.count) bytes of token, \(self.scope.topic), \(self.scope.environment.rawValue), failed at "
            + "\(self.failedAt)"
    }

    /// Without the token, so that `dump` and test reports do not show it.
    public var customMirror: Mirror { Mirror(self, children: ["description": self.description]) }
}

extension PurgeList {
    /// Calls `body` with each token that is dead by the rules, in the order of a ``DeadTokenReader``.
    ///
    /// - Parameters:
    ///   - rules: the rules; if the topic is that of a row, the tokens of all topics.
    ///   - body: receives each token.
    /// - Throws: ``PurgeListError``, ``TokenTableError/severalTopics(_:_:)``, and errors of `body`.
    public func deadTokens(_ rules: TokenTableRules, body: (DeadToken) throws -> Void) throws {
        var reader = try DeadTokenReader(self, rules)
        while case let page = try reader.next(DeadTokenReader.pageTokenCountDefault), !page.isEmpty {
            try page.forEach(body)
        }
    }
}
