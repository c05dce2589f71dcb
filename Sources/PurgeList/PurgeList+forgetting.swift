// SPDX-License-Identifier: Apache-2.0

public import APNSWire
import GRDB

extension PurgeList {
    /// Takes tokens off the list that registered later than they failed, in one transaction.
    ///
    /// When they registered is remembered, on the list or not, so that an older failure that is recorded later does not
    /// bring them back: for each topic and environment that is meant and known, or made known by naming both. What is
    /// remembered goes by ``expire(failedBefore:)``.
    ///
    /// - Parameters:
    ///   - registrations: the tokens; iterating must not use this list.
    ///   - topic: the topic that they registered for; `nil` for all.
    ///   - environment: the environment; `nil` for both.
    /// - Returns: what became of them.
    /// - Throws: ``PurgeListError``; then nothing is forgotten.
    @discardableResult
    public func forget(
        _ registrations: some Sequence<PurgeRegistration>,
        topic: String? = nil,
        environment: Environment? = nil
    ) throws -> PurgeForgetting {
        try PurgeListError.translated(path: self.path) {
            try self.pool.write { database in
                var query = PurgeQuery()
                query.topic = topic
                query.environment = environment
                var scopes = try PurgeList.scopes(database, matching: query).map(\.identifier)
                let forgetting = try PurgeDeletion(database)
                var result = PurgeForgetting()
                for registration in registrations {
                    if scopes.isEmpty, registration.registeredAt != nil, let topic, let environment {
                        try PurgeEntry.check(topic, field: "topic")
                        let scope = PurgeScope(topic: topic, environment: environment)
                        scopes += try [PurgeList.add(scope, to: database)].compactMap { $0 }
                    }
                    try forgetting.forget(registration, in: scopes, &result)
                }
                return result
            }
        }
    }
}

/// The statements of one transaction that forgets.
private struct PurgeDeletion {
    private let delete: PurgeStatement
    private let find: PurgeStatement
    private let remember: PurgeStatement

    init(_ database: Database) throws {
        self.delete = try PurgeStatement(
            database,
            sql: "DELETE FROM dead WHERE scope = ?1 AND token = ?2 AND failed_at < ?3"
        )
        self.find = try PurgeStatement(database, sql: "SELECT 1 FROM dead WHERE scope = ?1 AND token = ?2")
        // What says nothing new writes nothing, since all registrations may come again each night.
        self.remember = try PurgeStatement(
            database,
            sql: """
                INSERT INTO registration (scope, token, registered_at) VALUES (?1, ?2, ?3)
                ON CONFLICT (scope, token) DO UPDATE SET registered_at = ?3 WHERE registered_at < ?3
                """
        )
    }

    func forget(_ registration: PurgeRegistration, in scopes: [Int64], _ result: inout PurgeForgetting) throws {
        if let time = registration.registeredAt, !PurgeLimits.times.contains(time) {
            throw PurgeListError.time(field: "registeredAt", time)
        }
        try registration.token.withUnsafeBytes { token in
            var isKnown = false
            for scope in scopes {
                let count = try self.run(self.delete, scope, token, registration.registeredAt ?? .max)
                if let time = registration.registeredAt { _ = try self.run(self.remember, scope, token, time) }
                self.find.bind(scope, at: 1)
                self.find.bind(token, at: 2)
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
        statement.bind(token, at: 2)
        statement.bind(time, at: 3)
        return try statement.run()
    }
}
