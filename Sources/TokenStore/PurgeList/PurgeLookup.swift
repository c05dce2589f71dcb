// SPDX-License-Identifier: Apache-2.0

public import APNSWire
import GRDB

/// Looks up many tokens in a list, with at most 8 MiB of memory.
///
/// It finds tokens that were on the list at its creation and were not removed since.
public struct PurgeLookup: Sendable {
    private let list: PurgeList
    private let scopes: [Int64]
    private let filter: PurgeFilter

    /// The number of tokens that can be found.
    public var tokenCount: Int { self.filter.tokenCount }

    /// Reads the tokens of some topics and environments once.
    ///
    /// - Parameters:
    ///   - list: the list.
    ///   - scopes: the scopes to search.
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
    /// - Returns: whether it is, in any of the scopes.
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
