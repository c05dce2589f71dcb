// SPDX-License-Identifier: Apache-2.0

import APNSWire
import Testing
import TokenStore

/// Goal: what a worker does at each time, one rule after the other.
@Suite struct QueueWorkerTests {
    private let key = QueueChunkKey(batch: 1, number: 0)

    private func worker(at time: Duration) -> QueueWorkerStateMachine {
        var machine = QueueWorkerStateMachine(.init())
        machine.leased(sentAt: time)
        return machine
    }

    @Test func `a worker registers first, and then claims`() {
        var machine = QueueWorkerStateMachine(.init())
        #expect(machine.next(at: .seconds(5)) == .register)
        machine.leased(sentAt: .seconds(5))
        #expect(machine.next(at: .seconds(6)) == .claim(countMax: 2))
    }

    @Test func `the lease counts from before its statement was sent, and sending stops at two thirds of it`() {
        var machine = self.worker(at: .seconds(100))
        #expect(machine.sendNotAfter == .seconds(120))
        #expect(machine.next(at: .seconds(108)) == .renew)
        machine.failed(at: .seconds(108))
        #expect(machine.next(at: .milliseconds(119_999)) == .renew)
        #expect(machine.next(at: .seconds(120)) == .abandon)
        #expect(machine.next(at: .seconds(120)) == .wait(until: nil))
        machine.sendingEnded()
        #expect(machine.next(at: .seconds(121)) == .end(.leaseExpired))
        #expect(machine.sendNotAfter == .zero)
    }

    @Test func `a chunk is marked before it is sent, and proved when all of it has an outcome`() {
        var machine = self.worker(at: .zero)
        machine.claimed(self.key, count: 10, isComplete: false)
        #expect(machine.next(at: .zero) == .mark([self.key]))
        machine.marked(self.key, isOwned: true)
        machine.taken(self.key)
        #expect(machine.next(at: .zero) == .claim(countMax: 2))
        machine.settled(self.key)
        #expect(machine.next(at: .zero) == .prove([self.key]))
        let isReported = machine.proved(self.key, isOwned: true, isComplete: true, at: .zero, jitter: 0)
        #expect(isReported && machine.heldCount == 0)
    }

    @Test func `a worker that is fenced closes its connections, and reports nothing`() {
        var machine = self.worker(at: .zero)
        machine.claimed(self.key, count: 10, isComplete: false)
        machine.marked(self.key, isOwned: true)
        machine.settled(self.key)
        let isReported = machine.proved(self.key, isOwned: false, isComplete: true, at: .zero, jitter: 0)
        #expect(!isReported && machine.next(at: .zero) == .abandon)
        machine.sendingEnded()
        #expect(machine.next(at: .zero) == .end(.fenced))
    }

    @Test func `no more than two chunks are claimed ahead, and polling has jitter`() {
        var machine = self.worker(at: .zero)
        self.claim(0..<2, &machine)
        #expect(machine.next(at: .zero) == .wait(until: .milliseconds(7500)))
        machine.taken(self.key)
        #expect(machine.next(at: .zero) == .claim(countMax: 1))
        machine.claimedNothing(isEmpty: false, at: .zero, jitter: 0.25)
        #expect(machine.next(at: .zero) == .wait(until: .milliseconds(750)))
    }

    @Test func `a worker that is told of batches asks for none meanwhile, except for those of workers that died`() {
        var limits = QueueWorkerStateMachine.Limits()
        limits.aheadCountMax = 2
        var machine = QueueWorkerStateMachine(limits)
        machine.leased(sentAt: .zero)
        machine.listens(true)
        #expect(machine.next(at: .zero) == .claim(countMax: 2))
        machine.claimedNothing(isEmpty: false, at: .zero, jitter: 0.5)
        machine.leased(sentAt: .seconds(29))
        #expect(machine.next(at: .seconds(29)) == .wait(until: .seconds(30)))
        machine.batchReady()
        #expect(machine.next(at: .seconds(29)) == .claim(countMax: 2))
        // One becomes ready while the statement runs that does not find it.
        machine.batchReady()
        machine.claimedNothing(isEmpty: false, at: .seconds(29), jitter: 0.5)
        #expect(machine.next(at: .seconds(29)) == .claim(countMax: 2))
        machine.claimedNothing(isEmpty: false, at: .seconds(29), jitter: 0)
        machine.listens(false)
        #expect(machine.next(at: .seconds(29)) == .claim(countMax: 2))
        machine.claimedNothing(isEmpty: false, at: .seconds(29), jitter: 0)
        #expect(machine.next(at: .seconds(29)) == .wait(until: .milliseconds(29_500)))
    }

    @Test func `a worker that ends when the others are done asks each second, although it is told of batches`() {
        var limits = QueueWorkerStateMachine.Limits()
        limits.endsWhenEmpty = true
        var machine = QueueWorkerStateMachine(limits)
        machine.leased(sentAt: .zero)
        machine.listens(true)
        #expect(machine.next(at: .zero) == .claim(countMax: 2))
        machine.claimedNothing(isEmpty: false, at: .zero, jitter: 0)
        #expect(machine.next(at: .zero) == .wait(until: .milliseconds(500)))
    }

    private func claim(_ numbers: Range<Int32>, _ machine: inout QueueWorkerStateMachine) {
        let keys = numbers.map { QueueChunkKey(batch: 1, number: $0) }
        for key in keys { machine.claimed(key, count: 10, isComplete: false) }
        for key in keys { machine.marked(key, isOwned: true) }
    }

    @Test func `a worker whose connections had to wait claims more ahead, up to what it may hold`() {
        var limits = QueueWorkerStateMachine.Limits()
        limits.heldCountMax = 100
        var machine = QueueWorkerStateMachine(limits)
        machine.leased(sentAt: .zero)
        var (next, time, counts) = (Int32(0), Duration.zero, [Int]())
        while case .claim(let count) = machine.next(at: time) {
            counts.append(count)
            self.claim(next..<(next + Int32(count)), &machine)
            for number in next..<(next + Int32(count)) { machine.taken(QueueChunkKey(batch: 1, number: number)) }
            next += Int32(count)
            time += .milliseconds(100)
        }
        #expect(counts == [2, 4, 4])
        // One that was slow begins again.
        for number in 0..<next { machine.forget(QueueChunkKey(batch: 1, number: number)) }
        #expect(machine.next(at: time + .seconds(2)) == .claim(countMax: 2))
    }

    @Test func `a worker that is stopped finishes its chunks, and claims no more`() {
        var machine = self.worker(at: .zero)
        machine.claimed(self.key, count: 10, isComplete: false)
        machine.stop()
        #expect(!machine.isDone && machine.next(at: .zero) == .mark([self.key]))
        machine.marked(self.key, isOwned: true)
        machine.settled(self.key)
        _ = machine.proved(self.key, isOwned: true, isComplete: true, at: .zero, jitter: 0)
        #expect(machine.isDone)
        machine.sendingEnded()
        #expect(machine.next(at: .zero) == .end(.stopped))
    }

    @Test func `chunks that connections did not finish are given back with what is known`() throws {
        var account = try #require(
            QueueChunkAccount(self.key, epoch: 3, count: 10, written: 0, proved: 0, open: nil, rules: QueueRules())
        )
        account.settle(0, QueueOutcome(.accepted))
        account.settle(1, QueueOutcome(.rejected, status: 8))
        account.settle(2, QueueOutcome(.unsent))
        #expect(account.proof.proved == 2 && account.proof.written == 2 && account.proof.exceptions == [1])
        #expect(account.proof.open == [0b1111_1100, 0b11] && account.finalIndices == [0, 1])
        account.settle(3, QueueOutcome(.indeterminate))
        // What is left of the chunk may have arrived.
        #expect(account.proof.proved == 2 && account.proof.written == 10)
    }

    @Test func `a chunk of a dead worker is sent again with a flag, or held`() throws {
        var rules = QueueRules()
        let open: [UInt8] = [0b110]
        var account = try #require(
            QueueChunkAccount(self.key, epoch: 2, count: 3, written: 3, proved: 1, open: open, rules: rules)
        )
        #expect(!account.isDue(0) && account.isDue(1) && account.waitingCount == 2)
        for index in 1..<3 { account.settle(index, QueueOutcome(.accepted)) }
        #expect(account.proof.counts.duplicates == 2 && account.proof.exceptions == [1, 2])
        rules.takeover = .hold
        let held = try #require(
            QueueChunkAccount(self.key, epoch: 2, count: 3, written: 3, proved: 1, open: open, rules: rules)
        )
        #expect(held.waitingCount == 0 && held.proof.counts.indeterminate == 2 && held.proof.counts.duplicates == 0)
        #expect(held.proof.proved == 3 && held.proof.open == nil)
    }

    @Test func `numbers that contradict each other are no account`() {
        for (written, proved, open) in [(0, 1, nil), (4, 0, nil), (1, 1, [0b111] as [UInt8]?), (0, -1, nil)] {
            let account = QueueChunkAccount(
                self.key,
                epoch: 1,
                count: 3,
                written: written,
                proved: proved,
                open: open,
                rules: QueueRules()
            )
            #expect(account == nil, "\(written) \(proved)")
        }
    }
}

/// Goal: packed chunks have what was packed, and damaged ones are refused.
@Suite struct QueueChunkContentsTests {
    private func chunk() throws -> QueueChunkContents {
        var chunk = QueueChunkContents()
        let token = try DeviceToken(bytes: [UInt8](repeating: 7, count: 32))
        let none: [UInt8]? = nil
        chunk.append(line: 2, token: token, id: [], payload: none, expiry: nil, priority: nil)
        let short = try DeviceToken(bytes: [1])
        chunk.append(line: 5, token: short, id: Array("\"a\"".utf8), payload: Array("{}".utf8), expiry: 9, priority: 5)
        chunk.append(line: 6, token: token, id: [], payload: none, expiry: 0, priority: nil)
        return chunk
    }

    @Test func `a chunk is unpacked as it was packed`() throws {
        let chunk = try self.chunk()
        let read = try #require(
            QueueChunkContents(count: 3, firstLine: 2, tokens: chunk.tokens, items: chunk.items)
        )
        for each in [chunk, read] {
            #expect((0..<3).map { each[$0].line } == [2, 5, 6])
            #expect((0..<3).map { each[$0].expiry } == [nil, 9, 0] && each[1].priority == 5)
            #expect(Array(each.token(1)) == [1] && each.token(2).count == 32)
            #expect(each.id(1).elementsEqual("\"a\"".utf8) && each.id(0).isEmpty)
            #expect(each.payload(1)?.elementsEqual("{}".utf8) == true && each.payload(0) == nil)
        }
    }

    @Test func `consecutive lines with tokens only need no further column`() throws {
        var chunk = QueueChunkContents()
        let none: [UInt8]? = nil
        for line in 1...3 {
            let token = try DeviceToken(bytes: [UInt8(line)])
            chunk.append(line: UInt64(line), token: token, id: [], payload: none, expiry: nil, priority: nil)
        }
        #expect(chunk.items == nil && chunk.tokens == [1, 1, 1, 2, 1, 3])
    }

    @Test func `columns that were cut off or have something behind are refused`() throws {
        let chunk = try self.chunk()
        let items = try #require(chunk.items)
        for count in 0..<items.count {
            let prefix = Array(items[..<count])
            #expect(QueueChunkContents(count: 3, firstLine: 2, tokens: chunk.tokens, items: prefix) == nil)
        }
        for count in 0..<chunk.tokens.count {
            let prefix = Array(chunk.tokens[..<count])
            #expect(QueueChunkContents(count: 3, firstLine: 2, tokens: prefix, items: items) == nil)
        }
        #expect(QueueChunkContents(count: 3, firstLine: 2, tokens: chunk.tokens, items: items + [0]) == nil)
        #expect(QueueChunkContents(count: 2, firstLine: 2, tokens: chunk.tokens, items: nil) == nil)
        #expect(QueueChunkContents(count: 1 << 40, firstLine: 2, tokens: chunk.tokens, items: nil) == nil)
    }
}
