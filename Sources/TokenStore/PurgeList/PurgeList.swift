// SPDX-License-Identifier: Apache-2.0

public import APNSWire
import FileSupport
import Glibc

/// A durable list of dead tokens: an SQLite file with its write-ahead log, or tables of a PostgreSQL database, which
/// many hosts share.
///
/// The key consists of topic, environment and token. Each call is one transaction, which is on the disk when the call
/// returns. Any number of processes can use one list; readers and the writer do not wait for each other. Calls block,
/// so make them on threads that may block.
///
/// A list in a PostgreSQL database (13 or later) requires the package trait `PostgreSQL`. The server verifies its own
/// files, so the list has no checksums.
public final class PurgeList: Sendable {
    /// The path of the file, or the address of the database.
    public let path: String
    let storage: any PurgeStorage

    /// How long a call waits for other writing processes.
    public static let busyTimeout = Duration.seconds(10)

    /// Opens a list.
    ///
    /// A file of an older version is upgraded by its first change, see ``hasChecksums()``.
    ///
    /// - Parameters:
    ///   - path: the path of the file, or the address of a PostgreSQL database, such as `postgresql://app@host/app`,
    ///     without a password.
    ///   - isMade: whether a missing or empty file becomes a new list, and missing tables are created; by default
    ///     `true`.
    /// - Throws: ``PurgeListError``; a file that is not a purge list, or of a newer version, is not changed.
    public init(path: String, isMade: Bool = true) throws {
        self.path = path
        guard PurgeList.isAddress(path) else {
            self.storage = try SQLitePurgeStorage(path, isMade: isMade)
            return
        }
        #if PostgreSQL
        self.storage = try PostgreSQLPurgeStorage(path, isMade: isMade)
        #else
        throw PurgeListError.server(.invalidAddress(detail: "this program is built without the trait PostgreSQL"))
        #endif
    }

    /// Whether a text is the address of a PostgreSQL database, instead of a path.
    package static func isAddress(_ text: String) -> Bool {
        ["postgresql://", "postgres://"].contains { text.lowercased().hasPrefix($0) }
    }

    /// A folder for files of the list's user: that of the list, or of a shared list, the one for temporary files.
    package var folderForFiles: String {
        guard PurgeList.isAddress(self.path) else { return Folder.of(self.path) }
        return unsafe getenv("TMPDIR").map { unsafe String(cString: $0) } ?? "/tmp"
    }

    /// Closes the list.
    ///
    /// Later calls throw.
    ///
    /// If nobody else has the list open, the write-ahead log is merged into the file; otherwise the last one to close
    /// it does so. It waits for calls in progress.
    public func close() { self.storage.close() }

    /// Reads the list in one transaction.
    func read<Value>(_ body: (PurgeContent) throws -> Value) throws -> Value { try self.storage.read(body) }

    /// A snapshot of the list for many reads.
    func snapshot() throws -> any PurgeSnapshot { try self.storage.snapshot() }

    /// Whether a token is dead in one of some scopes, whose identifiers are lasting.
    func contains(_ token: UnsafeRawBufferPointer, in scopes: [PurgeScope]) throws -> Bool {
        try unsafe self.storage.contains(token, in: scopes)
    }

    /// The time, in seconds since 1970.
    static var now: Int64 { Int64(time(nil)) }

    // MARK: Recording

    /// Records dead tokens in one transaction.
    ///
    /// For existing tokens, the newest failure with its source and the earliest first-seen time are kept, so the order
    /// of recording does not matter. A failure before a known registration is not recorded. A failure more than a day
    /// in the future is dated to the time of the call, since it would override every later registration. The entries
    /// are sorted, if necessary in an unnamed file next to the list, so a lazy sequence of any length needs little
    /// memory. One call with many entries is much faster than many calls.
    ///
    /// - Parameter entries: the tokens; iterating must not use this list.
    /// - Returns: how many were new.
    /// - Throws: ``PurgeListError``; then nothing is recorded, except with ``PurgeListError/replaced(path:)``, which is
    ///   about another file than the one at the path.
    @discardableResult
    public func record(_ entries: some Sequence<PurgeEntry>) throws -> PurgeChange {
        try self.record(entries, batchEntryCount: PurgeLimits.batchEntryCount)
    }

    /// Records with a given number of entries in memory.
    package func record(_ entries: some Sequence<PurgeEntry>, batchEntryCount: Int) throws -> PurgeChange {
        try self.storage.record(entries, batchEntryCount: batchEntryCount)
    }

    /// Removes tokens that registered later than they failed, in one transaction.
    ///
    /// Registrations are remembered, whether or not the token is on the list, so that an older failure that is recorded
    /// later does not add it again: for each matching known topic and environment, and for a new one if both are given.
    /// They expire with ``expire(failedBefore:)``.
    ///
    /// - Parameters:
    ///   - registrations: the tokens; iterating must not use this list.
    ///   - topic: the topic of the registrations; `nil` for all.
    ///   - environment: the environment; `nil` for both.
    /// - Returns: the counts.
    /// - Throws: ``PurgeListError``; then nothing is removed.
    @discardableResult
    public func forget(
        _ registrations: some Sequence<PurgeRegistration>,
        topic: String? = nil,
        environment: PushEnvironment? = nil
    ) throws -> PurgeForgetResult {
        try self.storage.forget(registrations, topic: topic, environment: environment)
    }

    // MARK: Reading

    /// Whether the rows have checksums, which detect damage.
    ///
    /// A list of an older version has none until its first change, which computes them from the current content, so
    /// that earlier damage stays undetected.
    ///
    /// - Returns: whether it has them.
    /// - Throws: ``PurgeListError``.
    public func hasChecksums() throws -> Bool { try self.read { $0.scopes.hasChecksums } }

    /// What cannot be verified, for a user; `nil` for a list with checksums.
    package func warning() throws -> String? { try self.storage.warning() }

    /// Whether a token is on the list.
    ///
    /// - Parameters:
    ///   - token: the bytes of the token.
    ///   - topic: the app's bundle identifier.
    ///   - environment: the environment of the token.
    /// - Returns: whether it is on the list.
    /// - Throws: ``PurgeListError``.
    public func contains(token: [UInt8], topic: String, environment: PushEnvironment) throws -> Bool {
        try self.read { content in
            let scope = content.scopes[TokenScope(topic: topic, environment: environment)]
            guard let scope else { return false }
            return try unsafe token.withUnsafeBytes { try unsafe content.dead.find($0, in: scope) != nil }
        }
    }

    /// Calls `body` with entries, ordered by topic, environment (production first) and token bytes.
    ///
    /// It reads a snapshot, and uses little memory for any number of entries. All entries of the topic and environment
    /// are read and verified, so missing ones cause an error after the others.
    ///
    /// - Parameters:
    ///   - query: the conditions.
    ///   - body: receives each entry; it must not use this list.
    /// - Throws: ``PurgeListError``, and errors of `body`.
    public func entries(matching query: PurgeQuery = PurgeQuery(), body: (PurgeEntry) throws -> Void) throws {
        try self.read { content in
            let rows = content.dead
            for scope in content.scopes.matching(query) {
                try unsafe rows.forEach(in: scope) { token, row in
                    guard unsafe query.matches(token, row) else { return true }
                    let source = try rows.sourceName(row)
                    guard query.source.map({ $0.utf8.elementsEqual(source.utf8) }) ?? true else { return true }
                    try body(
                        PurgeEntry(
                            topic: scope.scope.topic,
                            environment: scope.scope.environment,
                            token: unsafe Array(token),
                            failedAt: row.time,
                            firstSeen: row.firstSeen,
                            source: source
                        )
                    )
                    return true
                }
            }
        }
    }

    /// Returns the topics and environments that have entries, in order.
    ///
    /// - Throws: ``PurgeListError``.
    public func scopes() throws -> [TokenScope] {
        try self.read { content in
            try content.scopes.matching(PurgeQuery()).filter { try content.scopes.entryCount($0) > 0 }.map(\.scope)
        }
    }

    // MARK: Scopes

    /// Adds a topic and environment, possibly without entries.
    ///
    /// Empty feedback means that all devices of the topic are alive, which matters for tokens that must be dead in
    /// several topics.
    ///
    /// - Parameter scope: the topic and environment.
    /// - Throws: ``PurgeListError``.
    public func addScope(_ scope: TokenScope) throws {
        try PurgeEntry.check(scope.topic, field: "topic")
        try self.storage.add(scope)
    }

    /// Returns all topics and environments that were ever added, even without entries, in order.
    ///
    /// - Throws: ``PurgeListError``.
    public func knownScopes() throws -> [TokenScope] {
        try self.read { $0.scopes.matching(PurgeQuery()).map(\.scope) }
    }

    // MARK: Maintenance

    /// Counts the entries, which reads the whole list.
    ///
    /// - Returns: the counts by topic, environment and source.
    /// - Throws: ``PurgeListError``.
    public func statistics() throws -> PurgeStatistics {
        try self.read { content in
            var parts: [PurgeStatistics.Part] = []
            let rows = content.dead
            for scope in content.scopes.matching(PurgeQuery()) {
                var sources: [Int64: PurgeStatistics.Part] = [:]
                try unsafe rows.forEach(in: scope) { _, row in
                    let source = row.source?.identifier ?? 0
                    if sources[source] == nil {
                        sources[source] = PurgeStatistics.Part(
                            scope: scope.scope,
                            source: try rows.sourceName(row),
                            count: 0,
                            oldestFailureSeconds: row.time,
                            newestFailureSeconds: row.time
                        )
                    }
                    sources[source]?.add(row.time)
                    return true
                }
                parts += sources.values.sorted { $0.source.utf8.lexicographicallyPrecedes($1.source.utf8) }
            }
            return PurgeStatistics(parts: parts)
        }
    }

    /// Removes tokens whose last failure is before a time, which no table has any more, and earlier registrations.
    ///
    /// Registrations are removed in no other way.
    ///
    /// - Parameter time: the time.
    /// - Returns: the number of removed tokens.
    /// - Throws: ``PurgeListError``; then nothing is removed.
    @discardableResult
    public func expire(failedBefore time: Timestamp) throws -> Int {
        try self.expire(failedBefore: time.secondsRoundedUp)
    }

    /// Removes tokens whose last failure is before a time in seconds since 1970 (UTC), and earlier registrations.
    @discardableResult
    package func expire(failedBefore time: Int64) throws -> Int { try self.storage.expire(failedBefore: time) }

    /// Verifies the whole file: what SQLite can verify, and all checksums.
    ///
    /// - Throws: ``PurgeListError/corrupt(path:detail:)`` if the file is damaged, and
    ///   ``PurgeListError/futureFailure(path:time:)``.
    public func checkIntegrity() throws {
        try self.storage.checkIntegrity()
        let latest = PurgeList.latestFailure
        try self.read { content in
            for scope in content.scopes.all {
                try unsafe content.dead.forEach(in: scope) { _, row in
                    try PurgeList.check(failure: row.time, latest: latest, path: self.path)
                    return true
                }
            }
        }
    }

    /// The latest failure that is believed, since one in the future would override every later registration.
    static var latestFailure: Int64 { self.now + PurgeLimits.clockSkewSecondsMax }

    /// Validates a failure that decides whether a token is dead.
    static func check(failure: Int64, latest: Int64, path: String) throws {
        guard failure <= latest else { throw PurgeListError.futureFailure(path: path, time: failure) }
    }
}
