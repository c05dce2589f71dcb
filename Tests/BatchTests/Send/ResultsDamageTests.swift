// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import APNSSession
import APNSWire
import Dispatch
import Foundation
import TestSupport
import Testing

@testable import Batch

/// Goal: a batch whose results or journal were damaged between two runs is refused, or ends with one result per line.
@Suite(.timeLimit(.minutes(2))) struct ResultsDamageTests {
    let folder: SendFolder

    init() throws { self.folder = try SendFolder() }

    /// Opens the results of a batch with a journal.
    private func results(_ name: String? = "results", isOnlyExceptions: Bool = false) throws -> SendResults {
        try SendResults(
            path: name.map { $0 == "-" ? $0 : self.folder.file($0) },
            isOnlyExceptions: isOnlyExceptions,
            journal: try self.folder.journal(),
            retriesIndeterminate: true,
            standardOutput: open("/dev/null", O_WRONLY | O_CLOEXEC)
        )
    }

    /// Sends lines with these outcomes, and is killed.
    private func send(
        _ lines: [(UInt64, DeliveryOutcome.Kind)],
        to name: String? = "results",
        isOnlyExceptions: Bool = false
    ) throws {
        var results = try self.results(name, isOnlyExceptions: isOnlyExceptions)
        for (line, _) in lines where !results.intend(line) { try results.writePortion() }
        for (line, outcome) in lines { try results.put(line, outcome) }
        try results.writePortion()
    }

    private func failure(_ name: String = "results") -> BatchFileError? {
        SendFolder.failure { _ = try self.results(name) }
    }

    // MARK: The results that a journal refers to

    @Test(arguments: [false, true]) func `results that changed are refused, and nothing is changed`(
        _ isOnlyExceptions: Bool
    ) throws {
        try self.send((1...9).map { ($0, $0 % 3 == 0 ? .rejected : .accepted) }, isOnlyExceptions: isOnlyExceptions)
        let (whole, journal) = (self.folder.bytes("results"), self.folder.bytes("journal"))
        let first = Array(whole.prefix { $0 != 0x0A }) + [0x0A]
        var damages = [
            first + whole, Array(whole.dropFirst()) + [0x0A], whole.map { _ in UInt8(ascii: "x") },
            Array(whole.dropFirst(first.count)) + first, [UInt8](repeating: 0, count: whole.count),
        ]
        for index in stride(from: 0, to: whole.count, by: TestEffort.isLong ? 1 : 37) {
            var bytes = whole
            bytes[index] ^= 1 << UInt8(index % 8)
            damages.append(bytes)
        }
        for (number, bytes) in damages.enumerated() {
            try self.folder.write("results", bytes)
            let failure = self.failure()
            #expect(failure?.kind == .badData && failure?.reason == .resultsChanged, "\(number)")
            #expect(self.folder.bytes("results") == bytes && self.folder.bytes("journal") == journal, "\(number)")
        }
        for rest in ["", "x", "{\"line\":8,", "\u{0}\u{0}\n\n"] {
            try self.folder.write("results", whole + Array(rest.utf8))
            #expect(self.failure() == nil && self.folder.bytes("results") == whole, "\(rest)")
        }
    }

    @Test func `a complete batch checks its results, too`() throws {
        try self.send([(1, .accepted)])
        var bytes = self.folder.bytes("results")
        let past = try self.folder.journal().past
        let path = self.folder.file("results")
        #expect(SendFolder.failure { try SendResults.check(path, past) } == nil)
        bytes[20] ^= 1
        try self.folder.write("results", bytes)
        #expect(SendFolder.failure { try SendResults.check(path, past) }?.kind == .badData)
    }

    @Test func `runs with and without a results file continue the same journal`() throws {
        try self.send([(1, .accepted), (2, .rejected)])
        let whole = self.folder.bytes("results")
        for (index, name) in [nil, "-"].enumerated() { try self.send([(UInt64(index) + 3, .accepted)], to: name) }
        #expect(self.folder.bytes("results") == whole)
        let byteCounts = self.folder.records.filter { $0.hasSuffix(" - - \(whole.count) -") }
        #expect(byteCounts.count == 2, "\(self.folder.records)")
        try self.folder.write("results", whole.map { $0 ^ 1 })
        #expect(self.failure()?.kind == .badData)
        try self.folder.write("results", whole)
        try self.send([(5, .accepted)])
        #expect(self.folder.bytes("results").starts(with: whole) && self.failure() == nil)
        #expect(try self.folder.journal().past.settled.ranges == [1..<6])
    }

    @Test func `a batch that began without a results file continues with one`() throws {
        try self.send([(1, .accepted)], to: "-")
        #expect(self.folder.records.last == "1 1 accepted - - 0 -")
        try self.send([(2, .accepted)])
        let past = try self.folder.journal().past
        #expect(past.settled.ranges == [1..<3] && past.resultByteCount == UInt64(self.folder.bytes("results").count))
    }

    @Test func `results that an earlier version recorded are read without a hash, and have one from then on`() throws {
        try self.folder.write("results", "first\n")
        try self.folder.write("journal", SendFolder.journal(["intent 64", "1 1 accepted - - 6"], format: 2))
        try self.send([(2, .accepted)])
        var bytes = self.folder.bytes("results")
        #expect(bytes.starts(with: "first\n".utf8) && self.failure() == nil)
        bytes[0] ^= 1
        try self.folder.write("results", bytes)
        #expect(self.failure()?.kind == .badData)
    }

    // MARK: A journal that lost records

    /// A result as the program writes it.
    private static func result(_ line: UInt64, _ outcome: String) -> String {
        let token = String(repeating: "01", count: 32)
        let id = #"\"outcome\":\"accepted\""#
        return #"{"line":\#(line),"id":"\#(id)","token":"\#(token)","outcome":"\#(outcome)","attempts":1}"#
    }

    @Test(arguments: ["accepted", "rejected", "indeterminate"])
    func `a result of a line that was not sent according to the journal is refused`(_ outcome: String) throws {
        try self.send([(1, .accepted)])
        let whole = self.folder.read("results")
        let last = try #require(try self.folder.journal().past.doubted.ranges.last).upperBound - 1
        for text in [last + 1, 1_000_000].map({ Self.result($0, outcome) }) {
            for rest in [text + "\n", Self.result(1, "accepted") + "\n" + text, "\n" + text + "\nx"] {
                try self.folder.write("results", whole + rest)
                let failure = self.failure()
                #expect(failure?.kind == .badData && failure?.reason == .recordsLost, "\(rest)")
                #expect(self.folder.read("results") == whole + rest)
            }
        }
        try self.folder.write("results", whole + Self.result(last, outcome) + "\n")
        #expect(self.failure() == nil && self.folder.read("results") == whole)
    }

    @Test func `results of lines that were not sent prove nothing, and neither does an incomplete one`() throws {
        try self.send([(1, .accepted)])
        let whole = self.folder.read("results")
        var rests = ["unsent", "invalid", "suppressed"].map { Self.result(900, $0) + "\n" }
        rests += [String(Self.result(900, "accepted").dropLast()), "\u{0}\n" + Self.result(900, "unsent")]
        for rest in rests {
            try self.folder.write("results", whole + rest)
            #expect(self.failure() == nil && self.folder.read("results") == whole, "\(rest)")
        }
    }

    @Test func `a line that an earlier run spared is not sent again if a later run has a result of it`() throws {
        var first = try self.results()
        while !first.intend(1) { try first.writePortion() }
        try first.finish(isComplete: false, lastGivenLine: 1)
        first = try SendResults(path: nil, isOnlyExceptions: true, journal: nil, retriesIndeterminate: true)
        let short = self.folder.bytes("journal")
        try self.send([(2, .accepted)])
        try self.folder.write("journal", short)
        #expect(self.failure()?.reason == .recordsLost)
    }

    @Test func `without a journal, a batch begins again and replaces the results`() throws {
        try self.send([(1, .accepted)])
        try FileManager.default.removeItem(atPath: self.folder.file("journal"))
        #expect(self.failure() == nil && self.folder.bytes("results").isEmpty)
    }

    // MARK: Files that vanish

    @Test(arguments: ["results", "journal"], [false, true])
    func `a file that is removed or replaced while it is written is an error`(_ name: String, _ isReplaced: Bool) throws
    {
        var results = try self.results()
        while !results.intend(1) { try results.writePortion() }
        try FileManager.default.removeItem(atPath: self.folder.file(name))
        if isReplaced { try self.folder.write(name, "new\n") }
        try results.put(1, .accepted)
        let failure = SendFolder.failure { try results.writePortion() }
        #expect(failure?.kind == .lost && failure?.description.contains(self.folder.file(name)) == true)
        let last = SendFolder.failure { try results.finish(isComplete: true, lastGivenLine: 1) }
        #expect(last?.kind == .lost)
    }

    @Test(arguments: ["results", "journal"])
    func `a file that another program truncates while it is written is an error`(_ name: String) throws {
        var results = try self.results()
        while !results.intend(1) { try results.writePortion() }
        try results.put(1, .accepted)
        try results.writePortion()
        while !results.intend(2) { try results.writePortion() }
        #expect(truncate(self.folder.file(name), 0) == 0)
        try results.put(2, .accepted)
        let failure = SendFolder.failure { try results.writePortion() }
        #expect(failure?.kind == .lost && failure?.description.contains("truncated by another program") == true)
        #expect(SendFolder.failure { try results.finish(isComplete: true, lastGivenLine: 2) }?.kind == .lost)
    }

    @Test func `results that are removed without a journal are an error, too`() throws {
        var results = try SendResults(
            path: self.folder.file("results"),
            isOnlyExceptions: false,
            journal: nil,
            retriesIndeterminate: true
        )
        try FileManager.default.removeItem(atPath: self.folder.file("results"))
        #expect(SendFolder.failure { try results.finish(isComplete: true, lastGivenLine: 0) }?.kind == .lost)
    }
}
