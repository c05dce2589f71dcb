// SPDX-License-Identifier: Apache-2.0

public import APNSWire

/// Looks up many tokens in a list, with at most 8 MiB of memory.
///
/// It finds tokens that were on the list at its creation and were not removed since.
public struct PurgeLookup: Sendable {
    private let list: PurgeList
    private let scopes: [PurgeScope]
    private let areLasting: Bool
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
        (self.scopes, self.areLasting, self.filter) = try list.read { content in
            let found = Set(scopes).compactMap { content.scopes[$0] }
            return (found, content.scopes.areLasting, try PurgeFilter(content, found, path: list.path))
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
        guard self.areLasting else {
            // Another process may upgrade the list meanwhile.
            return try self.scopes.map(\.scope).contains { scope in
                try self.list.contains(token: unsafe Array(token), topic: scope.topic, environment: scope.environment)
            }
        }
        return try unsafe self.list.contains(token, in: self.scopes)
    }
}
