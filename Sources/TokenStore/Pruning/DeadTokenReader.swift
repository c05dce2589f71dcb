// SPDX-License-Identifier: Apache-2.0

import GRDB

/// Reads the tokens of a purge list that are dead by the rules page by page, ordered by topic and bytes.
///
/// It reads a snapshot from the time of its creation. Its methods block.
public struct DeadTokenReader {
    /// The default number of tokens per page.
    static let pageTokenCountDefault = 1000

    private let path: String
    private let snapshot: DatabaseSnapshot
    private let dead: DeadTokens
    private var position = DeadTokens.Position()

    /// Creates a reader.
    ///
    /// - Parameters:
    ///   - list: the purge list.
    ///   - rules: the rules; if the topic is that of a row, the tokens of all topics.
    /// - Throws: ``PurgeListError``, ``TokenTableError/severalTopics(_:_:)``.
    public init(_ list: PurgeList, _ rules: TokenTableRules) throws {
        self.path = list.path
        let snapshot = try list.snapshot()
        self.snapshot = snapshot
        self.dead = try PurgeListError.translated(path: list.path) {
            try snapshot.read { try DeadTokens($0, path: list.path, rules) }
        }
    }

    /// Reads the next page.
    ///
    /// - Parameter countMax: the maximum number of tokens, at least 1.
    /// - Returns: this many tokens, or fewer at the end, then none.
    /// - Throws: ``PurgeListError``.
    public mutating func next(_ countMax: Int) throws -> [DeadToken] {
        try PurgeListError.translated(path: self.path) {
            try self.snapshot.read { _ in try self.dead.page(after: &self.position, countMax: max(1, countMax)) }
        }
    }
}
