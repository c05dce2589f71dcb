// SPDX-License-Identifier: Apache-2.0

import APNSPayload
public import APNSWire
import GRDB

/// A token that is dead by some rules, on its way to a database of another kind.
public struct DeadToken: Hashable, Sendable {
    /// Where it is dead; of several topics, the first.
    public let scope: TokenScope
    /// The token.
    public let bytes: [UInt8]
    /// When it failed, in seconds since 1970; of several topics, when it first did.
    public let failedAt: Int64

    /// One JSON object: `token` in hexadecimal digits, `topic`, `environment`, `failedAt`.
    public var json: String {
        "{\"token\":\"\(Hexadecimal.text(self.bytes))\",\"topic\":\(JSONWriter.quoted(self.scope.topic)),"
            + "\"environment\":\"\(self.scope.environment.rawValue)\",\"failedAt\":\(self.failedAt)}"
    }
}

extension DeadToken: CustomStringConvertible, CustomReflectable {
    /// All but the token, which is private data.
    public var description: String {
        "\(self.bytes.count) bytes of token, \(self.scope.topic), \(self.scope.environment.rawValue), failed at "
            + "\(self.failedAt)"
    }

    /// Nothing of the token, so that `dump` and test reports do not show it.
    public var customMirror: Mirror { Mirror(self, children: ["description": self.description]) }
}

extension PurgeList {
    /// Lends each token that is dead by some rules, as a ``DeadTokenReader`` gives them.
    ///
    /// - Parameters:
    ///   - rules: which tokens; where the topic is that of a row, those of all topics.
    ///   - body: is given each.
    /// - Throws: ``PurgeListError``, ``TokenTableError/severalTopics(_:_:)``, and what `body` throws, which ends it.
    public func deadTokens(_ rules: TokenTableRules, body: (DeadToken) throws -> Void) throws {
        var reader = try DeadTokenReader(self, rules)
        while case let page = try reader.next(DeadTokenReader.pageTokenCountDefault), !page.isEmpty {
            try page.forEach(body)
        }
    }
}
