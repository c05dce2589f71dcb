// SPDX-License-Identifier: Apache-2.0

public import APNSWire
import GRDB

/// One transaction that removes tokens.
struct PurgeDeletion {
    private let scopes: PurgeScopes
    private let dead: PurgeRows
    private let registered: PurgeRows
    private let delete: PurgeStatement
    private let insert: PurgeInsertion
    private let update: PurgeStatement

    init(_ database: Database, _ scopes: PurgeScopes) throws {
        self.scopes = scopes
        self.dead = try PurgeRows(database, .dead, hasChecksums: true)
        self.registered = try PurgeRows(database, .registered, hasChecksums: true)
        self.delete = try PurgeStatement(database, sql: "DELETE FROM dead_token WHERE scope = ?1 AND token = ?2")
        self.insert = try PurgeInsertion(database, .registered)
        self.update = try PurgeStatement(
            database,
            sql: "UPDATE registered_token SET registered_at = ?3, checksum = ?4 WHERE scope = ?1 AND token = ?2"
        )
    }

    func forget(
        _ registration: PurgeRegistration,
        in scopes: [PurgeScope],
        _ result: inout PurgeForgetResult
    ) throws {
        try registration.check()
        try unsafe registration.token.withUnsafeBytes { token in
            var isKnown = false
            for scope in scopes {
                let entry = try unsafe self.dead.find(token, in: scope)
                if let time = registration.registeredAtSeconds { try unsafe self.remember(token, time, scope) }
                guard let entry else { continue }
                isKnown = true
                guard entry.isSuperseded(byRegistrationAt: registration.registeredAtSeconds) else {
                    result.keptCount += 1
                    continue
                }
                self.delete.bind(scope.identifier, at: 1)
                unsafe self.delete.bind(token, at: 2)
                result.forgottenCount += try self.delete.run()
                let checksum = unsafe entry.checksum(token, in: scope)
                self.scopes.update(scope.identifier) { $0[.dead].remove(checksum) }
            }
            if !isKnown { result.unknownCount += 1 }
            if scopes.isEmpty, registration.registeredAtSeconds != nil { result.unrememberedCount += 1 }
        }
    }

    /// Remembers a registration; an unchanged one writes nothing, since all of them may be imported each night.
    private func remember(_ token: UnsafeRawBufferPointer, _ time: Int64, _ scope: PurgeScope) throws {
        let new = PurgeRow(time: time, firstSeen: 0, source: nil)
        guard let old = try unsafe self.registered.find(token, in: scope) else {
            let checksum = try unsafe self.insert.insert(token, new, in: scope)
            self.scopes.update(scope.identifier) { $0[.registered].add(checksum) }
            return
        }
        guard old.time < time else { return }
        let (oldChecksum, checksum) = unsafe (old.checksum(token, in: scope), new.checksum(token, in: scope))
        self.update.bind(scope.identifier, at: 1)
        unsafe self.update.bind(token, at: 2)
        self.update.bind(time, at: 3)
        self.update.bind(Int64(bitPattern: checksum), at: 4)
        _ = try self.update.run()
        self.scopes.update(scope.identifier) { scope in
            scope[.registered].remove(oldChecksum)
            scope[.registered].add(checksum)
        }
    }
}

/// A token that an app registered, for the first time or again.
public struct PurgeRegistration: Hashable, Sendable {
    /// The token, 1 to 100 bytes.
    public var token: [UInt8]
    /// When, in seconds since 1970 (UTC), which may be outside of the valid times; `nil` for a manual removal.
    package var registeredAtSeconds: Int64?

    /// When; `nil` for a manual removal, which applies to any time of failure.
    ///
    /// Parts of a second are omitted, as in the time of a failure.
    public var registeredAt: Timestamp? {
        get { self.registeredAtSeconds.map { Timestamp(secondsSince1970: $0) } }
        set { self.registeredAtSeconds = newValue?.secondsSince1970 }
    }

    /// Creates a registration.
    ///
    /// - Parameters:
    ///   - token: 1 to 100 bytes.
    ///   - registeredAt: when; `nil` to apply to any time of failure.
    public init(token: [UInt8], registeredAt: Timestamp?) {
        self.init(token: token, registeredAtSeconds: registeredAt?.secondsSince1970)
    }

    /// Creates a registration from seconds since 1970 (UTC), which are validated when it is used.
    package init(token: [UInt8], registeredAtSeconds: Int64?) {
        self.token = token
        self.registeredAtSeconds = registeredAtSeconds
    }
}

/// The result of ``PurgeList/forget(_:topic:environment:)``.
public struct PurgeForgetResult: Hashable, Sendable {
    /// Removed entries.
    public var forgottenCount = 0
    /// Entries that were kept, since they failed at the time of the registration or later.
    public var keptCount = 0
    /// Tokens that were not on the list.
    public var unknownCount = 0
    /// Registrations that are not remembered, since the list has no matching topic and environment.
    public var unrememberedCount = 0

    /// Creates zero counts.
    public init() {}
}

extension PurgeForgetResult {
    /// Adds the counts of another call.
    ///
    /// - Parameters:
    ///   - result: the counts to change.
    ///   - other: the counts to add.
    public static func += (result: inout PurgeForgetResult, other: PurgeForgetResult) {
        result.forgottenCount += other.forgottenCount
        result.keptCount += other.keptCount
        result.unknownCount += other.unknownCount
        result.unrememberedCount += other.unrememberedCount
    }
}
