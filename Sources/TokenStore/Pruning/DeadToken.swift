// SPDX-License-Identifier: Apache-2.0

public import APNSWire
import APNSJSON

/// A dead token, for a database other than SQLite.
public struct DeadToken: Hashable, Sendable {
    /// The scope in which it is dead; of several topics, the first.
    public let scope: TokenScope
    /// The token.
    public let bytes: [UInt8]
    /// When it failed, in seconds since 1970 (UTC).
    package let failedAtSeconds: Int64

    /// When it failed, a whole second; of several topics, the earliest time.
    public var failedAt: Timestamp { Timestamp(secondsSince1970: self.failedAtSeconds) }

    /// A JSON object: `token` in hexadecimal digits, `topic`, `environment`, `failedAt` in seconds since 1970 (UTC).
    public var json: String {
        JSONObject { object in
            object.add("token", Hexadecimal.text(self.bytes))
            object.add("topic", self.scope.topic)
            object.add("environment", self.scope.environment.rawValue)
            object.add("failedAt", self.failedAtSeconds)
        }.text
    }
}

extension DeadToken: CustomStringConvertible, CustomReflectable {
    /// Everything but the token, which is private data.
    public var description: String {
        "\(self.bytes.count) bytes of token, \(self.scope.topic), \(self.scope.environment.rawValue), failed at "
            + "\(self.failedAtSeconds)"
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

/// Reads the tokens of a purge list that are dead by the rules page by page, ordered by topic and bytes.
///
/// It reads a snapshot from the time of its creation. Its methods block.
public struct DeadTokenReader {
    /// The default number of tokens per page.
    static let pageTokenCountDefault = 1000

    private let snapshot: any PurgeSnapshot
    private let dead: DeadTokens
    private var position = DeadTokens.Position()

    /// Creates a reader.
    ///
    /// - Parameters:
    ///   - list: the purge list.
    ///   - rules: the rules; if the topic is that of a row, the tokens of all topics.
    /// - Throws: ``PurgeListError``, ``TokenTableError/severalTopics(_:_:)``.
    public init(_ list: PurgeList, _ rules: TokenTableRules) throws {
        let snapshot = try list.snapshot()
        self.snapshot = snapshot
        self.dead = try snapshot.read { try DeadTokens($0, path: list.path, rules) }
    }

    /// Reads the next page.
    ///
    /// - Parameter countMax: the maximum number of tokens, at least 1.
    /// - Returns: this many tokens, or fewer at the end, then none.
    /// - Throws: ``PurgeListError``.
    public mutating func next(_ countMax: Int) throws -> [DeadToken] {
        try self.snapshot.read { _ in try self.dead.page(after: &self.position, countMax: max(1, countMax)) }
    }
}
