// SPDX-License-Identifier: Apache-2.0

import APNSWire
import Foundation
import TestSupport
import Testing

@testable import Batch

/// A real journal with every kind of damage that a disk, a copy or an editor may cause; outside the long run, only some
/// of them.
@Suite(.timeLimit(.minutes(TestEffort.count(1, long: 5)))) struct SendJournalDamageTests {
    let folder: SendFolder
    /// A journal of two runs, with all kinds of records.
    let whole: [UInt8]
    let past: SendJournal.Past

    init() throws {
        self.folder = try SendFolder()
        for run in 0..<2 {
            let journal = try self.folder.journal()
            var entries = journal.opening
            let first = UInt64(run) * 100 + 1
            entries.intend(through: first + 99)
            entries.settle(
                first..<(first + 50),
                LineOutcome(.accepted),
                resultByteCount: first,
                hash: XXH64Hash()
            )
            entries.settle(
                (first + 50)..<(first + 51),
                LineOutcome(.rejected, status: 8),
                resultByteCount: first + 9,
                hash: XXH64Hash()
            )
            try journal.append(entries.take())
            entries.intend(through: first + 120)
            entries.settle(
                (first + 51)..<(first + 70),
                LineOutcome(.accepted, isDuplicate: true),
                resultByteCount: first + 90,
                hash: XXH64Hash()
            )
            entries.spare((first + 80)..<(first + 120))
            if run == 1 { entries.append("complete") }
            try journal.append(entries.take())
            try journal.recordListed(1)
        }
        self.whole = self.folder.bytes("journal")
        self.past = try self.folder.journal().past
        #expect(self.past.isComplete && self.past.outcomeCounts.total == 140)
    }

    /// The state in a journal; `nil` if it is rejected as damaged.
    func read(_ bytes: [UInt8]) throws -> SendJournal.Past? {
        try self.folder.write("journal", bytes)
        do {
            return try self.folder.journal().past
        } catch let failure as BatchFileError {
            #expect(failure.kind == .badData)
            #expect(self.folder.bytes("journal") == bytes, "What is refused stays as it is.")
            return nil
        }
    }

    @Test func `every single flipped bit is detected`() throws {
        for bit in stride(from: 0, to: self.whole.count * 8, by: TestEffort.isLong ? 1 : 9) {
            var bytes = self.whole
            bytes[bit / 8] ^= 1 << UInt8(bit % 8)
            #expect(try self.read(bytes) == nil, "byte \(bit / 8), bit \(bit % 8)")
        }
    }

    @Test func `a missing, duplicated or moved record is detected`() throws {
        let lines = self.whole.split(separator: 0x0A).map { Array($0) + [0x0A] }
        for index in lines.indices {
            var missing = lines
            missing.remove(at: index)
            // Without its last record, it is the journal of a run that was killed earlier.
            #expect(try self.read(Array(missing.joined())) == nil || index == lines.count - 1, "\(index) is missing")
            var doubled = lines
            doubled.insert(lines[index], at: index)
            #expect(try self.read(Array(doubled.joined())) == nil, "\(index) is doubled")
            for other in 0..<index {
                var swapped = lines
                swapped.swapAt(index, other)
                #expect(try self.read(Array(swapped.joined())) == nil, "\(other) and \(index) are swapped")
                var moved = lines
                moved.remove(at: index)
                moved.insert(lines[index], at: other)
                #expect(try self.read(Array(moved.joined())) == nil, "\(index) is at \(other)")
            }
        }
    }

    @Test func `a truncated journal has the state of its complete records`() throws {
        var known = SendJournal.Past()
        for length in self.whole.indices {
            let isAtLineStart = self.whole[..<length].last == 0x0A
            guard TestEffort.isLong || isAtLineStart || length % 7 == 0 else { continue }
            let past = try #require(try self.read(Array(self.whole.prefix(length))), "cut at \(length)")
            if length > 0, self.whole[length - 1] == 0x0A { known = past }
            #expect(past == known, "cut at \(length)")
        }
    }

    /// A journal whose first part is synchronized: that part's length, the journal with unsynchronized records, and a
    /// longer one with another intent, which was written after everything before it was synchronized.
    func growing() throws -> (synchronized: Int, whole: [UInt8], longer: [UInt8]) {
        try self.folder.write("journal", [UInt8]())
        let journal = try self.folder.journal()
        var entries = journal.opening
        entries.intend(through: 64)
        try journal.append(entries.take())
        let synchronized = self.folder.bytes("journal").count
        for line: UInt64 in 1..<64 {
            entries.settle(
                line..<(line + 1),
                LineOutcome(line % 2 == 0 ? .accepted : .rejected),
                resultByteCount: line,
                hash: XXH64Hash()
            )
        }
        try journal.append(entries.take())
        entries.intend(through: 200)
        try journal.append(entries.take())
        let whole = self.folder.bytes("journal")
        entries.intend(through: 300)
        try journal.append(entries.take())
        return (synchronized, whole, self.folder.bytes("journal"))
    }

    @Test func `zeros in place of unsynchronized data are removed, and other zeros are damage`() throws {
        let (synchronized, whole, longer) = try self.growing()
        let expected = try #require(try self.read(Array(whole.prefix(synchronized))))
        func zeroed(_ bytes: [UInt8], _ range: Range<Int>) -> [UInt8] {
            var bytes = bytes
            for index in range { bytes[index] = 0 }
            return bytes
        }
        #expect(synchronized < 512 && whole.count > 1536)
        #expect(try self.read(zeroed(whole, synchronized..<512)) == expected)
        #expect(try self.read(zeroed(whole, synchronized..<whole.count)) == expected)
        let cut = try #require(try self.read(zeroed(whole, 512..<1024)))
        #expect(cut.settled.count > 0 && cut.settled.count < 20 && cut.doubted.ranges == [1..<65])
        // The run continued after the second intent, so that was on the disk with everything before it.
        #expect(try self.read(zeroed(longer, synchronized..<512)) == nil)
        #expect(try self.read(zeroed(whole, (synchronized + 3)..<512)) == nil)
        #expect(try self.read(zeroed(whole, synchronized..<500)) == nil)
        let step = TestEffort.isLong ? 1 : 9
        for index in stride(from: synchronized, to: whole.count - 1, by: step)
        where index % 512 != 511 || whole[index - 1] != 0x0A {
            #expect(try self.read(zeroed(whole, index..<(index + 1))) == nil, "byte \(index)")
        }
    }
}
