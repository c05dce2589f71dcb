// SPDX-License-Identifier: Apache-2.0

import GRDB

/// Reads the tokens of a purge list that are dead by some rules page by page, ordered by topic and bytes.
///
/// All are as they were when it was made, whatever is recorded meanwhile. Its calls block.
public struct DeadTokenReader {
    /// The tokens of a page, where nobody says otherwise.
    static let pageTokenCountDefault = 1000

    private let path: String
    private let snapshot: DatabaseSnapshot
    private let dead: DeadTokens
    private var position = DeadTokens.Position()

    /// Makes a reader.
    ///
    /// - Parameters:
    ///   - list: the list.
    ///   - rules: which tokens; where the topic is that of a row, those of all topics.
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
    /// - Parameter countMax: the most tokens of it, at least 1.
    /// - Returns: so many tokens, fewer only at the end; none behind it.
    /// - Throws: ``PurgeListError``.
    public mutating func next(_ countMax: Int) throws -> [DeadToken] {
        try PurgeListError.translated(path: self.path) {
            try self.snapshot.read { _ in try self.dead.page(after: &self.position, countMax: max(1, countMax)) }
        }
    }
}
