// SPDX-License-Identifier: Apache-2.0

public import APNSWire
import FoundationEssentials
import GRDB
import Glibc

/// A durable list of dead tokens: one SQLite file, with its write-ahead file beside it.
///
/// The key is topic, environment and token. Each call is one transaction, which is on the disk when the call returns.
/// Any number of processes may use one file; readers and the one that writes do not wait for each other.
/// Calls block, so they belong on threads that may.
public final class PurgeList: Sendable {
    /// The file.
    public let path: String
    let pool: DatabasePool

    /// How long a call waits for other processes that write.
    public static let busyDuration = Duration.seconds(10)

    /// Opens a list, and brings a file of an older version to this one.
    ///
    /// - Parameters:
    ///   - path: the file.
    ///   - isMade: whether the file is made where it is not there, or empty; the default is `true`.
    /// - Throws: ``PurgeListError``; a file that is no purge list, or of a newer version, is left as it is.
    public init(path: String, isMade: Bool = true) throws {
        self.path = path
        let start = ContinuousClock.now
        while true {
            do {
                self.pool = try PurgeListError.translated(path: path) { try PurgeList.open(path, isMade: isMade) }
                break
            } catch PurgeListError.busy where ContinuousClock.now - start < PurgeList.busyDuration {
                // SQLite does not wait for its own locks while it switches to the write-ahead file, so two that make
                // one list, or open one that another closes, would be sent away at once.
                usleep(PurgeList.openPauseMicroseconds)
            }
        }
    }

    private static let openPauseMicroseconds: UInt32 = 5000

    private static func open(_ path: String, isMade: Bool) throws -> DatabasePool {
        guard isMade || access(path, F_OK) == 0 || errno != ENOENT else { throw PurgeListError.missing(path: path) }
        if isMade { PurgeList.make(path) }
        var status = stat()
        if stat(path, &status) == 0, status.st_mode & S_IFMT != S_IFREG { throw PurgeListError.notAFile(path: path) }
        // Not yet the pool: it would switch to a write-ahead file what may be the database of another program.
        do {
            let queue = try DatabaseQueue(path: path, configuration: PurgeList.configuration)
            try PurgeSchema.migrate(queue, path: path, isMade: isMade)
            try queue.close()
        } catch let error as DatabaseError where error.resultCode == .SQLITE_ERROR {
            // The statements up to here work on each file that is whole.
            throw PurgeListError.corrupt(path: path, detail: error.message ?? "\(error.extendedResultCode)")
        }
        let pool = try DatabasePool(path: path, configuration: PurgeList.configuration)
        // The spool of feedback is given up on the word that the list has it, so its word must outlive the power.
        // What a statement of many rows would undo is a few pages: no reason to need a folder for temporary files.
        try pool.writeWithoutTransaction { database in
            try database.execute(
                sql: """
                    PRAGMA synchronous = FULL; PRAGMA cache_size = -\(PurgeLimits.cacheKibibyteCount);
                    PRAGMA temp_store = MEMORY
                    """
            )
        }
        return pool
    }

    /// Ends the use of this object, which throws from then on.
    ///
    /// Where no other process or object has the list open, what is in the write-ahead file goes to the list, which then
    /// is one file. Otherwise the last one does that. It waits for calls that go on.
    public func close() {
        // Only one that may write can put the files together, so readers go first.
        self.pool.releaseMemory()
        // What is recorded is on the disk, and the next one that opens the list takes it over.
        try? self.pool.close()
    }

    /// Makes an empty file that only its owner can read, since tokens are private data; those beside it become alike.
    ///
    /// Where it cannot, SQLite will say so.
    private static func make(_ path: String) {
        // Never opens a file that is there: closing it would take away locks of other connections in this process.
        let descriptor = Glibc.open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        if descriptor >= 0 { Glibc.close(descriptor) }
    }

    private static var configuration: Configuration {
        var configuration = Configuration()
        configuration.label = "purge list"
        configuration.busyMode = .timeout(PurgeList.busyDuration / .seconds(1))
        configuration.prepareDatabase { database in
            try database.execute(sql: "PRAGMA journal_size_limit = \(PurgeLimits.journalByteCountMax)")
        }
        return configuration
    }

    /// Whether a token is on the list.
    ///
    /// - Parameters:
    ///   - token: the bytes of the token.
    ///   - topic: the app's bundle identifier.
    ///   - environment: where the token is from.
    /// - Returns: whether it is.
    /// - Throws: ``PurgeListError``.
    public func contains(token: [UInt8], topic: String, environment: Environment) throws -> Bool {
        try PurgeListError.translated(path: self.path) {
            try self.pool.read { database in
                try Bool.fetchOne(
                    database,
                    sql: """
                        SELECT EXISTS (SELECT 1 FROM dead JOIN scope ON scope.id = dead.scope
                        WHERE topic = ? AND environment = ? AND token = ?)
                        """,
                    arguments: [topic, environment.rawValue, Data(token)]
                ) ?? false
            }
        }
    }
}
