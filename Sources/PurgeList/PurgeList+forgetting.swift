// SPDX-License-Identifier: Apache-2.0

import FoundationEssentials
import GRDB

/// A token that an app registered again.
public struct PurgeRegistration: Hashable, Sendable {
    /// The token, 1 to 100 octets.
    public var token: [UInt8]
    /// When, in seconds since 1970; `nil` for a person's word, which holds whenever the token failed.
    public var registeredAt: Int64?

    /// Makes a registration.
    ///
    /// - Parameters:
    ///   - token: 1 to 100 octets.
    ///   - registeredAt: when, in seconds since 1970; `nil` where it holds whenever the token failed.
    public init(token: [UInt8], registeredAt: Int64?) {
        self.token = token
        self.registeredAt = registeredAt
    }
}

/// What forgetting did to a list.
public struct PurgeForgetting: Hashable, Sendable {
    /// Entries that went.
    public var forgottenCount = 0
    /// Entries that stay, since they failed at the time of the registration or later.
    public var keptCount = 0
    /// Tokens that were not on the list.
    public var unknownCount = 0

    /// Nothing.
    public init() {}
}

extension PurgeList {
    /// Takes tokens off the list that registered later than they failed, in one transaction.
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
        environment: PushEnvironment? = nil
    ) throws -> PurgeForgetting {
        try PurgeListError.translated(path: self.path) {
            try self.pool.write { database in
                var query = PurgeQuery()
                query.topic = topic
                query.environment = environment
                let scopes = try PurgeList.scopes(database, matching: query).map(\.identifier)
                let delete = try PurgeStatement(
                    database,
                    sql: "DELETE FROM dead WHERE scope = ?1 AND token = ?2 AND failed_at < ?3"
                )
                let find = try PurgeStatement(database, sql: "SELECT 1 FROM dead WHERE scope = ?1 AND token = ?2")
                var result = PurgeForgetting()
                for registration in registrations {
                    try registration.token.withUnsafeBytes { token in
                        var isKnown = false
                        for scope in scopes {
                            delete.bind(scope, at: 1)
                            delete.bind(token, at: 2)
                            delete.bind(registration.registeredAt ?? .max, at: 3)
                            let count = try delete.run()
                            result.forgottenCount += count
                            isKnown = isKnown || count > 0
                            guard count == 0 else { continue }
                            find.bind(scope, at: 1)
                            find.bind(token, at: 2)
                            guard try find.hasRow() else { continue }
                            result.keptCount += 1
                            isKnown = true
                        }
                        if !isKnown { result.unknownCount += 1 }
                    }
                }
                return result
            }
        }
    }
}
