// SPDX-License-Identifier: Apache-2.0

import APNSWire

/// The content of a purge list in one transaction, wherever the list is.
struct PurgeContent {
    let scopes: PurgeScopes
    /// The dead tokens.
    let dead: any PurgeRowReader
}

/// Reads the dead or the registered tokens of a list in a transaction.
protocol PurgeRowReader {
    /// Returns the name of the source of a row.
    func sourceName(_ row: PurgeRow) throws -> String

    /// Reads the row of a token.
    func find(_ token: UnsafeRawBufferPointer, in scope: PurgeScope) throws -> PurgeRow?

    /// Calls `body` with the tokens of a scope after another one, in the order of their bytes, until it returns
    /// `false`.
    func forEach(
        in scope: PurgeScope,
        after first: [UInt8],
        _ body: (_ token: UnsafeRawBufferPointer, PurgeRow) throws -> Bool
    ) throws
}

extension PurgeRowReader {
    /// Calls `body` with the tokens of a scope, in the order of their bytes, until it returns `false`.
    func forEach(
        in scope: PurgeScope,
        _ body: (_ token: UnsafeRawBufferPointer, PurgeRow) throws -> Bool
    ) throws {
        try unsafe self.forEach(in: scope, after: [], body)
    }
}

/// Where a purge list is; each call is one transaction.
protocol PurgeStorage: Sendable {
    /// Reads a consistent state of the list.
    func read<Value>(_ body: (PurgeContent) throws -> Value) throws -> Value

    /// A state of the list, for many reads.
    func snapshot() throws -> any PurgeSnapshot

    /// Whether a token is dead in one of some scopes, which the same storage has returned.
    func contains(_ token: UnsafeRawBufferPointer, in scopes: [PurgeScope]) throws -> Bool

    func record(_ entries: some Sequence<PurgeEntry>, batchEntryCount: Int) throws -> PurgeChange

    func forget(
        _ registrations: some Sequence<PurgeRegistration>,
        topic: String?,
        environment: PushEnvironment?
    ) throws -> PurgeForgetResult

    func add(_ scope: TokenScope) throws

    func expire(failedBefore time: Int64) throws -> Int

    /// Verifies what only the storage knows.
    func checkIntegrity() throws

    /// What cannot be verified, for a user.
    func warning() throws -> String?

    /// Reads what was recorded since the last mark of a consumer; `nil` for a list in a file, which has no marks.
    func changes(for consumer: String, _ body: (PurgeEntry) throws -> Void) throws -> PurgeMark?

    func advance(_ consumer: String, to mark: PurgeMark) throws

    func acquireLease(of name: String, for duration: Duration, holder: String) throws -> PurgeLease.Acquisition?

    func renew(_ lease: PurgeLease, for duration: Duration) throws -> Bool

    func close()
}

/// One state of a list.
protocol PurgeSnapshot {
    func read<Value>(_ body: (PurgeContent) throws -> Value) throws -> Value
}

// MARK: Rules

extension PurgeRow {
    /// The row of a token after another failure: the newest failure with its source, and the earliest first-seen time.
    ///
    /// Returns `nil` if the other one has no new information.
    func updated(with new: PurgeRow, latestFailure: Int64) -> PurgeRow? {
        let isNewer = new.time > self.time || self.time > latestFailure
        guard isNewer || new.firstSeen < self.firstSeen else { return nil }
        var row = isNewer ? new : self
        row.firstSeen = min(new.firstSeen, self.firstSeen)
        return row
    }

    /// Whether a registration of the token proves that it is alive; `nil` is a manual removal.
    func isSuperseded(byRegistrationAt time: Int64?) -> Bool { self.time < time ?? .max }
}

extension PurgeRegistration {
    /// Validates the time.
    func check() throws {
        if let time = self.registeredAtSeconds, !PurgeLimits.times.contains(time) {
            throw PurgeListError.time(field: "registeredAt", time)
        }
    }
}
