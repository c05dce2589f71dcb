// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSWire
import Dispatch
import TestSupport
import Testing

@testable import Batch

/// Goal: a run that starts at the resume point of a stopped batch sends each unsent line, and no other.
@Suite struct ResumePointTests {
    let folder: SendFolder

    init() throws { self.folder = try SendFolder() }

    private static func token(_ number: Int) -> String {
        let digits = String(number, radix: 16)
        return String(repeating: "0", count: 64 - digits.count) + digits
    }

    /// A batch whose records have one or two lines, with blank and invalid lines in between.
    ///
    /// - Returns: the text, and the first line of each valid record.
    private static func batch(_ format: BatchFormat, _ random: inout SplitMix64) -> (text: String, lines: [UInt64]) {
        var (text, lines, line) = ("", [UInt64](), UInt64(1))
        func add(_ record: String) {
            text += record + "\n"
            line += UInt64(record.count { $0 == "\n" } + 1)
        }
        for _ in 0..<(random.next() % 3) { add("") }
        if format == .csv { add("token,payload") }
        for number in 1...2500 {
            switch random.next() % 20 {
            case 0: add("")
            case 1: add(format == .csv ? "nonsense" : "{}")
            default: break
            }
            lines.append(line)
            let token = Self.token(number)
            switch format {
            case .jsonLines: add(#"{"token":"\#(token)","payload":{"aps":{}}}"#)
            case .csv: add(token + (random.next() % 3 == 0 ? ",\"{\n\"\"aps\"\":{}}\"" : ",\"{\"\"aps\"\":{}}\""))
            case .tokens: add(token)
            }
        }
        return (text, lines)
    }

    private func source(_ format: BatchFormat, isDead: TokenPredicate? = nil) throws -> SendSource {
        let input = try SendInput(path: self.folder.file("batch"))
        var options = BatchOptions(now: 0)
        options.commonPayload = format == .tokens ? Array(#"{"aps":{}}"#.utf8) : nil
        let state = BatchSendState(
            input: input,
            batch: try OpenedBatch(input, BatchReader(format: format, options: options)),
            results: try SendResults(path: nil, isOnlyExceptions: false, journal: nil, retriesIndeterminate: true),
            policy: .atLeastOnce,
            suppressesRejectedTokens: false,
            isDead: isDead,
            onBadLine: { _ in }
        )
        return SendSource(input: input, batchState: state)
    }

    @Test(arguments: [BatchFormat.jsonLines, .csv, .tokens])
    func `unsent lines are after the resume point, and open lines before it are counted`(_ format: BatchFormat) throws {
        let seed = UInt64.random(in: 0 ... .max)
        var random = SplitMix64(seed: seed)
        for _ in 0..<TestEffort.count(8, long: 20) {
            let (text, lines) = Self.batch(format, &random)
            try self.folder.write("batch", text)
            let source = try self.source(format)
            let woken = DispatchSemaphore(value: 0)
            source.start { woken.signal() }
            var given: [GivenLine] = []
            let countMax = Int(random.next() % 3000)
            while given.count < countMax {
                let (some, supply) = GivenLine.take(min(countMax - given.count, 100), from: source)
                given += some
                if supply == .ended { break }
                if supply == .waiting { woken.wait() }
            }
            // A typical result of several connections: accepted, then a mix, then unsent.
            var unsent: Set<UInt64> = []
            var indeterminateCount: UInt64 = 0
            let firstOpen = given.isEmpty ? 0 : Int(random.next() % UInt64(given.count + 1))
            for (index, line) in given.enumerated() {
                let isOpen = index >= firstOpen
                if isOpen, random.next() % 8 != 0 {
                    line.settle(.unsent(.stopped))
                    unsent.insert(line.line)
                } else if isOpen, random.next() % 2 == 0 {
                    line.settle(.indeterminate(.stopped))
                    indeterminateCount += 1
                } else {
                    line.settle(.accepted)
                }
            }
            source.end()
            let point = source.resumePoint
            #expect(source.finish() == nil)
            let takenLines = Set(given.map(\.line))
            let doneLines = takenLines.subtracting(unsent)
            guard let point else {
                #expect(takenLines == Set(lines), "seed \(seed)")
                continue
            }
            let next = point.position.nextLine
            let rest = Set(lines.filter { $0 >= next })
            #expect(rest.isDisjoint(with: doneLines), "Nothing is sent twice, seed \(seed)")
            let lost = Set(lines).subtracting(rest).subtracting(doneLines)
            #expect(lost.isSubset(of: unsent) && UInt64(lost.count) == point.unsentCount, "seed \(seed)")
            let lastDone = doneLines.max() ?? 0
            #expect(lost.allSatisfy { $0 < lastDone }, "Bad lines cut nothing off, seed \(seed)")
            #expect(point.indeterminateCount == indeterminateCount, "seed \(seed)")
            // The rest of a file starts with a complete record.
            if let first = rest.min() {
                let between = text.split(separator: "\n", omittingEmptySubsequences: false)
                    .dropFirst(Int(next) - 1).prefix(Int(first - next))
                #expect(between.allSatisfy { $0.isEmpty || $0 == "nonsense" || $0 == "{}" }, "seed \(seed)")
            }
            if format == .csv, !given.isEmpty {
                let head = text.split(separator: "\n", omittingEmptySubsequences: false)
                    .prefix(Int(point.position.headLineCount)).filter { !$0.isEmpty }
                #expect(head == ["token,payload"], "seed \(seed)")
            }
        }
    }

    @Test func `invalid and suppressed lines among unsent ones do not move the resume point`() throws {
        let tokens = (1...6).map(Self.token)
        try self.folder.write("batch", (tokens[..<3] + ["nonsense"] + tokens[3...]).joined(separator: "\n"))
        let dead = try #require(DeviceTokenText.bytes(tokens[4]))
        let source = try self.source(.tokens) { token in token.bytes == dead }
        let woken = DispatchSemaphore(value: 0)
        source.start { woken.signal() }
        var given: [GivenLine] = []
        while true {
            let (lines, supply) = GivenLine.take(10, from: source)
            given += lines
            if supply == .ended { break }
            if supply == .waiting { woken.wait() }
        }
        #expect(given.map(\.line) == [1, 2, 3, 5, 7])
        given[0].settle(.accepted)
        for line in given[1...] { line.settle(.unsent(.stopped)) }
        let point = try #require(source.resumePoint)
        #expect(point.position.nextLine == 2 && point.unsentCount == 0)
        #expect(source.finish() == nil)
    }

    @Test func `the tail of unsent lines begins after the last other outcome`() {
        var tail = UnsentTail()
        #expect(tail.firstLine == nil && tail.countBefore == 0)
        tail.add(5..<20, isUnsent: true)
        #expect(tail.firstLine == 5)
        tail.add(8..<9, isUnsent: false)
        tail.add(1..<4, isUnsent: true)
        #expect(tail.firstLine == 9 && tail.countBefore == 7)
        tail.add(20..<21, isUnsent: false)
        #expect(tail.firstLine == nil && tail.countBefore == 18)
    }

    @Test func `lines of a file that are passed over count for the part that is read`() throws {
        let (blankCount, count) = (1000, 1000)
        let blank = String(repeating: " ", count: 64) + "\n"
        let tokens = (1...count).map { Self.token($0) + "\n" }.joined()
        try self.folder.write("batch", String(repeating: blank, count: blankCount) + tokens)
        let source = try self.source(.tokens)
        let woken = DispatchSemaphore(value: 0)
        source.start { woken.signal() }
        var given: [GivenLine] = []
        while given.count < 100 {
            let (some, supply) = GivenLine.take(100 - given.count, from: source)
            given += some
            if supply == .waiting { woken.wait() }
        }
        let progress = source.progress
        #expect(progress.lineCount == UInt64(blankCount + given.count))
        let fraction = try #require(progress.fraction)
        let part = Double(progress.lineCount) / Double(blankCount + count)
        #expect(abs(fraction - part) < 0.01, "\(fraction) of the bytes, \(part) of the lines")
        for line in given { line.settle(.accepted) }
        source.end()
        #expect(source.finish() == nil)
    }
}
