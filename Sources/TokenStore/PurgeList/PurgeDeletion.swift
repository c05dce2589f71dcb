// SPDX-License-Identifier: Apache-2.0

import APNSWire
import GRDB

/// The statements of one transaction that removes tokens.
struct PurgeDeletion {
    private let delete: PurgeStatement
    private let find: PurgeStatement
    private let remember: PurgeStatement

    init(_ database: Database) throws {
        self.delete = try PurgeStatement(
            database,
            sql: "DELETE FROM dead WHERE scope = ?1 AND token = ?2 AND failed_at < ?3"
        )
        self.find = try PurgeStatement(database, sql: "SELECT 1 FROM dead WHERE scope = ?1 AND token = ?2")
        // An unchanged registration writes nothing, since all registrations may be imported each night.
        self.remember = try PurgeStatement(
            database,
            sql: """
                INSERT INTO registration (scope, token, registered_at) VALUES (?1, ?2, ?3)
                ON CONFLICT (scope, token) DO UPDATE SET registered_at = ?3 WHERE registered_at < ?3
                """
        )
    }

    func forget(_ registration: PurgeRegistration, in scopes: [Int64], _ result: inout PurgeForgetResult) throws {
        if let time = registration.registeredAt, !PurgeLimits.times.contains(time) {
            throw PurgeListError.time(field: "registeredAt", time)
        }
        try unsafe registration.token.withUnsafeBytes { token in
            var isKnown = false
            for scope in scopes {
                let count = try unsafe self.run(self.delete, scope, token, registration.registeredAt ?? .max)
                if let time = registration.registeredAt { _ = try unsafe self.run(self.remember, scope, token, time) }
                self.find.bind(scope, at: 1)
                unsafe self.find.bind(token, at: 2)
                let isKept = try count == 0 && self.find.hasRow()
                result.forgottenCount += count
                if isKept { result.keptCount += 1 }
                isKnown = isKnown || isKept || count > 0
            }
            if !isKnown { result.unknownCount += 1 }
            if scopes.isEmpty, registration.registeredAt != nil { result.unrememberedCount += 1 }
        }
    }

    private func run(
        _ statement: PurgeStatement,
        _ scope: Int64,
        _ token: UnsafeRawBufferPointer,
        _ time: Int64
    ) throws -> Int {
        statement.bind(scope, at: 1)
        unsafe statement.bind(token, at: 2)
        statement.bind(time, at: 3)
        return try statement.run()
    }
}
