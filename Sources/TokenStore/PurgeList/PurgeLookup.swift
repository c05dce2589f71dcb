// SPDX-License-Identifier: Apache-2.0

public import APNSWire
import GRDB

/// Looks up very many tokens in a list, in memory of at most 8 MiB.
///
/// It knows what was on the list when it was made; of that, what is forgotten later is no longer found.
public struct PurgeLookup: Sendable {
    private let list: PurgeList
    private let scopes: [Int64]
    private let filter: PurgeFilter

    /// How many tokens there are to be found.
    public var tokenCount: Int { self.filter.tokenCount }

    /// Reads the tokens of some topics and environments once.
    ///
    /// - Parameters:
    ///   - list: the list.
    ///   - scopes: a token of any of them is found.
    /// - Throws: ``PurgeListError``.
    public init(_ list: PurgeList, in scopes: [TokenScope]) throws {
        self.list = list
        let known = try list.read { try PurgeList.scopes($0, matching: PurgeQuery()) }
        let identifiers = known.filter { scopes.contains($0.scope) }.map(\.identifier)
        self.scopes = identifiers
        self.filter = try list.read { try PurgeFilter($0, scopes: identifiers) }
    }

    /// Whether a token is on the list.
    ///
    /// - Parameter token: the token.
    /// - Returns: whether it is, for any of the topics.
    /// - Throws: ``PurgeListError``.
    public func contains(_ token: borrowing DeviceToken) throws -> Bool {
        try unsafe token.withUnsafeBytes { try unsafe self.contains($0) }
    }

    private func contains(_ token: UnsafeRawBufferPointer) throws -> Bool {
        guard self.tokenCount > 0, unsafe self.filter.mayContain(token) else { return false }
        return try self.list.readStatement { database in
            let statement = try PurgeStatement(database, sql: "SELECT 1 FROM dead WHERE scope = ?1 AND token = ?2")
            return try self.scopes.contains { scope in
                statement.bind(scope, at: 1)
                unsafe statement.bind(token, at: 2)
                return try statement.hasRow()
            }
        }
    }
}
