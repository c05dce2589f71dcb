// SPDX-License-Identifier: Apache-2.0

import APNSWire
import GRDB

extension PurgeList {
    /// Makes a topic and environment known, though nothing may be dead there.
    ///
    /// Feedback that was read and had nothing says that all its devices are alive, which counts where a token must be
    /// dead in several topics.
    ///
    /// - Parameter scope: the topic and environment.
    /// - Throws: ``PurgeListError``.
    public func addScope(_ scope: PurgeScope) throws {
        try PurgeEntry.check(scope.topic, field: "topic")
        try PurgeListError.translated(path: self.path) {
            _ = try self.pool.write { try PurgeList.add(scope, to: $0) }
        }
    }

    /// The topics and environments that were ever recorded or made known, also where nothing is dead now, in order.
    ///
    /// - Throws: ``PurgeListError``.
    public func knownScopes() throws -> [PurgeScope] {
        try PurgeListError.translated(path: self.path) {
            try self.pool.read { try PurgeList.scopes($0, matching: PurgeQuery()).map(\.scope) }
        }
    }

    /// Finds the number of a scope, which is made where there is none.
    static func add(_ scope: PurgeScope, to database: Database) throws -> Int64? {
        try database.execute(
            sql: "INSERT INTO scope (topic, environment) VALUES (?, ?) ON CONFLICT DO NOTHING",
            arguments: [scope.topic, scope.environment.rawValue]
        )
        return try Int64.fetchOne(
            database,
            sql: "SELECT id FROM scope WHERE topic = ? AND environment = ?",
            arguments: [scope.topic, scope.environment.rawValue]
        )
    }
}
