// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing

@testable import APNSProviderHTTP2

@Suite("The streams of a connection")
struct StreamTableTests {
    private func table(countMax: Int = 1000, startsWithOne: Bool = false) -> StreamTable<String> {
        StreamTable(countMax: countMax, startsWithOne: startsWithOne)
    }

    @Test func `nothing is opened before the settings`() {
        var table = self.table()
        #expect(table.room == 0)
        table.settings(countMax: 3)
        #expect(table.room == 3)
    }

    @Test func `streams have odd numbers from 1`() {
        var table = self.table()
        table.settings(countMax: 3)
        #expect([table.open("a"), table.open("b"), table.open("c")] == [1, 3, 5])
        #expect(table.room == 0)
    }

    @Test func `an answer makes room, and only once`() {
        var table = self.table()
        table.settings(countMax: 1)
        let number = table.open("a")
        #expect(table.answered(number, isSuccess: true) == "a")
        #expect(table.answered(number, isSuccess: true) == nil)
        #expect(table.room == 1)
        #expect(table.open("b") == 3)
    }

    @Test func `a changing limit is respected`() {
        var table = self.table()
        table.settings(countMax: 4)
        let numbers = (0..<4).map { table.open("\($0)") }
        table.settings(countMax: 1)
        #expect(table.room == 0)
        for number in numbers[..<3] { _ = table.answered(number, isSuccess: false) }
        #expect(table.room == 0)
        _ = table.answered(numbers[3], isSuccess: false)
        #expect(table.room == 1)
        table.settings(countMax: nil)
        #expect(table.room == 1)
        table.settings(countMax: 500)
        #expect(table.room == 500)
        table.settings(countMax: 0)
        #expect(table.room == 0)
    }

    @Test func `the client's own limit applies if it is lower`() {
        var table = self.table(countMax: 2)
        table.settings(countMax: 500)
        #expect(table.room == 2)
        var unnamed = self.table()
        unnamed.settings(countMax: nil)
        #expect(unnamed.room == 100)
    }

    @Test func `with a provider token there is one stream until the first success`() {
        var table = self.table(startsWithOne: true)
        table.settings(countMax: 500)
        #expect(table.room == 1)
        _ = table.answered(table.open("a"), isSuccess: false)
        #expect(table.room == 1)
        _ = table.answered(table.open("b"), isSuccess: true)
        #expect(table.room == 500)
    }

    @Test func `a GOAWAY returns unprocessed requests in order`() {
        var table = self.table()
        table.settings(countMax: 10)
        for name in ["a", "b", "c", "d"] { _ = table.open(name) }
        #expect(table.goAway(last: 3) == .init(unprocessed: ["c", "d"]))
        #expect(table.room == 0)
        #expect(table.answered(5, isSuccess: true) == nil)
        #expect(table.answered(3, isSuccess: true) == "b")
        // A second GOAWAY may only have a lower stream.
        #expect(table.goAway(last: 0) == .init(unprocessed: ["a"]))
        #expect(table.lost(unfinished: []) == .init())
    }

    @Test func `a lost connection returns the rest in order`() {
        var table = self.table()
        table.settings(countMax: 10)
        for name in ["a", "b", "c", "d"] { _ = table.open(name) }
        #expect(table.closed(3, code: HTTP2Failure.cancel) == .unknown("b"))
        #expect(table.closed(3, code: HTTP2Failure.refusedStream) == nil)
        #expect(table.lost(unfinished: [7]) == .init(unknown: ["a", "c"], unprocessed: ["d"]))
        #expect(table.room == 0)
    }

    @Test func `an answer that has begun with success differs from any other, however its stream ends`() {
        var table = StreamTable<Int>(countMax: 10, startsWithOne: false)
        table.settings(countMax: nil)
        for element in 0..<5 { _ = table.open(element) }
        for number: UInt32 in [1, 3, 7, 9] { table.answerBegins(number, isSuccess: true) }
        table.answerBegins(5)
        #expect(table.closed(1, code: 7) == .accepting(0))
        #expect(table.giveUp(3, isSent: false) == .accepting(1))
        #expect(table.giveUp(5, isSent: false) == .unknown(2))
        #expect(table.goAway(last: 7) == .init(accepting: [4]))
        #expect(table.lost(unfinished: [7]) == .init(accepting: [3]))
    }

    @Test func `a refused stream was not processed, unless its answer has begun`() {
        var table = self.table()
        table.settings(countMax: 10)
        for name in ["a", "b", "c"] { _ = table.open(name) }
        table.answerBegins(3)
        #expect(table.closed(1, code: HTTP2Failure.refusedStream) == .unprocessed("a"))
        #expect(table.closed(3, code: HTTP2Failure.refusedStream) == .unknown("b"))
        #expect(table.closed(5, code: HTTP2Failure.protocolError) == .unknown("c"))
    }

    @Test func `an answer that has begun verifies processing, whatever follows`() {
        var table = self.table()
        table.settings(countMax: 10)
        for name in ["a", "b", "c", "d", "e"] { _ = table.open(name) }
        for number: UInt32 in [1, 5, 9] { table.answerBegins(number) }
        #expect(table.giveUp(1, isSent: false) == .unknown("a"))
        #expect(table.giveUp(3, isSent: false) == .unprocessed("b"))
        #expect(table.goAway(last: 4) == .init(unknown: ["c", "e"], unprocessed: ["d"]))
    }

    @Test func `a complete answer ends an incomplete one`() {
        var table = self.table()
        table.settings(countMax: 1)
        let number = table.open("a")
        table.answerBegins(number)
        #expect(table.answered(number, isSuccess: true) == "a")
        #expect(table.lost(unfinished: [number]) == .init())
        // A response without a request has no effect.
        table.answerBegins(9)
        #expect(table.lost(unfinished: []) == .init())
    }

    /// Goal: whatever the service does, every request is returned exactly once, and no limit is exceeded.
    ///
    /// Method: random walk from a seed that the failure contains.
    @Test(arguments: 0..<500 as Range<UInt64>)
    func `every request is returned exactly once`(seed: UInt64) {
        var random = SplitMix64(seed: seed)
        var table = StreamTable<Int>(countMax: Int.random(in: 1...8, using: &random), startsWithOne: seed % 2 == 0)
        var given = 0
        var back: [Int] = []
        var open: [UInt32] = []
        for _ in 0..<200 {
            let code = UInt32.random(in: 0...13, using: &random)
            switch Int.random(in: 0..<10, using: &random) {
            case 0: table.settings(countMax: Bool.random(using: &random) ? nil : Int.random(in: 0...6, using: &random))
            case 1 where !open.isEmpty: back += self.element(table.closed(open.removeFirst(), code: code))
            case 2 where !open.isEmpty: back += self.element(table.giveUp(open.removeLast(), isSent: code > 7))
            case 3 where !open.isEmpty: open.randomElement(using: &random).map { table.answerBegins($0) }
            case 4:
                guard let number = open.randomElement(using: &random) else { continue }
                back += [table.answered(number, isSuccess: Bool.random(using: &random))].compactMap(\.self)
            case 5 where Int.random(in: 0..<20, using: &random) == 0:
                back += self.elements(table.goAway(last: UInt32.random(in: 0...40, using: &random)))
            default:
                guard table.room > 0 else { continue }
                open.append(table.open(given))
                given += 1
                #expect(table.waiting.count <= table.limit, "seed \(seed)")
            }
        }
        back += self.elements(table.lost(unfinished: open))
        #expect(back.sorted() == Array(0..<given), "seed \(seed)")
    }

    private func element(_ requestState: StreamTable<Int>.RequestState?) -> [Int] {
        switch requestState {
        case .unprocessed(let element), .unknown(let element), .accepting(let element): [element]
        case nil: []
        }
    }

    private func elements(_ unanswered: StreamTable<Int>.Unanswered) -> [Int] {
        unanswered.unknown + unanswered.unprocessed
    }
}
