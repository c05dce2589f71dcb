// SPDX-License-Identifier: Apache-2.0

import APNSSession
import FileSupport
import GRDB

/// The open database of a gateway store.
struct GatewayDatabase: Sendable {
    let queue: DatabaseQueue
    /// Identifies the opened file: SQLite keeps writing to a file that was removed or replaced, where the data would be
    /// lost.
    let node: FileIdentity

    /// The delay before writing again after failures.
    static let backoff = Backoff(first: .milliseconds(250), max: .seconds(15))

    /// Opens a database; it is created if missing.
    ///
    /// - Parameters:
    ///   - path: the path of the file.
    ///   - label: the name of the store.
    ///   - prepare: creates the tables.
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
        guard let node = FileIdentity(path: path) else { throw GatewayStoreError(path: path, detail: "it was removed") }
        self.node = node
    }
}
