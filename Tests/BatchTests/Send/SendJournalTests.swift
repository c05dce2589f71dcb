// SPDX-License-Identifier: Apache-2.0

import APNSWire
import FileSupport
import Foundation
import Testing

@testable import Batch

@Suite struct SendJournalTests {
    let folder: SendFolder

    init() throws { self.folder = try SendFolder() }

    /// Appends to a journal like a run, and closes it.
    func write(_ body: (inout JournalEntries) -> Void) throws {
        let journal = try self.folder.journal()
        var entries = journal.opening
        body(&entries)
        try journal.append(entries.take())
        try journal.synchronize()
    }

    /// The state in a journal with these records.
    func past(_ records: [String], format: Int = 3, lineCount: UInt64 = 1000) throws -> SendJournal.Past {
        try self.folder.write("journal", SendFolder.journal(records, format: format))
        return try self.folder.journal(lineCount: lineCount).past
    }

    @Test func `recorded outcomes are read again`() throws {
        #expect(try self.folder.journal().past == SendJournal.Past())
        try self.write { entries in
            entries.intend(through: 64)
            entries.settle(1..<11, LineOutcome(.accepted), resultByteCount: 10, hash: XXH64Hash())
            entries.settle(11..<12, LineOutcome(.rejected, status: 8), resultByteCount: 20, hash: XXH64Hash())
            entries.settle(12..<15, LineOutcome(.accepted, isDuplicate: true), resultByteCount: 30, hash: XXH64Hash())
        }
        let past = try self.folder.journal().past
        #expect(past.settled.ranges == [1..<15] && past.doubted.ranges == [1..<65])
        #expect(past.resultByteCount == 30 && !past.isComplete)
        #expect(
            past.outcomeCounts[.accepted] == 13 && past.outcomeCounts.statuses == [8: 1]
                && past.outcomeCounts.possibleDuplicateCount == 3
        )
    }

    @Test func `consecutive lines with the same outcome are one record`() throws {
        try self.write { entries in
            for line: UInt64 in 1...1000 {
                entries.settle(
                    line..<(line + 1),
                    LineOutcome(.accepted),
                    resultByteCount: line,
                    hash: XXH64Hash()
                )
            }
        }
        let records = self.folder.records
        #expect(records.count == 3 && records.first == "apns-legacy journal 3 batch" && records[1].hasPrefix("began "))
        #expect(records.last == "1 1000 accepted - - 1000 ef46db3751d8e999")
    }

    @Test func `the start of the first run and unlisted rejections are known`() throws {
        let first = ["began 500", "intent 64", "1 3 rejected 8 - 9", "4 4 accepted - - 9"]
        let second = ["run", "began 900", "intent 64", "5 5 rejected 7 - 9"]
        for (rest, count) in [([], 3), (["listed 2"], 1), (["listed 3"] + second, 1)] {
            let past = try self.past(first + rest + ["listed 0"])
            #expect(past.unlistedCount == count && past.beganAt == 500, "\(rest)")
        }
        #expect(try self.past(first + ["listed 4", "complete"]).unlistedCount == 0)
        #expect(try self.past(first + ["complete", "listed 4"]).unlistedCount == 0)
        for line in ["listed x", "listed", "began -", "began 1 2", "began -1", "began 9223372036854775807"] {
            #expect(SendFolder.failure { _ = try self.past(first + [line]) }?.kind == .badData, "\(line)")
        }
    }

    @Test func `the lines whose tokens are not on the purge list are known until a run lists them`() throws {
        let first = ["began 500", "intent 64", "1 2 rejected 8 - 9", "4 4 rejected 410 - 9", "6 6 rejected 400 - 9"]
        let second = ["run", "began 900", "intent 64", "5 5 rejected 8 - 9", "7 7 rejected 7 - 9"]
        let past = try self.past(first)
        #expect(past.unlisted.mapValues(\.ranges) == [8: [1..<3], 410: [4..<5]])
        #expect(past.listable.mapValues(\.ranges) == [410: [4..<5]], "Nothing was accepted.")
        let accepted = try self.past(first + ["3 3 accepted - - 9"] + second)
        #expect(accepted.listable.mapValues(\.ranges) == [8: [1..<3, 5..<6], 410: [4..<5]])
        #expect(accepted.listableCount == 4)
        // Earlier versions listed only the rejections of their run.
        #expect(
            try self.past(first + second + ["listed 2"]).unlisted.mapValues(\.ranges) == [8: [1..<3], 410: [4..<5]]
        )
        #expect(try self.past(first + second + ["listed 5"]).unlisted.isEmpty)
        #expect(try self.past(first + ["complete", "listed 3"]).unlisted.isEmpty)
        #expect(try self.past(first.dropFirst() + ["3 3 accepted - - 9"]).listable.isEmpty, "The time is not known.")
    }

    @Test func `lines that a run spared are not in doubt, unless an earlier run intended them`() throws {
        try self.write { entries in
            entries.intend(through: 10)
            entries.spare(8..<11)
        }
        #expect(try self.folder.journal().past.doubted.ranges == [1..<8])
        try self.write { entries in
            entries.intend(through: 20)
            // Written by neither run; then a line that only the first run may have written.
            entries.spare(9..<21)
            entries.spare(3..<4)
        }
        #expect(try self.folder.journal().past.doubted.ranges == [1..<9])
    }

    @Test func `a last line without a line break is ignored`() throws {
        try self.write { $0.intend(through: 64) }
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
            // More lines than intended, a line that has an outcome, and lines that the input does not have.
            "60 65 accepted - - 5", "65 65 indeterminate - - 5", "2 2 rejected 8 - 5", "spare 60 65", "intent 64",
            "intent 66537", "1001 1001 invalid - - 5", "1 2 accepted - - 9223372036854775808",
            "18446744073709551614 18446744073709551614 invalid - - 5", "intent 18446744073709551614", "intent 0",
            "intent 18446744073709551615", "spare 18446744073709551614 18446744073709551614",
        ],
        1...3
    ) func `a damaged line is reported with its number, and the file is not changed`(
        _ line: String,
        _ format: Int
    ) throws {
        let records = ["intent 64", "2 3 accepted - - 5", line, "4 4 accepted - - 5"]
        let failure = try #require(
            SendFolder.failure { _ = try self.past(records, format: format, lineCount: 1000) }
        )
        #expect(failure.kind == .badData && failure.description.contains("line 4"), "\(failure)")
        #expect(self.folder.read("journal").contains("\n" + line))
        #expect(self.folder.read("journal").split(separator: "\n").last?.hasPrefix("4 4 accepted - - 5") == true)
    }

    @Test(arguments: 1...3) func `two records with the maximum numbers are rejected`(_ format: Int) {
        for outcome in ["invalid", "accepted", "rejected", "indeterminate"] {
            let record = "1 18446744073709551614 \(outcome) - - 1"
            #expect(
                SendFolder.failure { _ = try self.past([record, record], format: format) }?.kind == .badData
            )
        }
    }

    @Test func `a decreasing result length and a record after the end are rejected`() {
        let records = ["intent 64", "1 2 accepted - - 9", "3 3 accepted - - 8"]
        #expect(SendFolder.failure { _ = try self.past(records) }?.description.contains("line 4") == true)
        for line in ["run", "began 5", "intent 65", "complete", "4 4 accepted - - 9", "format 2"] {
            let failure = SendFolder.failure { _ = try self.past(["intent 64", "complete", line]) }
            #expect(failure?.description.contains("line 4") == true, "\(line)")
        }
    }

    @Test func `a journal without checksums is continued with checksums`() throws {
        let past = try self.past(
            ["intent 64", "1 2 accepted - - 9", "run", "65 66 suppressed - - 3"],
            format: 1
        )
        #expect(past.settled.ranges == [1..<3, 65..<67] && past.doubted.ranges == [1..<65])
        try self.write { entries in
            entries.intend(through: 70)
            entries.settle(3..<5, LineOutcome(.accepted, isDuplicate: true), resultByteCount: 20, hash: XXH64Hash())
        }
        let whole = self.folder.bytes("journal")
        let expected = try self.folder.journal().past
        #expect(expected.settled.ranges == [1..<5, 65..<67] && expected.resultByteCount == 20)
        // Changes to the old records, except for the title, are now detected, too.
        for index in "apns-legacy journal 1 batch\n".utf8.count..<whole.count {
            var bytes = whole
            bytes[index] ^= 1
            try self.folder.write("journal", bytes)
            #expect(SendFolder.failure { _ = try self.folder.journal() }?.kind == .badData, "\(index)")
        }
        // In format 2, the same record had no further words; without a checksum, it is damage.
        let former = [
            "intent 64", "format 2 " + self.checksum(["apns-legacy journal 1 batch", "intent 64", "format 2"]),
        ]
        #expect(try self.past(former, format: 1).doubted.ranges == [1..<65])
        #expect(SendFolder.failure { _ = try self.past(["format 2"], format: 1) }?.kind == .badData)
    }

    private func checksum(_ records: [String]) -> String {
        var checksum = FNV1aHash()
        for record in records { checksum.add(record.utf8) }
        return String(decoding: checksum.hexadecimal, as: UTF8.self)
    }

    @Test(arguments: [1, 2]) func `a journal of an earlier version is continued with hashes of the results`(
        _ format: Int
    ) throws {
        #expect(try self.past(["intent 64", "1 2 accepted - - 9"], format: format).resultHash == nil)
        try self.write { entries in
            entries.intend(through: 70)
            entries.settle(3..<5, LineOutcome(.accepted, isDuplicate: true), resultByteCount: 20, hash: XXH64Hash())
        }
        #expect(self.folder.read("journal").contains("\nformat 3 batch "))
        let past = try self.folder.journal().past
        #expect(past.settled.ranges == [1..<5] && past.resultByteCount == 20)
        #expect(past.resultHash == 0xEF46_DB37_51D8_E999)
        // From the upgrade on, the whole input counts.
        let failure = SendFolder.failure {
            _ = try SendJournal(path: self.folder.file("journal"), input: "other", formerInput: "batch") { 1000 }
        }
        #expect(failure?.kind == .badData && failure?.reason == .otherBatch)
    }

    @Test func `without a results file, an outcome keeps the length and the hash of the run before`() throws {
        let records = ["intent 64", "1 2 accepted - - 9", "run", "intent 70"]
        let past = try self.past(records + ["3 3 accepted - - 9 -"])
        #expect(past.settled.ranges == [1..<4] && past.resultByteCount == 9 && past.resultHash == 0x0123_4567_89AB_CDEF)
        for record in ["3 3 accepted - - 10 -", "3 3 accepted - - 9 abc", "3 3 accepted - - 9 0123456789abcdeg"] {
            let failure = SendFolder.failure { _ = try self.past(records + [record]) }
            #expect(failure?.kind == .badData && failure?.place?.lineNumber == 6, "\(record)")
        }
    }

    @Test func `the journal of another batch is rejected`() throws {
        try self.write { $0.intend(through: 64) }
        let failure = SendFolder.failure { _ = try self.folder.journal("other") }
        #expect(failure?.kind == .badData && failure?.reason == .otherBatch)
    }

    @Test func `a truncated title is written again, and other files are not changed`() throws {
        _ = try self.folder.journal()
        let title = self.folder.bytes("journal")
        let cuts = (0..<title.count).map { Array(title.prefix($0)) } + [[UInt8](repeating: 0, count: title.count)]
        for cut in cuts {
            try self.folder.write("journal", cut)
            #expect(try self.folder.journal().past == SendJournal.Past())
            #expect(self.folder.bytes("journal") == title)
        }
        for text in ["my diary", "my diary\nday 1", "my diary\u{0}", String(repeating: "\u{0}", count: 512) + "day 1"] {
            try self.folder.write("journal", text)
            #expect(SendFolder.failure { _ = try self.folder.journal() }?.kind == .badData)
            #expect(self.folder.read("journal") == text)
        }
    }

    @Test(arguments: ["/dev/null", "/dev/zero", ".", "-"]) func `a path that is not a regular file is rejected`(
        _ path: String
    ) {
        let failure = SendFolder.failure { _ = try SendJournal(path: path, input: "batch") { 1 } }
        #expect(failure?.kind == .unsuitable && failure?.description.contains("--journal \(path)") == true)
    }

    @Test func `a locked journal is rejected until it is released`() throws {
        let held = try self.folder.journal()
        #expect(SendFolder.failure { _ = try self.folder.journal() }?.kind == .inUse)
        try held.synchronize()
    }

    @Test func `a journal that cannot be locked has another error than a locked one`() throws {
        let onOperation: OnFileOperation = { _, operation in
            if case .lock = operation { throw FileLock.Failure.system(action: .lock, code: ENOLCK) }
        }
        let failure = SendFolder.failure {
            _ = try SendJournal(path: self.folder.file("journal"), input: "batch", onOperation: onOperation) { 1 }
        }
        #expect(failure?.kind == .unwritable)
        let text = try #require(failure?.description)
        #expect(text.hasPrefix("cannot lock \(self.folder.file("journal")): No locks available;"), "\(text)")
    }

    @Test func `completeness is recorded`() throws {
        try self.write { $0.append("complete") }
        #expect(try self.folder.journal().past.isComplete)
    }
}
