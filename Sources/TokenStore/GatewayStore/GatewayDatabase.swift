// SPDX-License-Identifier: Apache-2.0

import APNSSession
import FileSystemSupport
import GRDB

/// The database of a store of a gateway, open.
struct GatewayDatabase: Sendable {
    let queue: DatabaseQueue
    /// Tells whether the file is still in its place: SQLite goes on writing to one that was removed or replaced, where
    /// nobody finds it again.
    let node: FileIdentity

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
            PrivateFile.make(path)
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
        guard let node = FileIdentity(path: path) else { throw GatewayStoreError(path: path, detail: "it is gone") }
        self.node = node
    }
}
