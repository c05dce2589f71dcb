// SPDX-License-Identifier: Apache-2.0

public import APNSWire
import GRDB

/// Looks up many tokens in a list, with at most 8 MiB of memory.
///
/// It finds tokens that were on the list at its creation and were not removed since.
public struct PurgeLookup: Sendable {
    private let list: PurgeList
    private let scopes: [PurgeScope]
    private let hasChecksums: Bool
    private let filter: PurgeFilter

    /// The number of tokens that can be found.
    public var tokenCount: Int { self.filter.tokenCount }

    /// Reads and verifies the tokens of some topics and environments once.
    ///
    /// - Parameters:
    ///   - list: the list.
    ///   - scopes: the scopes to search.
    /// - Throws: ``PurgeListError``.
    public init(_ list: PurgeList, in scopes: [TokenScope]) throws {
        self.list = list
        (self.scopes, self.hasChecksums, self.filter) = try list.read { database in
            let known = try PurgeScopes(database)
            let found = Set(scopes).compactMap { known[$0] }
            let rows = try PurgeRows(database, .dead, hasChecksums: known.hasChecksums)
            return (found, known.hasChecksums, try PurgeFilter(rows, found, of: known, path: list.path))
        }
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
        guard self.hasChecksums else {
            // Another process may upgrade the list meanwhile.
            return try self.scopes.map(\.scope).contains { scope in
                try self.list.contains(token: unsafe Array(token), topic: scope.topic, environment: scope.environment)
            }
        }
        return try self.list.readStatement { database in
            let rows = try PurgeRows(database, .dead, hasChecksums: true)
            return try self.scopes.contains { try unsafe rows.find(token, in: $0) != nil }
        }
    }
}
