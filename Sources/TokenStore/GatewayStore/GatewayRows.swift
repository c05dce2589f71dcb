// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSWire
import FoundationEssentials
import GRDB

/// A change of a gateway's database.
enum GatewayStoreChange: Sendable {
    case put(FeedbackTuple, TokenScope)
    /// Removes a token, only with this time unless it is `nil`.
    case remove(DeviceToken, UInt32?, TokenScope)
    case expect([ExpectedResend], provider: String, duration: Duration)
    /// Sets the end of the resends that were expected at a time or later, in seconds since 1970.
    case extend(provider: String, since: Int64, until: Int64)
    /// Removes one entry with the key of a resend.
    case forget(ExpectedResend, provider: String)
    /// Stores a certificate in the place of another one of the provider, if there is one.
    case admit(StoredCertificate, replaced: String?)
    /// Remembers the folder of a spool.
    case spool(StoredSpool)

    /// What a change is about.
    enum Kind: Hashable { case feedback, resends, certificates, spools }

    /// The number of resends that it adds.
    var addedResendCount: Int { if case .expect(let resends, _, _) = self { resends.count } else { 0 } }

    /// What it is about.
    var kind: Kind {
        switch self {
        case .put, .remove: .feedback
        case .expect, .extend, .forget: .resends
        case .admit: .certificates
        case .spool: .spools
        }
    }
}

/// The rows of a gateway's database, in a transaction.
struct GatewayRows {
    private let database: Database
    private let put: Statement
    private let remove: Statement
    private let insert: Statement
    private let forget: Statement

    /// The columns of an expected resend.
    private static let columns = "key, content, lifetime, response, place, checksum"

    init(_ database: Database) throws {
        self.database = database
        self.put = try database.cachedStatement(
            sql: """
                INSERT INTO feedback (topic, environment, token, failed_at, checksum) VALUES (?, ?, ?, ?, ?)
                ON CONFLICT DO UPDATE SET failed_at = excluded.failed_at, checksum = excluded.checksum
                WHERE excluded.failed_at >= failed_at
                """
        )
        self.remove = try database.cachedStatement(
            sql: "DELETE FROM feedback WHERE topic = ?1 AND environment = ?2 AND token = ?3 AND failed_at <= ?4"
        )
        self.insert = try database.cachedStatement(
            sql: "INSERT INTO resend (provider, until, \(Self.columns)) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
        )
        self.forget = try database.cachedStatement(
            sql: """
                DELETE FROM resend WHERE id = (
                    SELECT id FROM resend WHERE provider = ? AND key = ?
                    ORDER BY (response IS ? AND place IS ?) DESC, id LIMIT 1
                )
                """
        )
    }

    func apply(_ change: GatewayStoreChange, now: Int64) throws {
        switch change {
        case .put(let tuple, let list): try self.put(tuple.token, tuple.failedAtSeconds, in: list)
        case .remove(let token, let time, let list):
            try self.remove.execute(
                arguments: [list.topic, list.environment.rawValue, token.data, time.map(Int64.init) ?? .max]
            )
        case .expect(let resends, let provider, let duration):
            let until = Self.end(now, duration)
            for resend in resends { try self.insert(resend, of: provider, until: until) }
        case .extend(let provider, let earliest, let until):
            try self.database.execute(
                sql: "UPDATE resend SET until = ? WHERE provider = ? AND until >= ?",
                arguments: [until, provider, earliest]
            )
        case .forget(let resend, let provider):
            try self.forget.execute(
                arguments: [provider, Data(resend.key.bytes), resend.place?.response, resend.place?.index]
            )
        case .admit(let certificate, let replaced):
            if let replaced { try self.removeCertificate(replaced, of: certificate.provider) }
            try self.insert(certificate)
            try self.database.execute(
                sql: "DELETE FROM \(Self.certificateTable) WHERE admitted_at < ?",
                arguments: [now - AdmissionTimes.keptSeconds]
            )
        case .spool(let spool):
            try self.database.execute(
                sql: "INSERT OR REPLACE INTO spool (folder, provider) VALUES (?, ?)",
                arguments: [spool.folder, spool.provider]
            )
        }
    }

    // MARK: Dead tokens

    func put(_ token: DeviceToken, _ failedAt: UInt32, in list: TokenScope) throws {
        let checksum = Self.checksum(token, failedAt, in: list)
        try self.put.execute(
            arguments: [list.topic, list.environment.rawValue, token.data, Int64(failedAt), checksum]
        )
    }

    private static func checksum(_ token: DeviceToken, _ failedAt: UInt32, in list: TokenScope) -> Int64 {
        var checksum = CRC64()
        checksum.add(list.topic)
        checksum.add(list.environment.rawValue)
        unsafe token.withUnsafeBytes { unsafe checksum.add($0) }
        checksum.add(UInt64(failedAt))
        return Int64(bitPattern: checksum.value)
    }

    /// Calls `body` with each dead token.
    ///
    /// Rows of earlier releases have no checksum.
    ///
    /// - Throws: `DatabaseError` for a damaged row.
    static func forEachToken(
        _ database: Database,
        _ body: (DeviceToken, _ failedAt: UInt32, TokenScope) -> Void
    ) throws {
        let hasChecksums = try database.columns(in: "feedback").contains { $0.name == "checksum" }
        let columns = "topic, environment, token, failed_at, \(hasChecksums ? "checksum" : "NULL")"
        let rows = try Row.fetchCursor(database, sql: "SELECT \(columns) FROM feedback")
        while let row = try rows.next() {
            guard let environment = PushEnvironment(rawValue: try row.value(1)),
                let token = try? DeviceToken(bytes: row.value(2) as Data),
                let failedAt = UInt32(exactly: try row.value(3) as Int64)
            else { throw PurgeDamage.kind.error }
            let list = TokenScope(topic: try row.value(0), environment: environment)
            if let checksum = try row.value(4) as Int64?, checksum != Self.checksum(token, failedAt, in: list) {
                throw PurgeDamage.checksum.error
            }
            body(token, failedAt, list)
        }
    }

    // MARK: Expected resends

    /// An expected resend, with its provider and the time until which it is expected.
    struct Resend {
        var resend: ExpectedResend
        var provider: String
        var until: Int64
    }

    func insert(_ resend: ExpectedResend, of provider: String, until: Int64) throws {
        try self.insert.execute(
            arguments: [
                provider, until, Data(resend.key.bytes), (resend.lifetime?.content.bytes).map { Data($0) },
                resend.lifetime?.milliseconds, resend.place?.response, resend.place?.index,
                Self.checksum(resend, of: provider),
            ]
        )
    }

    /// The checksum of what decides which notification is a resend, except for its time, which the index confirms.
    private static func checksum(_ resend: ExpectedResend, of provider: String) -> Int64 {
        var checksum = CRC64()
        checksum.add(provider)
        for key in [resend.key, resend.lifetime?.content] {
            unsafe (key?.bytes ?? []).withUnsafeBytes { unsafe checksum.add($0) }
        }
        for number in [resend.lifetime?.milliseconds, resend.place?.response, resend.place?.index] {
            checksum.add(number == nil ? 0 : 1)
            checksum.add(UInt64(bitPattern: number ?? 0))
        }
        return Int64(bitPattern: checksum.value)
    }

    /// Reads the resends that are expected at a time, the oldest first; of all providers if none is given.
    ///
    /// - Throws: `DatabaseError` for a damaged row.
    static func resends(_ database: Database, of provider: String? = nil, at time: Int64) throws -> [Resend] {
        let condition = provider == nil ? "" : "AND provider = ?"
        let sql = "SELECT provider, until, \(self.columns) FROM resend WHERE until >= ? \(condition) ORDER BY id"
        let arguments = StatementArguments([time]) + StatementArguments([provider].compactMap(\.self))
        return try Row.fetchAll(database, sql: sql, arguments: arguments).map { row in
            Resend(resend: try self.resend(row), provider: try row.value(0), until: try row.value(1))
        }
    }

    /// Verifies all expected resends.
    ///
    /// - Throws: `DatabaseError` for a damaged row.
    static func verifyResends(_ database: Database) throws {
        // Without the column, the file is of an earlier release.
        guard try database.columns(in: "resend").contains(where: { $0.name == "checksum" }) else { return }
        let rows = try Row.fetchCursor(database, sql: "SELECT provider, until, \(self.columns) FROM resend")
        while let row = try rows.next() { _ = try self.resend(row) }
    }

    /// Reads the columns of an expected resend, which follow its provider and time; optional ones may be empty, and the
    /// checksum in rows of earlier releases.
    private static func resend(_ row: Row) throws -> ExpectedResend {
        guard let key = ResendKey(bytes: try row.value(2) as Data) else { throw PurgeDamage.kind.error }
        var resend = ExpectedResend(key: key)
        if let bytes: Data = try row.value(3), let content = ResendKey(bytes: bytes), let time: Int64 = try row.value(4)
        {
            resend.lifetime = ExpectedResend.Lifetime(content: content, milliseconds: time)
        }
        if let response: Int64 = try row.value(5), let place: Int64 = try row.value(6) {
            resend.place = ExpectedResend.Place(response: response, index: place)
        }
        if let checksum: Int64 = try row.value(7), checksum != self.checksum(resend, of: try row.value(0)) {
            throw PurgeDamage.checksum.error
        }
        return resend
    }

    /// Removes the resends that are not expected any more.
    static func expire(_ database: Database, now: Int64) throws {
        try database.execute(sql: "DELETE FROM resend WHERE until < ?", arguments: [now])
    }

    // MARK: Certificates

    /// The table of the certificates of providers; the row with number 0 has the certificate, the others the further
    /// ones.
    static let certificateTable = "admitted_certificate"

    func insert(_ certificate: StoredCertificate) throws {
        try self.removeCertificate(certificate.fingerprint, of: certificate.provider)
        let sql = """
            INSERT INTO \(Self.certificateTable) (provider, fingerprint, number, admitted_at, der)
            VALUES (?, ?, ?, ?, ?)
            """
        for (number, der) in certificate.chain.prefix(1 + StoredCertificate.intermediateCountMax).enumerated() {
            try self.database.execute(
                sql: sql,
                arguments: [
                    certificate.provider, certificate.fingerprint, number, certificate.admittedAt, Data(der),
                ]
            )
        }
    }

    private func removeCertificate(_ fingerprint: String, of provider: String) throws {
        try self.database.execute(
            sql: "DELETE FROM \(Self.certificateTable) WHERE provider = ? AND fingerprint = ?",
            arguments: [provider, fingerprint]
        )
    }

    /// Reads the certificates of providers that were admitted since a time, the last admitted first.
    static func certificates(_ database: Database, since time: Int64) throws -> [StoredCertificate] {
        // A damaged time may be NULL, and is an error when it is read.
        let rows = try Row.fetchCursor(
            database,
            sql: """
                SELECT provider, fingerprint, admitted_at, der FROM \(self.certificateTable)
                WHERE (admitted_at >= ?) IS NOT 0
                ORDER BY provider, admitted_at DESC, fingerprint, number
                """,
            arguments: [time]
        )
        var certificates: [StoredCertificate] = []
        while let row = try rows.next() {
            let certificate = StoredCertificate(
                provider: try row.value(0),
                fingerprint: try row.value(1),
                admittedAt: try row.value(2),
                chain: [Array(try row.value(3) as Data)]
            )
            if let last = certificates.last, last.provider == certificate.provider,
                last.fingerprint == certificate.fingerprint
            {
                certificates[certificates.count - 1].chain += certificate.chain
            } else {
                certificates.append(certificate)
            }
        }
        return certificates
    }

    /// Reads when certificates of providers were last admitted.
    static func admissionTimes(_ database: Database) throws -> AdmissionTimes {
        let sql = "SELECT provider, fingerprint, admitted_at FROM \(self.certificateTable) WHERE number = 0"
        var times = AdmissionTimes()
        for row in try Row.fetchAll(database, sql: sql) {
            times.add(try row.value(1), of: try row.value(0), at: try row.value(2))
        }
        return times
    }

    static func end(_ now: Int64, _ duration: Duration) -> Int64 {
        let (end, isOver) = now.addingReportingOverflow(duration.components.seconds)
        return isOver ? .max : end
    }
}

extension DeviceToken {
    fileprivate var data: Data { unsafe self.withUnsafeBytes { unsafe Data($0) } }
}
