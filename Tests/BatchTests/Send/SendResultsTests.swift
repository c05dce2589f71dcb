// SPDX-License-Identifier: Apache-2.0

import APNSWire
import Foundation
import Testing

@testable import Batch

@Suite struct SendResultsTests {
    let folder: SendFolder

    init() throws { self.folder = try SendFolder() }

    func results(isOnlyExceptions: Bool = false, retriesIndeterminate: Bool = true) throws -> SendResults {
        try SendResults(
            path: self.folder.file("results"),
            isOnlyExceptions: isOnlyExceptions,
            journal: try self.folder.journal(),
            retriesIndeterminate: retriesIndeterminate
        )
    }

    /// Whether a line may be written after the intent is on the disk, and not before.
    func isIntended(_ line: UInt64, by results: inout SendResults) throws -> Bool {
        guard !results.intend(line), !results.intend(line) else { return false }
        try results.writePortion()
        return results.intend(line)
    }

    var lines: [Int] {
        self.folder.read("results").split(separator: "\n").compactMap { line in
            let object = try? JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any]
            return object?["line"] as? Int
        }
    }

    @Test func `the result of a line that another run sends again is removed by that run`() throws {
        var first = try self.results()
        #expect(try self.isIntended(1, by: &first))
        try first.put(1, .accepted)
        try first.put(2, .unsent)
        try first.put(3, .indeterminate)
        try first.put(4, .rejected, status: 8)
        try first.finish(isComplete: false, lastGivenLine: 4)
        #expect(self.lines == [1, 4, 2, 3], "What is not final goes last.")
        let total = first.outcomeCounts.total
        #expect(total == 4)
        first = try SendResults(path: nil, isOnlyExceptions: true, journal: nil, retriesIndeterminate: true)
        let second = try self.results()
        #expect(self.lines == [1, 4])
        let past = second.past
        #expect(past.settled.ranges == [1..<2, 4..<5] && past.outcomeCounts.total == 2)
        // Line 2 is known to be unwritten, and 5 was never given to a connection.
        let doubted = (1...5).map { second.isInDoubt($0) }
        #expect(doubted == [true, false, true, true, false])
    }

    @Test func `with at most once, indeterminate lines stay indeterminate`() throws {
        var first = try self.results(retriesIndeterminate: false)
        #expect(try self.isIntended(1, by: &first))
        try first.put(1, .indeterminate)
        try first.finish(isComplete: false, lastGivenLine: 1)
        first = try SendResults(path: nil, isOnlyExceptions: true, journal: nil, retriesIndeterminate: true)
        let second = try self.results(retriesIndeterminate: false)
        let isSettled = second.past.settled.contains(1)
        #expect(isSettled && self.lines == [1])
    }

    @Test func `results after those in the journal are removed`() throws {
        var first = try self.results()
        #expect(try self.isIntended(1, by: &first))
        try first.put(1, .accepted)
        try first.finish(isComplete: false, lastGivenLine: 2)
        first = try SendResults(path: nil, isOnlyExceptions: true, journal: nil, retriesIndeterminate: true)
        let whole = self.folder.read("results")
        try self.folder.write("results", whole + "{\"line\":2,\"outc")
        let second = try self.results()
        let (isInDoubt, isSettled) = (second.isInDoubt(2), second.past.settled.contains(2))
        #expect(self.folder.read("results") == whole && isInDoubt && !isSettled)
    }

    @Test func `results shorter than the journal records are rejected`() throws {
        var first = try self.results()
        #expect(try self.isIntended(1, by: &first))
        try first.put(1, .accepted)
        try first.finish(isComplete: false, lastGivenLine: 1)
        first = try SendResults(path: nil, isOnlyExceptions: true, journal: nil, retriesIndeterminate: true)
        try self.folder.write("results", "{")
        #expect(SendFolder.failure { _ = try self.results() }?.kind == .badData)
    }

    @Test func `accepted notifications have no line if only exceptions are requested`() throws {
        var results = try self.results(isOnlyExceptions: true)
        try results.put(1, .accepted)
        try results.put(2, .accepted, isDuplicate: true)
        try results.put(3, .rejected, status: 8)
        try results.finish(isComplete: true, lastGivenLine: 3)
        #expect(self.lines == [2, 3])
        let outcomeCounts = results.outcomeCounts
        #expect(outcomeCounts[.accepted] == 2)
    }
}
