// SPDX-License-Identifier: Apache-2.0

import APNSWire
import TokenStore
import TestSupport
import Testing

@Suite("Purge list", .timeLimit(.minutes(2)))
struct PurgeListTests {
    let folder: TemporaryFolder
    let list: PurgeList

    init() throws {
        self.folder = try TemporaryFolder()
        self.list = try PurgeList(path: self.folder.path + "/purge.db")
    }

    static func entry(
        _ token: [UInt8],
        failedAt: Int64 = 1000,
        firstSeen: Int64 = 2000,
        topic: String = "com.example.app",
        environment: PushEnvironment = .production,
        source: String = "feedback"
    ) -> PurgeEntry {
        PurgeEntry(
            topic: topic,
            environment: environment,
            token: token,
            failedAt: failedAt,
            firstSeen: firstSeen,
            source: source
        )
    }

    private func all(_ query: PurgeQuery = PurgeQuery()) throws -> [PurgeEntry] {
        var entries: [PurgeEntry] = []
        try self.list.entries(matching: query) { entries.append($0) }
        return entries
    }

    @Test("The newest failure with its source and the earliest first-seen time are kept")
    func newestFailureStays() throws {
        let first = Self.entry([1, 2, 3])
        #expect(try self.list.record([first]).addedCount == 1)
        #expect(try self.list.record([first]).unchangedCount == 1)
        #expect(try self.list.record([Self.entry([1, 2, 3], failedAt: 900, source: "import:old")]).unchangedCount == 1)
        #expect(try self.all() == [first])
        let newer = Self.entry([1, 2, 3], failedAt: 1100, firstSeen: 3000, source: "http2:Unregistered")
        #expect(try self.list.record([newer]).updatedCount == 1)
        #expect(
            try self.all() == [Self.entry([1, 2, 3], failedAt: 1100, firstSeen: 2000, source: "http2:Unregistered")]
        )
    }

    @Test("Batches in a file are merged in order, of equal keys the first one first")
    func batchesInAFile() throws {
        var random = SplitMix64(seed: 1)
        var entries: [PurgeEntry] = (0..<9000).map { _ in
            let byteCount = Int.random(in: 1...100, using: &random)
            let token = (0..<byteCount).map { _ in UInt8.random(in: 0...255, using: &random) }
            return Self.entry(token, failedAt: .random(in: 0..<1 << 30, using: &random))
        }
        // Of entries with the same time, the first source is kept.
        entries += entries.prefix(300).map { entry in
            Self.entry(entry.token, failedAt: entry.failedAtSeconds, source: "later")
        }
        let newest = Dictionary(entries.map { ($0.token, $0) }) { $0.failedAtSeconds < $1.failedAtSeconds ? $1 : $0 }
        let change = try self.list.record(entries, batchEntryCount: 2000)
        #expect(change.addedCount == newest.count)
        #expect(try self.all() == newest.values.sorted { $0.token.lexicographicallyPrecedes($1.token) })
    }

    @Test("Topic, environment and token are the key and the order")
    func keyAndOrder() throws {
        let entries = [
            Self.entry([1], topic: "a"), Self.entry([1, 0], topic: "a"), Self.entry([2], topic: "a"),
            Self.entry([1], topic: "a", environment: .sandbox), Self.entry([1], topic: "b"),
        ]
        let change = try self.list.record(entries.reversed())
        #expect(change.addedCount == 5)
        #expect(try self.all() == entries)
        #expect(try self.list.contains(token: [1], topic: "a", environment: .sandbox))
        #expect(try !self.list.contains(token: [2], topic: "a", environment: .sandbox))
        #expect(try self.list.scopes().map(\.topic) == ["a", "a", "b"])
    }

    @Test("Names that differ only in Unicode normalization are different, also within one call")
    func normalisation() throws {
        let names = ["caf\u{e9}", "cafe\u{301}"]
        try self.list.record(names.map { Self.entry([1], topic: $0, source: $0) })
        let scopes = try self.list.scopes()
        #expect(scopes.count == 2 && Set(scopes).count == 2)
        for name in names {
            let found = try self.all().filter { $0.topic.utf8.elementsEqual(name.utf8) }
            #expect(found.count == 1 && found.allSatisfy { $0.source.utf8.elementsEqual(name.utf8) })
        }
        let rules = TokenTableRules(registration: .ignored, topic: .column(""))
        var byteCounts: [Int] = []
        try self.list.deadTokens(rules) { byteCounts.append($0.scope.topic.utf8.count) }
        #expect(byteCounts.sorted() == [5, 6])
        try self.list.forget([PurgeRegistration(token: [1], registeredAtSeconds: nil)], topic: names[1])
        let lookup = try PurgeLookup(self.list, in: [TokenScope(topic: names[1], environment: .production)])
        #expect(try lookup.tokenCount == 0 && self.all().count == 1)
    }

    @Test("Entries have whole seconds, and milliseconds of queries, expiries and registrations do not blur them")
    func milliseconds() throws {
        let (exact, later) = (Timestamp(secondsSince1970: 1000), Timestamp(millisecondsSince1970: 1_000_001))
        let entry = PurgeEntry(
            topic: "a",
            environment: .production,
            token: [1],
            failedAt: Timestamp(millisecondsSince1970: 1_000_999),
            firstSeen: exact,
            source: "s"
        )
        #expect(entry.failedAt == exact && entry == Self.changed(entry) { $0.failedAt = exact })
        try self.list.record([entry])
        func found(_ change: (inout PurgeQuery) -> Void) throws -> Int {
            var (query, count) = (PurgeQuery(), 0)
            change(&query)
            try self.list.entries(matching: query) { _ in count += 1 }
            return count
        }
        #expect(try [exact, later].map { time in try found { $0.failedSince = time } } == [1, 0])
        #expect(try [exact, later].map { time in try found { $0.failedBefore = time } } == [0, 1])
        let part = try #require(try self.list.statistics().parts.first)
        #expect(part.oldestFailure == exact && part.newestFailure == exact)
        // It may have failed after the registration, in the same second.
        let registration = PurgeRegistration(token: [1], registeredAt: later)
        #expect(registration.registeredAt == exact)
        #expect(try self.list.forget([registration]).keptCount == 1)
        #expect(try [exact, later].map { try self.list.expire(failedBefore: $0) } == [0, 1])
    }

    private static func changed(_ entry: PurgeEntry, _ body: (inout PurgeEntry) -> Void) -> PurgeEntry {
        var entry = entry
        body(&entry)
        return entry
    }

    @Test("An entry is removed if it registered after its failure")
    func registration() throws {
        try self.list.record([Self.entry([1]), Self.entry([2]), Self.entry([3])])
        let result = try self.list.forget([
            PurgeRegistration(token: [1], registeredAt: Timestamp(secondsSince1970: 1001)),
            PurgeRegistration(token: [2], registeredAt: Timestamp(secondsSince1970: 1000)),
            PurgeRegistration(token: [3], registeredAt: nil), PurgeRegistration(token: [4], registeredAt: nil),
        ])
        #expect(result.forgottenCount == 2 && result.keptCount == 1 && result.unknownCount == 1)
        #expect(try self.all().map(\.token) == [[2]])
    }

    @Test("A registration is remembered before its failure arrives, in known or named topics")
    func earlyRegistration() throws {
        let early = [1001, nil].enumerated().map { PurgeRegistration(token: [UInt8($0 + 1)], registeredAtSeconds: $1) }
        let nowhere = try self.list.forget(early)
        #expect(nowhere.unknownCount == 2 && nowhere.unrememberedCount == 1)
        try self.list.addScope(TokenScope(topic: "com.example.app", environment: .production))
        #expect(try self.list.forget(early).unrememberedCount == 0)
        let change = try self.list.record([Self.entry([1]), Self.entry([2]), Self.entry([1], topic: "other")])
        #expect(change.supersededCount == 1 && change.addedCount == 2)
        #expect(try self.list.record([Self.entry([1], failedAt: 1001)]).addedCount == 1)
        // Naming both adds a topic; a registration without a time does not.
        try self.list.forget([early[1]], topic: "never", environment: .sandbox)
        #expect(try self.list.knownScopes().map(\.topic) == ["com.example.app", "other"])
        let named = try self.list.forget(early, topic: "named", environment: .sandbox)
        #expect(named.unknownCount == 2 && named.unrememberedCount == 0)
        #expect(try self.list.record([Self.entry([1], topic: "named", environment: .sandbox)]).supersededCount == 1)
        #expect(throws: PurgeListError.self) { try self.list.forget(early, topic: "", environment: .sandbox) }
    }

    @Test("Registrations expire by their time")
    func registrationsExpire() throws {
        let scope = TokenScope(topic: "com.example.app", environment: .production)
        try self.list.addScope(scope)
        try self.list.forget([1, 2].map { PurgeRegistration(token: [UInt8($0)], registeredAtSeconds: 1000 + $0) })
        try self.list.expire(failedBefore: 1002)
        let change = try self.list.record([Self.entry([1], failedAt: 900), Self.entry([2], failedAt: 900)])
        #expect(change.addedCount == 1 && change.supersededCount == 1)
        #expect(try self.all().map(\.token) == [[1]])
    }
}
