// SPDX-License-Identifier: Apache-2.0

import APNSWire
import TokenStore
import TestSupport
import Testing

/// Goal: no order of records, registrations and expiries makes the list differ from the rules.
///
/// Method: a random walk compared with a dictionary. A failure reports its seed.
@Suite("Purge list at random", .timeLimit(.minutes(2)))
struct PurgeWalkTests {
    struct Key: Hashable {
        var scope: TokenScope
        var token: [UInt8]
    }

    struct Value: Equatable {
        var failedAtSeconds: Int64
        var firstSeenSeconds: Int64
        var source: String
    }

    /// The rules, implemented a second time.
    struct Model {
        var dead: [Key: Value] = [:]
        var registered: [Key: Int64] = [:]
        var scopes: Set<TokenScope> = []

        mutating func record(_ entries: [PurgeEntry]) -> PurgeChange {
            var change = PurgeChange()
            for entry in entries {
                let key = Key(
                    scope: TokenScope(topic: entry.topic, environment: entry.environment),
                    token: entry.token
                )
                self.scopes.insert(key.scope)
                if let time = self.registered[key], time > entry.failedAtSeconds {
                    change.supersededCount += 1
                    continue
                }
                guard let old = self.dead[key] else {
                    self.dead[key] = Value(
                        failedAtSeconds: entry.failedAtSeconds,
                        firstSeenSeconds: entry.firstSeenSeconds,
                        source: entry.source
                    )
                    change.addedCount += 1
                    continue
                }
                var new = old
                if entry.failedAtSeconds > old.failedAtSeconds {
                    (new.failedAtSeconds, new.source) = (entry.failedAtSeconds, entry.source)
                }
                new.firstSeenSeconds = min(old.firstSeenSeconds, entry.firstSeenSeconds)
                self.dead[key] = new
                if (new.failedAtSeconds, new.firstSeenSeconds) == (old.failedAtSeconds, old.firstSeenSeconds) {
                    change.unchangedCount += 1
                } else {
                    change.updatedCount += 1
                }
            }
            return change
        }

        mutating func forget(
            _ registrations: [PurgeRegistration],
            _ topic: String?,
            _ environment: PushEnvironment?
        ) -> PurgeForgetResult {
            var result = PurgeForgetResult()
            for registration in registrations {
                if let topic, let environment, registration.registeredAtSeconds != nil {
                    self.scopes.insert(TokenScope(topic: topic, environment: environment))
                }
                let keys = self.keys(topic, environment, registration.token)
                if keys.isEmpty, registration.registeredAtSeconds != nil { result.unrememberedCount += 1 }
                let held = keys.filter { self.dead[$0] != nil }
                if held.isEmpty { result.unknownCount += 1 }
                for key in keys {
                    let isGone =
                        self.dead[key].map { $0.failedAtSeconds < registration.registeredAtSeconds ?? .max } ?? false
                    if isGone {
                        self.dead[key] = nil
                        result.forgottenCount += 1
                    } else if self.dead[key] != nil {
                        result.keptCount += 1
                    }
                    guard let time = registration.registeredAtSeconds else { continue }
                    self.registered[key] = max(self.registered[key] ?? time, time)
                }
            }
            return result
        }

        mutating func expire(_ moment: Int64) -> Int {
            let before = self.dead.count
            self.dead = self.dead.filter { $0.value.failedAtSeconds >= moment }
            self.registered = self.registered.filter { $0.value >= moment }
            return before - self.dead.count
        }

        private func keys(_ topic: String?, _ environment: PushEnvironment?, _ token: [UInt8]) -> [Key] {
            self.scopes.filter {
                topic ?? $0.topic == $0.topic && environment ?? $0.environment == $0.environment
            }
            .map { Key(scope: $0, token: token) }
        }

        func entries(_ query: PurgeQuery) -> [PurgeEntry] {
            self.dead.map { key, value in
                PurgeEntry(
                    topic: key.scope.topic,
                    environment: key.scope.environment,
                    token: key.token,
                    failedAt: value.failedAtSeconds,
                    firstSeen: value.firstSeenSeconds,
                    source: value.source
                )
            }
            .filter { entry in
                query.topic ?? entry.topic == entry.topic && query.environment ?? entry.environment == entry.environment
                    && query.token ?? entry.token == entry.token
                    && query.failedSinceSeconds ?? .min <= entry.failedAtSeconds
                    && entry.failedAtSeconds < query.failedBeforeSeconds ?? .max
                    && query.source ?? entry.source == entry.source
            }
            .sorted { left, right in
                if left.topic != right.topic { return left.topic < right.topic }
                if left.environment != right.environment { return left.environment == .production }
                return left.token.lexicographicallyPrecedes(right.token)
            }
        }
    }

    private static let topics = ["com.example.app", "com.example.app.voip", "org.example"]
    private static let sources = ["feedback", "send", "http2:Unregistered", "import:a.csv"]

    private static func token(_ random: inout SplitMix64) -> [UInt8] {
        let count = [1, 2, 7, 8, 9, 32, 100].randomElement(using: &random) ?? 1
        return [UInt8](repeating: 7, count: count - 1) + [UInt8.random(in: 0..<16, using: &random)]
    }

    private static func time(_ random: inout SplitMix64) -> Int64 { .random(in: 1000..<1040, using: &random) }

    private static func entries(_ random: inout SplitMix64) -> [PurgeEntry] {
        let count = [2, 40, 400].randomElement(using: &random) ?? 40
        return (0..<Int.random(in: 0..<count, using: &random)).map { _ in
            PurgeEntry(
                topic: Self.topics.randomElement(using: &random) ?? "",
                environment: PushEnvironment.allCases.randomElement(using: &random) ?? .production,
                token: Self.token(&random),
                failedAt: Self.time(&random),
                firstSeen: Self.time(&random),
                source: Self.sources.randomElement(using: &random) ?? ""
            )
        }
    }

    private static func query(_ random: inout SplitMix64) -> PurgeQuery {
        var query = PurgeQuery()
        if Bool.random(using: &random) { query.topic = Self.topics.randomElement(using: &random) }
        if Bool.random(using: &random) { query.environment = .sandbox }
        if Int.random(in: 0..<4, using: &random) == 0 { query.token = Self.token(&random) }
        if Bool.random(using: &random) { query.failedSinceSeconds = Self.time(&random) }
        if Bool.random(using: &random) { query.failedBeforeSeconds = Self.time(&random) }
        if Int.random(in: 0..<3, using: &random) == 0 { query.source = Self.sources.randomElement(using: &random) }
        return query
    }

    @Test(
        "A list and a dictionary agree after every step",
        arguments: 0..<TestEffort.count(3, long: 20) as Range<UInt64>
    )
    func agrees(seed: UInt64) throws {
        var random = SplitMix64(seed: seed)
        let folder = try TemporaryFolder()
        var list = try PurgeList(path: folder.path + "/purge.db")
        var model = Model()
        for step in 0..<40 {
            switch Int.random(in: 0..<10, using: &random) {
            case 0..<5:
                let entries = Self.entries(&random)
                let batchEntryCount = [1, 3, 50, 1000].randomElement(using: &random) ?? 1
                let change = try list.record(entries, batchEntryCount: batchEntryCount)
                // Within a call, the entries are sorted, so the counts of equal keys depend on the order.
                let expected = model.record(entries)
                #expect(change.addedCount == expected.addedCount, "seed \(seed), step \(step)")
                #expect(change.supersededCount == expected.supersededCount, "seed \(seed), step \(step)")
                let seenCount = change.updatedCount + change.unchangedCount
                let expectedSeenCount = expected.updatedCount + expected.unchangedCount
                #expect(seenCount == expectedSeenCount, "seed \(seed), step \(step)")
            case 5..<8:
                let registrations = (0..<Int.random(in: 0..<20, using: &random)).map { _ in
                    PurgeRegistration(
                        token: Self.token(&random),
                        registeredAtSeconds: Bool.random(using: &random) ? Self.time(&random) : nil
                    )
                }
                let topic = Bool.random(using: &random) ? Self.topics.randomElement(using: &random) : nil
                let environment: PushEnvironment? = Bool.random(using: &random) ? .sandbox : nil
                let result = try list.forget(registrations, topic: topic, environment: environment)
                #expect(result == model.forget(registrations, topic, environment), "seed \(seed), step \(step)")
            case 8:
                let moment = Self.time(&random) - 20
                #expect(try list.expire(failedBefore: moment) == model.expire(moment), "seed \(seed), step \(step)")
            default:
                list = try PurgeList(path: folder.path + "/purge.db")
            }
            let query = Self.query(&random)
            var found: [PurgeEntry] = []
            try list.entries(matching: query) { found.append($0) }
            #expect(found == model.entries(query), "seed \(seed), step \(step)")
            #expect(try list.statistics().count == model.dead.count, "seed \(seed), step \(step)")
        }
        try Self.checkLookup(list, model, seed)
        try list.checkIntegrity()
    }

    private static func checkLookup(_ list: PurgeList, _ model: Model, _ seed: UInt64) throws {
        let scopes = [TokenScope(topic: Self.topics[0], environment: .production)]
        let lookup = try PurgeLookup(list, in: scopes)
        for token in Set(model.dead.keys.map(\.token)) {
            let isDead = model.dead[Key(scope: scopes[0], token: token)] != nil
            #expect(try lookup.contains(DeviceToken(bytes: token)) == isDead, "seed \(seed)")
            #expect(
                try list.contains(token: token, topic: scopes[0].topic, environment: .production) == isDead,
                "seed \(seed)"
            )
        }
    }
}
