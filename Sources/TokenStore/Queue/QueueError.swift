// SPDX-License-Identifier: Apache-2.0

/// Why a command on a queue cannot be done.
package enum QueueError: Error, Hashable, Sendable {
    /// This build has no client of PostgreSQL.
    case notSupported
    /// The database has no queue.
    case missing(database: String)
    /// The queue is of another version.
    case version(Int64, database: String)
    /// There is already a queue.
    case present(database: String)
    /// There is no such batch.
    case unknownBatch(Int64)
    /// The batch was cancelled while it was loaded.
    case cancelled(Int64)
    /// The batch is done.
    case done(Int64)
    /// The packed notifications of a chunk, or its numbers, are damaged.
    case damaged(QueueChunkKey)
    /// Another transaction held a lock for too long, or a statement took too long.
    case busy(database: String)
    /// There is no connection to the server, or it was lost.
    case connectionLost(database: String, detail: String)
    /// The user of the database has no permission.
    case notPermitted(database: String, detail: String)
    /// The address to listen at delivers no notifications.
    case notHeard(database: String)
    /// The connection was lost when the batch was to become ready.
    case uncertain(batch: Int64, detail: String)
}

extension QueueError: CustomStringConvertible {
    package var description: String {
        switch self {
        case .notSupported:
            "this program is built without the trait PostgreSQL, which queues need; build it with --traits "
                + "CommandLine,PostgreSQL"
        case .missing(let database): "database \(database) has no queue; create one with: apns-legacy queue init"
        case .version(let version, let database):
            "the queue of database \(database) has version \(version), which this program does not know; update it"
        case .present(let database): "database \(database) already has a queue (schema apns_queue)"
        case .unknownBatch(let batch): "the queue has no batch \(batch); queue status shows all"
        case .cancelled(let batch): "batch \(batch) was cancelled while it was loaded"
        case .done(let batch): "batch \(batch) is done; there is nothing to cancel"
        case .damaged(let key):
            "chunk \(key.number) of batch \(key.batch) is damaged and not sent; load its lines again as another batch"
        case .busy(let database): "database \(database) did not finish a statement in time; run the command again"
        case .connectionLost(let database, let detail):
            "no connection to database \(database): \(detail); run again when the server can be reached"
        case .notPermitted(let database, let detail):
            "database \(database): \(detail); the user that ran queue init owns the queue; grant others its schema "
                + "apns_queue and all its tables"
        case .notHeard(let database):
            "database \(database) delivers no notifications, as behind a pooler in transaction mode; this worker polls "
                + "instead; give --listen the address of the server itself"
        case .uncertain(let batch, let detail):
            "the connection was lost when batch \(batch) was complete (\(detail)); if queue status shows it as "
                + "loading, cancel it, and load it again"
        }
    }
}
