// SPDX-License-Identifier: Apache-2.0

public import APNSSession
public import APNSWire
import Dispatch
import GRDB
import Glibc
public import Logging
import Metrics
import NIOConcurrencyHelpers

/// The data of a gateway that survives a restart, in an SQLite file: dead tokens for the feedback service, expected
/// resends of providers, and the certificates with which they were admitted.
///
/// Dead tokens are also in memory, so that event loops never wait for the disk. One thread writes the file, many
/// changes per transaction. A change counts as stored when its transaction is on the disk.
///
/// If the file cannot be written, ``problem`` is set, nothing counts as stored, and writing is retried after a pause.
/// Then all tokens in memory are written. If the file was removed or replaced, so are all expected resends and
/// certificates of the old one. If only a part of it was removed, nothing is written until a restart.
public final class SQLiteGatewayStore: FeedbackListStore, ResendStore, Sendable {
    /// The default limit of tokens.
    ///
    /// A million use about 100 MB of memory.
    public static let countMaxDefault = 1_000_000

    /// How long the gateway may have been down for its resends to be still expected.
    ///
    /// Providers retry for minutes; what they send later is more likely a new notification with the same content.
    static let downtimeMax = Duration.seconds(600)

    /// The maximum number of pending resends; further ones are refused.
    static let pendingResendCountMax = 100_000

    /// The minimum interval of log messages about dropped tokens.
    static let droppedLogPause = Duration.seconds(10)

    /// The number of delivered tokens that are removed at a time, in one transaction.
    private static let portionCount = 8192

    /// The file has whole seconds.
    private static let expiryMargin = Duration.seconds(2)

    /// The delay before writing again after failures.
    private static let backoff = Backoff(first: .milliseconds(250), max: .seconds(15))

    private struct Pending: Sendable {
        var change: GatewayStoreChange
        /// Called when the change is on the disk.
        var onDone: (@Sendable () -> Void)?
    }

    private struct State: Sendable {
        var lists: [TokenScope: FeedbackBuckets] = [:]
        /// The number of tokens in all lists.
        var count = 0
        /// The changes to write, in order.
        var pending: [Pending] = []
        var pendingResendCount = 0
        var admissionTimes = AdmissionTimes()
        var isWriting = false
        /// Why the file cannot be written; then the lists have to be written again.
        var problem: String?
        var failureCount = 0
        var isExpiryScheduled = false
        /// The number of dropped tokens since the last log message, and its time.
        var droppedCount = 0
        var droppedLogTime: ContinuousClock.Instant?
    }

    /// The open file; replaced only on the thread of the store.
    private let database: NIOLockedValueBox<GatewayDatabase>
    private let state: NIOLockedValueBox<State>
    private let feedbackFailures = Counter(label: "apns.legacy.feedback.store.failures")
    private let resendFailures = Counter(label: "apns.legacy.resend.store.failures")
    private let dropped = Counter(label: "apns.legacy.feedback.store.dropped")
    private let countMax: Int
    private let logger: Logger
    private let now: @Sendable () -> Int64
    private let thread = DispatchQueue(label: "gateway store")

    /// Opens a store; it is created if missing.
    ///
    /// - Parameters:
    ///   - path: the path of the file.
    ///   - countMax: the maximum number of tokens; further ones are dropped.
    ///   - logger: receives write failures.
    /// - Throws: ``GatewayStoreError``.
    public convenience init(
        path: String,
        countMax: Int = countMaxDefault,
        logger: Logger = .current
    ) throws(GatewayStoreError) {
        try self.init(path: path, countMax: countMax, logger: logger, now: { Int64(time(nil)) })
    }

    init(
        path: String,
        countMax: Int = countMaxDefault,
        logger: Logger,
        now: @escaping @Sendable () -> Int64
    ) throws(GatewayStoreError) {
        self.countMax = countMax
        self.logger = logger
        self.now = now
        let database = try GatewayDatabase(path: path)
        self.database = NIOLockedValueBox(database)
        do {
            var state = State()
            try database.queue.read { database in
                try GatewayRows.forEachToken(database) { token, failedAt, list in
                    state.lists[list, default: FeedbackBuckets()][token] = failedAt
                    state.count += 1
                }
                try GatewayRows.verifyResends(database)
                do {
                    state.admissionTimes = try GatewayRows.admissionTimes(database)
                } catch {
                    // They only serve a check, and are stored again when providers connect.
                    logger.error("stored certificates not read", metadata: [LogKey.failure: "\(error)"])
                }
            }
            self.state = NIOLockedValueBox(state)
        } catch {
            throw GatewayStoreError(path: path, error)
        }
    }

    /// Verifies a file, also while a gateway uses it, and changes nothing; no file is no error.
    ///
    /// - Throws: ``GatewayStoreError`` if it is damaged or cannot be read.
    package static func check(path: String) throws(GatewayStoreError) { try GatewayDatabase.check(path: path) }

    /// Why the file currently cannot be written; `nil` if it can.
    ///
    /// Changes that are not written are in memory, and writing is retried.
    public var problem: String? { self.state.withLockedValue(\.problem) }

    /// Waits until all changes so far are on the disk, or have failed to be written once more.
    public func flush() async {
        await withCheckedContinuation { continuation in self.thread.async { continuation.resume() } }
    }

    // MARK: Dead tokens

    /// The number of tokens in each list.
    public var counts: [TokenScope: Int] { self.state.withLockedValue { $0.lists.mapValues(\.count) } }

    /// Reads the next page of a list.
    public func page(of list: TokenScope, from index: Int, countMin: Int) -> FeedbackPage {
        self.state.withLockedValue { state in
            state.lists[list]?.page(from: index, countMin: countMin) ?? FeedbackPage(nextIndex: index)
        }
    }

    /// Stores a tuple; of several for a token, the newest counts.
    ///
    /// - Parameters:
    ///   - tuple: the token, and the time of its failure.
    ///   - list: the list.
    ///   - onKept: called once, when the tuple is on the disk, or was dropped, which is logged.
    public func record(_ tuple: FeedbackTuple, in list: TokenScope, onKept: @escaping @Sendable () -> Void) {
        let (isFull, startsWriting) = self.state.withLockedValue { state -> (Bool, Bool) in
            let before = state.lists[list]?[tuple.token]
            guard before != nil || state.count < self.countMax else { return (true, false) }
            if before == nil { state.count += 1 }
            state.lists[list, default: FeedbackBuckets()][tuple.token] = max(before ?? 0, tuple.failedAtSeconds)
            state.pending.append(Pending(change: .put(tuple, list), onDone: onKept))
            return (false, Self.start(&state))
        }
        if isFull {
            self.dropped.increment()
            self.logDrop(list)
            onKept()
        }
        if startsWriting { self.thread.async { self.write() } }
    }

    /// Logs dropped tokens at a limited rate, so that no client can fill a disk.
    private func logDrop(_ list: TokenScope) {
        let count = self.state.withLockedValue { state -> Int? in
            state.droppedCount += 1
            let now = ContinuousClock.now
            if let time = state.droppedLogTime, now - time < Self.droppedLogPause { return nil }
            defer { (state.droppedCount, state.droppedLogTime) = (0, now) }
            return state.droppedCount
        }
        guard let count else { return }
        self.logger.error(
            "feedback store is full",
            metadata: [LogKey.topic: "\(list.topic)", LogKey.tokens: "\(count)"]
        )
    }

    /// Removes a token from its list, since a notification for it was delivered.
    ///
    /// - Parameters:
    ///   - token: the token.
    ///   - list: the list.
    public func forget(_ token: DeviceToken, in list: TokenScope) {
        // Most lists are empty, and this is called for each notification.
        guard self.state.withLockedValue({ $0.count > 0 }) else { return }
        self.remove(CollectionOfOne((token, nil)), in: list)
    }

    /// Removes delivered tokens from a list, if their times are unchanged.
    ///
    /// Most tokens of a long list are removed later, in portions on the thread of the store, so that neither the caller
    /// nor recording is delayed. A list that is opened meanwhile may contain some of them again.
    public func acknowledge(_ tokens: [FeedbackPage.Bucket], in list: TokenScope) {
        var count = 0
        var portionCount = 0
        for bucket in tokens {
            guard count < Self.portionCount else { break }
            self.remove(bucket.lazy.map { ($0.key, $0.value) }, in: list)
            count += bucket.count
            portionCount += 1
        }
        guard portionCount < tokens.count else { return }
        let rest = Array(tokens[portionCount...])
        // After the transaction with the tokens removed above.
        self.thread.async { self.acknowledge(rest, in: list) }
    }

    /// Removes tokens from a list; those with a time only if it is unchanged.
    private func remove(_ tokens: some Sequence<(DeviceToken, UInt32?)>, in list: TokenScope) {
        let startsWriting = self.state.withLockedValue { state -> Bool in
            guard state.count > 0, state.lists[list] != nil else { return false }
            for (token, time) in tokens {
                guard let present = state.lists[list]?[token], time == nil || time == present else { continue }
                state.lists[list]?[token] = nil
                state.count -= 1
                state.pending.append(Pending(change: .remove(token, time, list)))
            }
            return Self.start(&state)
        }
        if startsWriting { self.thread.async { self.write() } }
    }

    // MARK: Expected resends

    /// Returns the expected resends of a provider, and extends their time.
    ///
    /// Entries count that were valid when the gateway stopped, or shortly before, since no provider could resend
    /// meanwhile. If the file cannot be read, this is logged, and the result is empty.
    ///
    /// - Parameters:
    ///   - provider: the provider's name.
    ///   - duration: how long they are expected from now on.
    /// - Returns: the resends, the oldest first.
    public func resends(of provider: String, for duration: Duration) -> [ExpectedResend] {
        let now = self.now()
        let earliest = now - Self.downtimeMax.components.seconds
        let resends: [ExpectedResend]
        do {
            resends = try self.database.withLockedValue(\.queue).read { database in
                try GatewayRows.resends(database, of: provider, at: earliest).map(\.resend)
            }
        } catch {
            self.logger.error(
                "expected resends not read",
                metadata: [LogKey.provider: "\(provider)", LogKey.failure: "\(error)"]
            )
            return []
        }
        guard !resends.isEmpty else { return [] }
        let extend = GatewayStoreChange.extend(
            provider: provider,
            since: earliest,
            until: GatewayRows.end(now, duration)
        )
        do {
            try self.database.withLockedValue(\.queue).write { try GatewayRows($0).apply(extend, now: now) }
        } catch {
            // Such as on a full disk. What is expected is known; its time is written later.
            self.enqueue(extend) {}
        }
        self.scheduleExpiry(after: duration)
        return resends
    }

    /// Stores expected resends.
    public func insert(
        _ resends: [ExpectedResend],
        of provider: String,
        for duration: Duration,
        onKept: @escaping @Sendable (_ isKept: Bool) -> Void
    ) {
        let hasRoom = self.state.withLockedValue { state in
            guard state.pendingResendCount + resends.count <= Self.pendingResendCountMax else { return false }
            state.pendingResendCount += resends.count
            return true
        }
        guard hasRoom else { return onKept(false) }
        self.enqueue(.expect(resends, provider: provider, duration: duration)) { onKept(true) }
        self.scheduleExpiry(after: duration)
    }

    /// Removes one entry with the key of a resend.
    public func remove(
        _ resend: ExpectedResend,
        of provider: String,
        onRemoved: @escaping @Sendable () -> Void
    ) {
        self.enqueue(.forget(resend, provider: provider), onRemoved)
    }

    // MARK: Certificates

    /// Stores the certificate of a provider that was admitted, unless it was stored on the same day.
    ///
    /// The fingerprint is its SHA-256 digest in hexadecimal digits; the chain has it and the further ones that the
    /// provider sent, in DER.
    package func recordAdmission(of fingerprint: String, by provider: String, chain: () -> [[UInt8]]) {
        let now = self.now()
        let (isDue, replaced) = self.state.withLockedValue {
            $0.admissionTimes.record(fingerprint, of: provider, now: now)
        }
        guard isDue else { return }
        let certificate = StoredCertificate(
            provider: provider,
            fingerprint: fingerprint,
            admittedAt: now,
            chain: chain()
        )
        self.enqueue(.admit(certificate, replaced: replaced)) {}
    }

    /// Remembers the folder of a spool.
    package func record(_ spool: StoredSpool) { self.enqueue(.spool(spool)) {} }

    private func enqueue(_ change: GatewayStoreChange, _ onDone: @escaping @Sendable () -> Void) {
        let startsWriting = self.state.withLockedValue { state in
            state.pending.append(Pending(change: change, onDone: onDone))
            return Self.start(&state)
        }
        if startsWriting { self.thread.async { self.write() } }
    }

    /// Removes expired entries even if nothing else is written, so that a later start does not expect them.
    private func scheduleExpiry(after duration: Duration) {
        let isFirst = self.state.withLockedValue { state in
            defer { state.isExpiryScheduled = true }
            return !state.isExpiryScheduled
        }
        guard isFirst else { return }
        let delay = duration + Self.expiryMargin
        self.thread.asyncAfter(deadline: .now() + delay / .seconds(1)) { [weak self] in
            guard let self else { return }
            self.state.withLockedValue { $0.isExpiryScheduled = false }
            let now = self.now()
            let leftCount = try? self.database.withLockedValue(\.queue).write { database in
                try GatewayRows.expire(database, now: now)
                return try Int.fetchOne(database, sql: "SELECT count(*) FROM resend") ?? 0
            }
            if leftCount != 0 { self.scheduleExpiry(after: duration) }
        }
    }

    // MARK: Writing

    /// Returns whether the caller has to start writing.
    private static func start(_ state: inout State) -> Bool {
        guard !state.isWriting, !state.pending.isEmpty else { return false }
        state.isWriting = true
        return true
    }

    /// Writes all changes, including new ones; on the thread of the store.
    private func write() {
        while true {
            let (changes, lists) = self.state.withLockedValue { state in
                defer { state.pending = [] }
                state.isWriting = !state.pending.isEmpty
                return (state.pending, state.problem == nil ? nil : state.lists)
            }
            guard !changes.isEmpty else { return }
            do {
                try self.write(changes, lists)
            } catch {
                self.failed(error, changes)
                return
            }
            self.state.withLockedValue { state in
                state.problem = nil
                state.failureCount = 0
                state.pendingResendCount -= changes.reduce(0) { $0 + $1.change.addedResendCount }
            }
            if lists != nil { self.logger.notice("feedback database writable again") }
            for pending in changes { pending.onDone?() }
        }
    }

    /// Writes changes in one transaction.
    private func write(_ changes: [Pending], _ lists: [TokenScope: FeedbackBuckets]?) throws {
        let current = self.database.withLockedValue { $0 }
        let isInPlace = try current.isInPlace()
        let now = self.now()
        guard let lists else {
            guard isInPlace else {
                throw GatewayStoreError(path: current.path, detail: "the file was removed or replaced")
            }
            return try current.queue.write { try Self.apply(changes, to: $0, now: now) }
        }
        let opened = try GatewayDatabase(path: current.path)
        let isSame = opened.node == current.node
        let resends = isSame ? [] : self.expected(in: current.queue, now: now)
        let certificates = isSame ? [] : self.certificates(in: current.queue, now: now)
        try opened.queue.write { database in
            // Another program's tokens are not removed. Which resends are expected, only this store knows.
            try database.execute(sql: isSame ? "DELETE FROM feedback" : "DELETE FROM resend")
            let rows = try GatewayRows(database)
            for (list, tokens) in lists {
                for (token, failedAt) in tokens.all { try rows.put(token, failedAt, in: list) }
            }
            for resend in resends { try rows.insert(resend.resend, of: resend.provider, until: resend.until) }
            for certificate in certificates { try rows.insert(certificate) }
            try Self.apply(changes, to: database, now: now)
        }
        self.database.withLockedValue { $0 = opened }
    }

    private static func apply(_ changes: [Pending], to database: Database, now: Int64) throws {
        let rows = try GatewayRows(database)
        for pending in changes { try rows.apply(pending.change, now: now) }
        try GatewayRows.expire(database, now: now)
    }

    /// Returns the expected resends in a removed file that is still open.
    private func expected(in old: DatabaseQueue, now: Int64) -> [GatewayRows.Resend] {
        do {
            return try old.read { try GatewayRows.resends($0, at: now) }
        } catch {
            self.logger.error("expected resends lost with the removed database", metadata: [LogKey.failure: "\(error)"])
            return []
        }
    }

    /// Returns the certificates in a removed file that is still open.
    private func certificates(in old: DatabaseQueue, now: Int64) -> [StoredCertificate] {
        do {
            return try old.read { try GatewayRows.certificates($0, since: now - AdmissionTimes.keptSeconds) }
        } catch {
            self.logger.error(
                "certificates of providers lost with the removed database",
                metadata: [LogKey.failure: "\(error)"]
            )
            return []
        }
    }

    private func failed(_ error: any Error, _ changes: [Pending]) {
        let failureCount = self.state.withLockedValue { state in
            state.pending = changes + state.pending
            state.problem = "\(error)"
            state.failureCount += 1
            return state.failureCount
        }
        let pause = Self.backoff.delay(failures: failureCount, jitter: 1)
        let kinds = Set(changes.map(\.change.kind))
        func report(_ kind: GatewayStoreChange.Kind, _ message: Logger.Message, _ counter: Counter?) {
            guard kinds.contains(kind) else { return }
            counter?.increment()
            self.logger.error(message, metadata: [LogKey.failure: "\(error)", LogKey.storePause: "\(pause)"])
        }
        report(.feedback, "feedback not written, retrying", self.feedbackFailures)
        report(.resends, "expected resends not written, retrying", self.resendFailures)
        report(.certificates, "certificates of providers not written, retrying", nil)
        report(.spools, "folders of spools not written, retrying", nil)
        self.thread.asyncAfter(deadline: .now() + pause / .seconds(1)) { self.write() }
    }
}
