// SPDX-License-Identifier: Apache-2.0

import APNSSession
import GRDB

/// The database of a store of a gateway, open.
struct GatewayDatabase: Sendable {
    let queue: DatabaseQueue
    /// What tells whether the file is still in its place.
    let node: FileNode

    /// How long to wait before writing again after failures.
    static let backoff = Backoff(first: .milliseconds(250), max: .seconds(15))

    /// Opens a database, and makes it where it is not there.
    ///
    /// - Parameters:
    ///   - path: the file.
    ///   - label: the name of the store.
    ///   - prepare: makes the tables.
    /// - Throws: ``GatewayStoreError``.
    init(path: String, label: String, prepare: (Database) throws -> Void) throws(GatewayStoreError) {
        do {
            var configuration = Configuration()
            configuration.label = label
            configuration.busyMode = .timeout(10)
            FileNode.makePrivate(path)
            self.queue = try DatabaseQueue(path: path, configuration: configuration)
            try self.queue.writeWithoutTransaction { database in
                try database.execute(sql: "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")
                try prepare(database)
            }
        } catch let error as GatewayStoreError {
            throw error
        } catch {
            throw GatewayStoreError(path: path, detail: "\(error)")
        }
        guard let node = FileNode(path: path) else { throw GatewayStoreError(path: path, detail: "it is gone") }
        self.node = node
    }
}
