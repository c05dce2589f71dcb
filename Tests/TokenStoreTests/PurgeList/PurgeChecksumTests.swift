// SPDX-License-Identifier: Apache-2.0

import APNSWire
import Foundation
import GRDB
import TestSupport
import Testing
import TokenStore

/// Goal: damage of a purge list is reported, or changes nothing: no living device is pruned, and no dead token is
/// missing.
///
/// Method: change a file with several pages in each table, and compare all readers with those of the undamaged file.
@Suite(.timeLimit(.minutes(5))) struct PurgeChecksumTests {
    private static let main = TokenScope(topic: "com.example.app", environment: .production)
    private let folder: TemporaryFolder
    private let intact: Data
    /// The file before its last change.
    private let earlier: Data
    private let expected: Content
    private var path: String { self.folder.path + "/purge.db" }

    /// What the readers of a list find.
    private struct Content: Equatable {
        var entries: [PurgeEntry] = []
        var dead: [DeadToken] = []
        var found: [Bool] = []
        var dueCount = 0
    }

    init() throws {
        self.folder = try TemporaryFolder()
        let list = try PurgeList(path: self.folder.path + "/purge.db")
        try list.record(Self.entries(0..<300, Self.main))
        try list.record(Self.entries(0..<90, TokenScope(topic: "org.example", environment: .sandbox)))
        try list.forget((200..<400).map { PurgeRegistration(token: Self.token($0), registeredAtSeconds: 900) })
        list.close()
        self.earlier = try Data(contentsOf: URL(filePath: self.folder.path + "/purge.db"))
        let again = try PurgeList(path: self.folder.path + "/purge.db")
        try again.record(Self.entries(300..<310, Self.main))
        again.close()
        self.intact = try Data(contentsOf: URL(filePath: self.folder.path + "/purge.db"))
        let table = try DatabaseQueue(path: self.folder.path + "/app.db")
        try table.write { database in
            try database.execute(sql: "CREATE TABLE devices (token, registered)")
            for number in 0..<400 {
                // Every other one registered after its failure.
                let time = number.isMultiple(of: 2) ? 1_300_000_000 : 1_300_000_002
                try database.execute(
                    sql: "INSERT INTO devices VALUES (?, ?)",
                    arguments: [Data(Self.token(number)), time]
                )
            }
        }
        self.expected = try Self.read(self.folder.path)
        #expect(self.expected.dead.count == 310 && self.expected.dueCount == 155)
    }

    private static func token(_ number: Int) -> [UInt8] {
        var random = SplitMix64(seed: UInt64(number))
        return (0..<32).map { _ in UInt8.random(in: 0...255, using: &random) }
    }

    private static func entries(_ numbers: Range<Int>, _ scope: TokenScope) -> [PurgeEntry] {
        numbers.map { number in
            PurgeListTests.entry(
                self.token(number),
                failedAt: 1_300_000_001,
                topic: scope.topic,
                environment: scope.environment,
                source: number.isMultiple(of: 3) ? "feedback" : "send"
            )
        }
    }

    /// Uses a list in every way that reads it.
    private static func read(_ folder: String) throws -> Content {
        let list = try PurgeList(path: folder + "/purge.db", isMade: false)
        defer { list.close() }
        var content = Content()
        try list.entries { content.entries.append($0) }
        let rules = TokenTableRules(registration: .registered(column: "registered"), topic: .one(self.main.topic))
        try list.deadTokens(rules) { content.dead.append($0) }
        let lookup = try PurgeLookup(list, in: [self.main])
        for number in stride(from: 0, to: 400, by: 7) {
            try content.found.append(lookup.contains(DeviceToken(bytes: self.token(number))))
        }
        var application = TokenTableApplication(
            path: folder + "/app.db",
            table: "devices",
            tokenColumn: "token",
            rules: rules
        )
        application.isDryRun = true
        application.fractionMax = 1
        content.dueCount = try application.run(list).dueCount
        return content
    }

    /// Reads a changed file.
    ///
    /// - Returns: whether the readers found the damage; otherwise all of them found what the undamaged file has.
    private func isReported(_ changed: Data, _ comment: @autoclosure () -> String) throws -> Bool {
        for ending in ["-wal", "-shm"] { try? FileManager.default.removeItem(atPath: self.path + ending) }
        try changed.write(to: URL(filePath: self.path))
        do {
            let content = try Self.read(self.folder.path)
            #expect(content == self.expected, "\(comment())")
            return false
        } catch is PurgeListError {
            return true
        }
    }

    @Test func `no flipped bit deletes a living row or hides a dead token`() throws {
        let bitCount = self.intact.count * 8
        // Odd, so that each bit of a byte has its turn.
        let step = TestEffort.count(7507, long: 41)
        var (reportedCount, count) = (0, 0)
        for bit in stride(from: 0, to: bitCount, by: step) {
            var changed = self.intact
            changed[bit / 8] ^= 1 << UInt8(bit % 8)
            count += 1
            if try self.isReported(changed, "bit \(bit % 8) of byte \(bit / 8)") { reportedCount += 1 }
        }
        // The rest is in free space, and in registrations, which only the check reads.
        #expect(reportedCount > count / 5)
    }

    /// Goal: each bit of an entry that decides is covered.
    @Test func `a flipped bit of a failure time is reported`() throws {
        let (token, time) = (Data(Self.token(1)), withUnsafeBytes(of: UInt32(1_300_000_001).bigEndian) { Data($0) })
        let start = try #require(self.intact.range(of: token + time)?.upperBound) - 4
        for bit in 0..<32 {
            var changed = self.intact
            changed[start + bit / 8] ^= 1 << UInt8(bit % 8)
            #expect(try self.isReported(changed, "bit \(bit)"))
            let list = try PurgeList(path: self.path, isMade: false)
            defer { list.close() }
            #expect("bit \(bit)") { try list.checkIntegrity() } throws: { error in
                if case .corrupt = error as? PurgeListError { true } else { false }
            }
        }
    }

    /// Goal: a row that a scan finds and a look-up misses is damage, such as one with another topic number.
    @Test func `no flipped bit in front of a token hides it from a look-up`() throws {
        for number in TestEffort.isLong ? Array(0..<60) : [1, 14] {
            let start = try #require(self.intact.range(of: Data(Self.token(number)))?.lowerBound)
            for offset in start - 9..<start {
                for bit in 0..<8 {
                    var changed = self.intact
                    changed[offset] ^= 1 << UInt8(bit)
                    _ = try self.isReported(changed, "bit \(bit) of byte \(offset), before token \(number)")
                }
            }
        }
    }

    @Test func `no random damage deletes a living row or hides a dead token`() throws {
        var random = SplitMix64(seed: 28)
        let pageCount = self.intact.count / 4096
        for number in 0..<TestEffort.count(50, long: 4000) {
            var changed = self.intact
            let page = 4096 * Int.random(in: 1..<pageCount, using: &random)
            let other = 4096 * Int.random(in: 1..<pageCount, using: &random)
            switch number % 5 {
            case 0:  // Bytes.
                for _ in 0..<Int.random(in: 1...16, using: &random) {
                    changed[Int.random(in: 0..<changed.count, using: &random)] = .random(in: 0...255, using: &random)
                }
            case 1:  // A block.
                let first = Int.random(in: 0..<changed.count - 512, using: &random)
                for index in first..<first + 512 { changed[index] = .random(in: 0...255, using: &random) }
            case 2:  // A page that was not written, or written to another place.
                changed.replaceSubrange(page..<page + 4096, with: self.intact[other..<other + 4096])
            case 3:  // A page in its earlier state.
                guard page + 4096 <= self.earlier.count else { continue }
                changed.replaceSubrange(page..<page + 4096, with: self.earlier[page..<page + 4096])
            default:  // Pointers between pages and cells.
                let index = page + Int.random(in: 0..<24, using: &random)
                changed[index] = .random(in: 0...255, using: &random)
            }
            _ = try self.isReported(changed, "damage \(number)")
        }
    }

    /// Goal: a change does not compute a checksum of a damaged row.
    @Test func `a change does not hide damage`() throws {
        let step = TestEffort.count(12_511, long: 199)
        for bit in stride(from: 0, to: self.intact.count * 8, by: step) {
            var changed = self.intact
            changed[bit / 8] ^= 1 << UInt8(bit % 8)
            for ending in ["-wal", "-shm"] { try? FileManager.default.removeItem(atPath: self.path + ending) }
            try changed.write(to: URL(filePath: self.path))
            do {
                let list = try PurgeList(path: self.path, isMade: false)
                defer { list.close() }
                try list.record(
                    Self.entries(0..<400, Self.main).map { entry in
                        var entry = entry
                        entry.firstSeenSeconds = 1500
                        return entry
                    }
                )
                let entries = self.expected.entries.filter { $0.topic == Self.main.topic }.count
                var found: [PurgeEntry] = []
                try list.entries { found.append($0) }
                #expect(found.allSatisfy { $0.failedAtSeconds == 1_300_000_001 }, "bit \(bit)")
                #expect(found.count == self.expected.entries.count + 400 - entries, "bit \(bit)")
            } catch is PurgeListError {}
        }
    }

    @Test func `entries and registrations that vanish as a whole are reported`() throws {
        for sql in [
            "DELETE FROM dead_token WHERE scope = 1", "DELETE FROM dead_token WHERE token > x'80' AND scope = 1",
            "DELETE FROM token_scope WHERE id = 1", "DELETE FROM list_total", "DELETE FROM source WHERE id = 1",
            "DELETE FROM registered_token WHERE token > x'80'", "UPDATE token_scope SET topic = 'com.example.apq'",
            "UPDATE source SET name = 'sent' WHERE name = 'send'",
            "UPDATE registered_token SET registered_at = 1 WHERE token > x'80'",
        ] {
            try? FileManager.default.removeItem(atPath: self.path)
            try self.intact.write(to: URL(filePath: self.path))
            let queue = try DatabaseQueue(path: self.path)
            try queue.writeWithoutTransaction { try $0.execute(sql: "PRAGMA foreign_keys = OFF; \(sql)") }
            try queue.close()
            let list = try PurgeList(path: self.path, isMade: false)
            #expect("\(sql)") { try list.checkIntegrity() } throws: { error in
                if case .corrupt = error as? PurgeListError { true } else { false }
            }
            list.close()
            if !sql.contains("registered") { #expect(throws: PurgeListError.self) { try Self.read(self.folder.path) } }
        }
    }

    @Test func `a token beyond 100 bytes is damage`() throws {
        let queue = try DatabaseQueue(path: self.path)
        try queue.writeWithoutTransaction { database in
            try database.execute(
                sql: """
                    PRAGMA ignore_check_constraints = ON;
                    UPDATE dead_token SET token = zeroblob(101) WHERE token = (SELECT min(token) FROM dead_token)
                    """
            )
        }
        try queue.close()
        #expect(throws: PurgeListError.corrupt(path: self.path, detail: "a token of the wrong length")) {
            try Self.read(self.folder.path)
        }
    }

    /// The checksum in docs/file-formats.md, bit by bit.
    private static func crc64(_ bytes: [UInt8]) -> UInt64 {
        var state = UInt64.max
        for byte in bytes {
            state ^= UInt64(byte)
            for _ in 0..<8 { state = state >> 1 ^ (state & 1 == 0 ? 0 : 0xC96C_5795_D787_0F42) }
        }
        return ~state
    }

    @Test func `the checksum of an entry is the documented one`() throws {
        #expect(Self.crc64(Array("123456789".utf8)) == 0x995D_C9BB_DF19_39FA)
        func number(_ value: UInt64) -> [UInt8] { withUnsafeBytes(of: value.littleEndian) { Array($0) } }
        func text(_ value: String) -> [UInt8] { Array(value.utf8) + number(UInt64(value.utf8.count)) }
        let token = Self.token(1)
        let names = text("com.example.app") + text("production")
        let rest = number(32) + number(1_300_000_001) + number(2000) + number(Self.crc64(text("send")))
        let queue = try DatabaseQueue(path: self.path)
        let stored = try queue.read { database in
            try Int64.fetchOne(
                database,
                sql: "SELECT checksum FROM dead_token WHERE scope = 1 AND token = ?",
                arguments: [Data(token)]
            )
        }
        #expect(stored == Int64(bitPattern: Self.crc64(names + token + rest)))
    }
}
