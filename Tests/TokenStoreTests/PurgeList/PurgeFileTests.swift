// SPDX-License-Identifier: Apache-2.0

import Foundation
import GRDB
import TokenStore
import TestSupport
import Testing

/// Old, new, foreign and damaged files, and full disks.
@Suite("Purge list files", .timeLimit(.minutes(2)))
struct PurgeFileTests {
    let folder: TemporaryFolder
    var path: String { self.folder.path + "/purge.db" }

    init() throws {
        self.folder = try TemporaryFolder()
    }

    private func entries(_ count: Int, failedAt: Int64 = 1000) -> [PurgeEntry] {
        var random = SplitMix64(seed: 7)
        return (0..<count).map { _ in
            let token = (0..<32).map { _ in UInt8.random(in: 0...255, using: &random) }
            return PurgeListTests.entry(token, failedAt: failedAt)
        }
    }

    private func count(_ list: PurgeList) throws -> Int {
        var count = 0
        try list.entries { _ in count += 1 }
        return count
    }

    /// Runs SQL in the file without a `PurgeList`.
    private func execute(_ sql: String) throws {
        let queue = try DatabaseQueue(path: self.path)
        try queue.writeWithoutTransaction { try $0.execute(sql: sql) }
        try queue.close()
    }

    /// A list of the first version.
    static let versionOne = """
        CREATE TABLE scope (
            id INTEGER PRIMARY KEY,
            topic TEXT NOT NULL,
            environment TEXT NOT NULL CHECK (environment IN ('production', 'sandbox')),
            UNIQUE (topic, environment)
        );
        CREATE TABLE source (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
        CREATE TABLE dead (
            scope INTEGER NOT NULL REFERENCES scope (id),
            token BLOB NOT NULL CHECK (typeof(token) = 'blob' AND length(token) BETWEEN 1 AND 100),
            failed_at INTEGER NOT NULL,
            first_seen INTEGER NOT NULL,
            source INTEGER NOT NULL REFERENCES source (id),
            PRIMARY KEY (scope, token)
        ) WITHOUT ROWID;
        INSERT INTO scope VALUES (1, 'com.example.app', 'production');
        INSERT INTO source VALUES (1, 'feedback');
        INSERT INTO dead VALUES (1, x'010203', 1000, 2000, 1);
        PRAGMA application_id = 0x41504E50;
        PRAGMA user_version = 1;
        """

    @Test(
        "A list that is renamed, replaced or removed while it is open is an error, and keeps what it has",
        arguments: ["rename", "replace", "remove"]
    )
    func vanished(_ change: String) throws {
        let moved = self.folder.path + "/moved.db"
        do {
            let list = try PurgeList(path: self.path)
            defer { list.close() }
            _ = try list.record(self.entries(10))
            switch change {
            case "rename": try FileManager.default.moveItem(atPath: self.path, toPath: moved)
            case "replace":
                try FileManager.default.moveItem(atPath: self.path, toPath: moved)
                try FileManager.default.copyItem(atPath: moved, toPath: self.path)
            default: try FileManager.default.removeItem(atPath: self.path)
            }
            let error = #expect(throws: PurgeListError.self) { try list.record(self.entries(20)) }
            #expect(error == .replaced(path: self.path))
        }
        guard change != "remove" else { return }
        #expect(try self.count(try PurgeList(path: moved)) == 10)
    }

    @Test("A file of a newer version is rejected by name and not changed")
    func newerVersion() throws {
        _ = try PurgeList(path: self.path)
        try self.execute("PRAGMA user_version = 99")
        let before = try Data(contentsOf: URL(filePath: self.path))
        let error = #expect(throws: PurgeListError.self) { try PurgeList(path: self.path) }
        #expect(error == .newerVersion(path: self.path, found: 99, known: 3))
        #expect("\(try #require(error))".contains("version 99"))
        #expect(try Data(contentsOf: URL(filePath: self.path)) == before)
    }

    @Test("The database of another program is rejected and not changed, including its journal mode")
    func foreign() throws {
        try self.execute("CREATE TABLE device (token TEXT)")
        let before = try Data(contentsOf: URL(filePath: self.path))
        #expect(throws: PurgeListError.notAPurgeList(path: self.path)) { try PurgeList(path: self.path) }
        #expect(try Data(contentsOf: URL(filePath: self.path)) == before)
        #expect(!FileManager.default.fileExists(atPath: self.path + "-wal"))
    }

    @Test("A file that is not a database is rejected and not changed")
    func noDatabase() throws {
        let text = Data(String(repeating: "token,topic\n", count: 100).utf8)
        try text.write(to: URL(filePath: self.path))
        #expect(throws: PurgeListError.notAPurgeList(path: self.path)) { try PurgeList(path: self.path) }
        #expect(try Data(contentsOf: URL(filePath: self.path)) == text)
    }

    @Test("A missing list is an error if it has to exist, and a missing folder always is")
    func missing() throws {
        #expect(throws: PurgeListError.missing(path: self.path)) { try PurgeList(path: self.path, isMade: false) }
        #expect(!FileManager.default.fileExists(atPath: self.path))
        let path = self.folder.path + "/none/purge.db"
        #expect(throws: PurgeListError.cannotOpen(path: path)) { try PurgeList(path: path) }
    }

    @Test("An empty file becomes a list only if that is permitted")
    func empty() throws {
        #expect(FileManager.default.createFile(atPath: self.path, contents: nil))
        #expect(throws: PurgeListError.empty(path: self.path)) { try PurgeList(path: self.path, isMade: false) }
        #expect(try Data(contentsOf: URL(filePath: self.path)).isEmpty)
        #expect(try FileManager.default.contentsOfDirectory(atPath: self.folder.path).count == 1)
        _ = try PurgeList(path: self.path)
    }

    @Test("A folder or a device is not a list", arguments: [true, false])
    func notAFile(isMade: Bool) {
        for path in [self.folder.path, "/dev/null"] {
            #expect(throws: PurgeListError.notAFile(path: path)) { try PurgeList(path: path, isMade: isMade) }
        }
    }

    @Test("A closed list is a single file")
    func closing() throws {
        func names() throws -> [String] { try FileManager.default.contentsOfDirectory(atPath: self.folder.path) }
        let (list, other) = (try PurgeList(path: self.path), try PurgeList(path: self.path))
        try list.record(self.entries(100))
        for each in [list, other] { #expect(try each.statistics().count == 100) }
        list.close()
        #expect(throws: PurgeListError.self) { try list.statistics() }
        #expect(try names().count == 3 && other.statistics().count == 100)
        other.close()
        #expect(try names() == ["purge.db"])
        #expect(try PurgeList(path: self.path).statistics().count == 100)
    }

    @Test("A new list and the files next to it are readable only by their owner")
    func permissions() throws {
        let list = try PurgeList(path: self.path)
        try list.record(self.entries(1))
        for name in try FileManager.default.contentsOfDirectory(atPath: self.folder.path) {
            let path = self.folder.path + "/" + name
            let mode = try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
            #expect(mode == 0o600, "\(name)")
        }
    }

    @Test("Overwritten pages cause a clear error without tokens")
    func corrupted() throws {
        do {
            let list = try PurgeList(path: self.path)
            try list.record(self.entries(20_000))
        }
        let file = try FileHandle(forWritingTo: URL(filePath: self.path))
        let end = try file.seekToEnd()
        for offset in stride(from: UInt64(8 * 4096), to: end, by: 3 * 4096) {
            try file.seek(toOffset: offset)
            try file.write(contentsOf: Data(repeating: 0xA5, count: 4096))
        }
        try file.close()
        let list = try PurgeList(path: self.path)
        #expect(throws: PurgeListError.self) { try list.checkIntegrity() }
        let error = #expect(throws: PurgeListError.self) { try self.count(list) }
        guard case .corrupt = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect("\(try #require(error))".contains("damaged"))
    }

    @Test("An invalid entry is rejected with the whole call")
    func impossibleEntries() throws {
        let list = try PurgeList(path: self.path)
        let good = PurgeListTests.entry([1])
        for (entry, error) in [
            (PurgeListTests.entry([]), PurgeListError.tokenByteCount(0)),
            (PurgeListTests.entry([UInt8](repeating: 1, count: 101)), .tokenByteCount(101)),
            (PurgeListTests.entry([1], topic: ""), .nameByteCount(field: "topic", 0)),
            (PurgeListTests.entry([1], source: "a\nb"), .controlCharacter(field: "source")),
            (PurgeListTests.entry([1], failedAt: -1), .time(field: "failedAt", -1)),
            (PurgeListTests.entry([1], firstSeen: .max), .time(field: "firstSeen", .max)),
        ] {
            #expect(throws: error) { try list.record([good, entry]) }
        }
        #expect(try self.count(list) == 0)
    }

    @Test("No description shows a token")
    func descriptions() {
        let entry = PurgeListTests.entry([0xDE, 0xAD, 0xBE, 0xEF])
        var dumped = ""
        dump(entry, to: &dumped)
        for text in ["\(entry)", String(reflecting: entry), dumped] {
            #expect(!text.contains("222") && !text.lowercased().contains("dead"))
        }
    }

    @Test(arguments: ["'a'", "x'00'", "-9223372036854775808", "9223372036854775807", "1e300", "253402300800", "-1"])
    func `an invalid time is reported as damage`(_ time: String) throws {
        let list = try PurgeList(path: self.path)
        try list.record(self.entries(3))
        list.close()
        for column in ["failed_at", "first_seen"] {
            try self.execute("UPDATE dead_token SET \(column) = \(time)")
            let damaged = try PurgeList(path: self.path)
            #expect { _ = try self.count(damaged) } throws: { error in
                if case .corrupt = error as? PurgeListError { true } else { false }
            }
            if column == "failed_at" {
                #expect { _ = try damaged.statistics() } throws: { error in
                    if case .corrupt = error as? PurgeListError { true } else { false }
                }
            }
            damaged.close()
            try self.execute("UPDATE dead_token SET \(column) = 1000")
        }
    }
}
