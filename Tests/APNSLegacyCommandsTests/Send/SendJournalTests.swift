// SPDX-License-Identifier: Apache-2.0

import Foundation
import Testing

@testable import APNSLegacyCommands

@Suite struct SendJournalTests {
    let folder: SendFolder

    init() throws { self.folder = try SendFolder() }

    /// Writes a journal through and lets go of it.
    func write(_ body: (SendJournal) throws -> Void) throws {
        let journal = try self.folder.journal()
        try body(journal)
        try journal.flush()
    }

    @Test func `what is recorded is read again`() throws {
        try self.write { journal in
            #expect(journal.past == SendJournal.Past())
            try journal.intend(through: 64)
            _ = journal.settle(1..<11, .accepted, status: nil, isDuplicate: false, resultOctetCount: 10)
            _ = journal.settle(11..<12, .rejected, status: 8, isDuplicate: false, resultOctetCount: 20)
            _ = journal.settle(12..<15, .accepted, status: nil, isDuplicate: true, resultOctetCount: 30)
        }
        let past = try self.folder.journal().past
        #expect(past.settled.ranges == [1..<15] && past.doubted.ranges == [1..<65])
        #expect(past.resultOctetCount == 30 && !past.isComplete)
        #expect(past.tally[.accepted] == 13 && past.tally.statuses == [8: 1] && past.tally.possibleDuplicateCount == 3)
    }

    @Test func `lines in a row with one outcome are one record`() throws {
        try self.write { journal in
            for line: UInt64 in 1...1000 {
                _ = journal.settle(
                    line..<(line + 1),
                    .accepted,
                    status: nil,
                    isDuplicate: false,
                    resultOctetCount: line
                )
            }
        }
        let lines = self.folder.read("journal").split(separator: "\n")
        #expect(lines.count == 3 && lines.first == "apns-legacy journal 1 batch" && lines[1].hasPrefix("began "))
        #expect(lines.last == "1 1000 accepted - - 1000")
    }

    @Test func `what was rejected and is on no list is known, and when the first run began`() throws {
        let title = "apns-legacy journal 1 batch\nbegan 500\n1 3 rejected 8 - 9\n4 4 accepted - - 9\n"
        for (rest, count) in [("", 3), ("listed 2\n", 1), ("listed 3\nrun\nbegan 900\n5 5 rejected 7 - 9\n", 1)] {
            try self.folder.write("journal", title + rest + "listed 0\n")
            let past = try self.folder.journal().past
            #expect(past.unlistedCount == count && past.beganAt == 500, "\(rest)")
        }
        try self.folder.write("journal", title + "listed 4\ncomplete\n")
        #expect(try self.folder.journal().past.unlistedCount == 0)
        for line in ["listed x", "listed", "began -", "began 1 2"] {
            try self.folder.write("journal", title + line + "\n")
            #expect(SendFolder.failure { _ = try self.folder.journal() }?.status == .dataError, "\(line)")
        }
    }

    @Test func `an intent is in the file before the call returns`() throws {
        let journal = try self.folder.journal()
        try journal.intend(through: 64)
        #expect(self.folder.read("journal").hasSuffix("intent 64\n"))
        #expect(journal.intendedThrough == 64)
    }

    @Test func `what a run spared is in no doubt, but what a run before it intended is`() throws {
        try self.write { journal in
            try journal.intend(through: 10)
            journal.spare(8..<11)
        }
        #expect(try self.folder.journal().past.doubted.ranges == [1..<8])
        try self.write { journal in
            try journal.intend(through: 20)
            // Written by neither; then one that only the first run may have written.
            journal.spare(9..<21)
            journal.spare(3..<4)
        }
        #expect(try self.folder.journal().past.doubted.ranges == [1..<9])
    }

    @Test func `a last line without its end counts for nothing`() throws {
        try self.write { try $0.intend(through: 64) }
        let whole = self.folder.read("journal")
        for rest in ["1", "1 5 accepted - - 77", "garbage", "\u{0}\u{0}"] {
            try self.folder.write("journal", whole + rest)
            #expect(try self.folder.journal().past.settled.ranges.isEmpty)
            #expect(self.folder.read("journal") == whole)
        }
    }

    @Test(
        arguments: [
            "garbage", "", "intent", "intent x", "1 2 accepted - -", "0 2 accepted - - 1", "3 2 accepted - - 1",
            "1 2 fine - - 1", "1 2 accepted 70000 - 1", "1 2 accepted - maybe 1", "1 2 accepted - - -1", "spare 4 3",
            "1 18446744073709551615 accepted - - 1", String(repeating: "1", count: 5000),
        ]
    ) func `a damaged line is refused by its number, and the file stays as it is`(_ line: String) throws {
        let text = "apns-legacy journal 1 batch\nintent 64\n\(line)\n1 2 accepted - - 5\n"
        try self.folder.write("journal", text)
        let failure = try #require(SendFolder.failure { _ = try self.folder.journal() })
        #expect(failure.status == .dataError && failure.description.contains("line 3"), "\(failure)")
        #expect(self.folder.read("journal") == text)
    }

    @Test func `the journal of another batch is refused`() throws {
        try self.write { try $0.intend(through: 64) }
        let failure = SendFolder.failure { _ = try self.folder.journal("other") }
        #expect(failure?.status == .dataError && failure?.description.contains("another batch") == true)
    }

    @Test func `a title that was cut off is written again, and another file is not touched`() throws {
        for count in 0..<"apns-legacy journal 1 batch".count {
            try self.folder.write("journal", String("apns-legacy journal 1 batch".prefix(count)))
            #expect(try self.folder.journal().past == SendJournal.Past())
            #expect(self.folder.read("journal") == "apns-legacy journal 1 batch\n")
        }
        for text in ["my diary", "my diary\nday 1"] {
            try self.folder.write("journal", text)
            #expect(SendFolder.failure { _ = try self.folder.journal() }?.status == .dataError)
            #expect(self.folder.read("journal") == text)
        }
    }

    @Test func `a journal that is held is refused until it is let go`() throws {
        let held = try self.folder.journal()
        #expect(SendFolder.failure { _ = try self.folder.journal() }?.status == .tryAgain)
        try held.finish(isComplete: true)
    }

    @Test func `completeness is recorded`() throws {
        try self.write { try $0.finish(isComplete: true) }
        #expect(try self.folder.journal().past.isComplete)
    }
}
