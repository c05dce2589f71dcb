// SPDX-License-Identifier: Apache-2.0

import APNSWire
import TokenStore
import TestSupport
import Testing

/// Goal: a token that must be dead in several topics is kept if it is alive in one, such as a topic without entries.
@Suite(.timeLimit(.minutes(1))) struct EveryTopicTests {
    let folder: TemporaryFolder
    let list: PurgeList

    init() throws {
        self.folder = try TemporaryFolder()
        self.list = try PurgeList(path: self.folder.path + "/purge.db")
    }

    private func record(_ tokens: [UInt8], topic: String, environment: PushEnvironment = .production) throws {
        try self.list.record(tokens.map { PurgeListTests.entry([$0], topic: topic, environment: environment) })
    }

    /// The tokens that are dead in each of the topics, or in all topics of the list.
    private func dead(in topics: [String] = []) throws -> [UInt8] {
        let rules = TokenTableRules(registration: .ignored, topic: .everyTopic(of: topics))
        var tokens: [UInt8] = []
        try self.list.deadTokens(rules) { tokens += $0.bytes }
        return tokens
    }

    @Test func `a single topic is rejected`() throws {
        #expect(throws: TokenTableError.fewTopics([], .production)) { try self.dead() }
        try self.record([1], topic: "com.store")
        try self.record([1], topic: "com.ent", environment: .sandbox)
        #expect(throws: TokenTableError.fewTopics(["com.store"], .production)) { try self.dead() }
        #expect(throws: TokenTableError.fewTopics(["com.store"], .production)) { try self.dead(in: ["com.store"]) }
        let topics = ["com.store", "com.store"]
        #expect(throws: TokenTableError.fewTopics(["com.store"], .production)) { try self.dead(in: topics) }
    }

    @Test func `a topic whose last entry was removed still counts`() throws {
        try self.record([1, 2], topic: "com.store")
        try self.record([1], topic: "com.ent")
        #expect(try self.dead() == [1])
        try self.list.forget([PurgeRegistration(token: [1], registeredAtSeconds: 2000)], topic: "com.ent")
        #expect(try self.dead() == [])
        #expect(try self.dead(in: ["com.ent", "com.store"]) == [])
    }

    @Test func `a topic that never had an entry counts once it is known`() throws {
        try self.record([1], topic: "com.store")
        for _ in 0..<2 { try self.list.addScope(TokenScope(topic: "com.ent", environment: .production)) }
        #expect(try self.dead() == [])
        #expect(try self.list.scopes().map(\.topic) == ["com.store"])
        #expect(try self.list.knownScopes().map(\.topic) == ["com.ent", "com.store"])
        try self.record([1], topic: "com.ent")
        #expect(try self.dead() == [1])
        #expect(throws: PurgeListError.self) {
            try self.list.addScope(TokenScope(topic: "", environment: .production))
        }
    }

    @Test func `only named topics count, and an unknown one is rejected`() throws {
        try self.record([1, 2], topic: "com.store")
        try self.record([1], topic: "com.ent")
        try self.list.addScope(TokenScope(topic: "com.old", environment: .production))
        #expect(try self.dead() == [])
        #expect(try self.dead(in: ["com.store", "com.ent"]) == [1])
        let known = ["com.ent", "com.old", "com.store"]
        #expect(throws: TokenTableError.unknownTopics(["com.emt"], .production, found: known)) {
            try self.dead(in: ["com.store", "com.emt"])
        }
    }
}
