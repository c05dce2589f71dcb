// SPDX-License-Identifier: Apache-2.0

import APNSWire
import GRDB

/// A topic and environment of a list, with the totals of its rows.
struct PurgeScope {
    let identifier: Int64
    let scope: TokenScope
    private var dead = PurgeTotal()
    private var registered = PurgeTotal()
    /// The checksum of the names, with which that of each row begins.
    private let seed: CRC64

    init(identifier: Int64, scope: TokenScope) {
        self.identifier = identifier
        self.scope = scope
        var seed = CRC64()
        seed.add(scope.topic)
        seed.add(scope.environment.rawValue)
        self.seed = seed
    }

    subscript(table: PurgeRows.Table) -> PurgeTotal {
        get { table == .dead ? self.dead : self.registered }
        set { if table == .dead { self.dead = newValue } else { self.registered = newValue } }
    }

    /// The checksum of a row of this scope.
    func checksum(
        _ token: UnsafeRawBufferPointer,
        time: Int64,
        firstSeen: Int64 = 0,
        sourceChecksum: UInt64 = 0
    ) -> UInt64 {
        var checksum = self.seed
        unsafe checksum.add(token)
        checksum.add(UInt64(token.count))
        checksum.add(UInt64(bitPattern: time))
        checksum.add(UInt64(bitPattern: firstSeen))
        checksum.add(sourceChecksum)
        return checksum.value
    }

    /// The checksum of this scope's own row.
    fileprivate var checksum: UInt64 {
        var checksum = self.seed
        checksum.add(UInt64(bitPattern: self.identifier))
        for total in [self.dead, self.registered] {
            checksum.add(UInt64(bitPattern: total.count))
            checksum.add(total.sum)
        }
        return checksum.value
    }

    fileprivate var values: StatementArguments {
        [
            self.dead.count, Int64(bitPattern: self.dead.sum), self.registered.count,
            Int64(bitPattern: self.registered.sum), self.identifier,
        ]
    }
}

/// The topics and environments of a list in a transaction, verified if the list has checksums.
final class PurgeScopes {
    /// The largest believable number of rows of a scope.
    private static let countMax: Int64 = 1 << 40

    /// Whether the rows have checksums.
    let hasChecksums: Bool
    /// How scopes are changed in a file; `nil` for a list on a server.
    private let database: Database?
    /// Counts the entries of a scope.
    private let countEntries: (PurgeScope) throws -> Int
    private(set) var all: [PurgeScope] = []
    private var indices: [TokenScope: Int] = [:]
    private var identifierIndices: [Int64: Int] = [:]
    /// The checksums of the rows in the file.
    private var storedChecksums: [UInt64] = []

    /// - Throws: `DatabaseError` if they are damaged.
    init(_ database: Database) throws {
        self.database = database
        self.hasChecksums = try PurgeSchema.hasChecksums(database)
        self.countEntries = { scope in
            let sql = "SELECT count(*) FROM dead WHERE scope = ?"
            return try Int.fetchOne(database, sql: sql, arguments: [scope.identifier]) ?? 0
        }
        // In the order of the table: a damaged index may lack rows.
        let rows = try Row.fetchCursor(
            database,
            sql: self.hasChecksums
                ? """
                SELECT id, topic, environment, dead_count, dead_sum, registered_count, registered_sum
                FROM token_scope ORDER BY id
                """ : "SELECT id, topic, environment, 0, 0, 0, 0 FROM scope ORDER BY id"
        )
        var total = PurgeTotal()
        while let row = try rows.next() {
            guard let environment = PushEnvironment(rawValue: try row.value(2)) else { throw PurgeDamage.kind.error }
            let scope = TokenScope(topic: try row.value(1), environment: environment)
            var member = PurgeScope(identifier: try row.value(0), scope: scope)
            member[.dead] = PurgeTotal(count: try row.value(3), sum: try row.value(4))
            member[.registered] = PurgeTotal(count: try row.value(5), sum: try row.value(6))
            // So that sums of counts cannot overflow.
            guard [member[.dead], member[.registered]].allSatisfy({ (0...Self.countMax).contains($0.count) }) else {
                throw PurgeDamage.scopes.error
            }
            self.append(member)
            total.add(member.checksum)
        }
        guard self.hasChecksums else { return }
        let stored = try Row.fetchOne(database, sql: "SELECT scope_count, scope_sum FROM list_total WHERE id = 1")
        guard let stored, try total == PurgeTotal(count: stored.value(0), sum: stored.value(1)) else {
            throw PurgeDamage.scopes.error
        }
    }

    /// The scopes of a list on a server, which has no checksums of its own.
    init(_ members: [PurgeScope], countEntries: @escaping (PurgeScope) throws -> Int) {
        self.database = nil
        self.hasChecksums = false
        self.countEntries = countEntries
        members.forEach(self.append)
    }

    /// Appends a scope that the list has.
    func append(_ member: PurgeScope) {
        self.indices[member.scope] = self.all.count
        self.identifierIndices[member.identifier] = self.all.count
        self.all.append(member)
        self.storedChecksums.append(member.checksum)
    }

    subscript(_ scope: TokenScope) -> PurgeScope? { self.indices[scope].map { self.all[$0] } }

    subscript(identifier identifier: Int64) -> PurgeScope? {
        self.identifierIndices[identifier].map { self.all[$0] }
    }

    /// Returns the scopes of a query, ordered by topic and environment.
    func matching(_ query: PurgeQuery) -> [PurgeScope] {
        self.all.filter { member in
            query.topic.map { $0.utf8.elementsEqual(member.scope.topic.utf8) } ?? true
                && query.environment ?? member.scope.environment == member.scope.environment
        }
        .sorted { left, right in
            if left.scope.topic.utf8.elementsEqual(right.scope.topic.utf8) {
                return left.scope.environment.rawValue < right.scope.environment.rawValue
            }
            return left.scope.topic.utf8.lexicographicallyPrecedes(right.scope.topic.utf8)
        }
    }

    /// Whether the identifiers of scopes stay valid; the upgrade of a file changes them.
    var areLasting: Bool { self.hasChecksums || self.database == nil }

    /// The number of entries of a scope.
    func entryCount(_ scope: PurgeScope) throws -> Int {
        try self.hasChecksums ? Int(clamping: scope[.dead].count) : self.countEntries(scope)
    }

    /// Returns a scope of a file, which is added if missing.
    func add(_ scope: TokenScope) throws -> PurgeScope {
        if let known = self[scope] { return known }
        guard let database = self.database else { throw PurgeDamage.scopes.error }
        try database.execute(
            sql: "INSERT INTO token_scope VALUES (NULL, ?, ?, 0, 0, 0, 0)",
            arguments: [scope.topic, scope.environment.rawValue]
        )
        let member = PurgeScope(identifier: database.lastInsertedRowID, scope: scope)
        self.append(member)
        return member
    }

    /// Changes the totals of a scope, which ``store()`` writes.
    func update(_ identifier: Int64, _ change: (inout PurgeScope) -> Void) {
        if let index = self.identifierIndices[identifier] { change(&self.all[index]) }
    }

    /// Writes the changed totals.
    func store() throws {
        guard let database = self.database else { return }
        var total = PurgeTotal()
        for (index, member) in self.all.enumerated() {
            let checksum = member.checksum
            total.add(checksum)
            guard checksum != self.storedChecksums[index] else { continue }
            try database.execute(
                sql: """
                    UPDATE token_scope SET dead_count = ?, dead_sum = ?, registered_count = ?, registered_sum = ?
                    WHERE id = ?
                    """,
                arguments: member.values
            )
            self.storedChecksums[index] = checksum
        }
        try database.execute(
            sql: "UPDATE list_total SET scope_count = ?1, scope_sum = ?2 WHERE (scope_count, scope_sum) <> (?1, ?2)",
            arguments: [total.count, Int64(bitPattern: total.sum)]
        )
    }
}

/// The number of some rows, and the sum of their checksums.
///
/// It detects rows that are missing, repeated, or in an earlier state, which match their own checksums.
struct PurgeTotal: Equatable {
    private(set) var count: Int64 = 0
    private(set) var sum: UInt64 = 0

    init() {}

    /// A stored total.
    init(count: Int64, sum: Int64) {
        self.count = count
        self.sum = UInt64(bitPattern: sum)
    }

    mutating func add(_ checksum: UInt64) {
        self.count &+= 1
        self.sum &+= checksum
    }

    mutating func remove(_ checksum: UInt64) {
        self.count &-= 1
        self.sum &-= checksum
    }
}
