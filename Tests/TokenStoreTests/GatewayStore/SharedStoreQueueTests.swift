// SPDX-License-Identifier: Apache-2.0

import APNSSession
import NIOConcurrencyHelpers
import Testing

@testable import TokenStore

/// Goal: what a shared store cannot do in time is given up once, and leaves nothing behind.
@Suite struct SharedStoreQueueTests {
    private static func resends(_ response: Int64) throws -> [ExpectedResend] {
        let key = try #require(ResendKey(bytes: [UInt8](repeating: 1, count: ResendKey.byteCount)))
        return [ExpectedResend(key: key, place: ExpectedResend.Place(response: response, index: 0))]
    }

    private static func kinds(_ entries: [SharedStoreQueue.Entry]) -> [String] {
        entries.map { entry in
            switch entry.change {
            case .expect: "expect"
            case .discard: "discard"
            case .claim: "claim"
            case .load: "load"
            case .remove: "remove"
            case .list: "list"
            }
        }
    }

    @Test func `resends whose record is given up are removed after the transaction that may have stored them`() throws {
        var queue = SharedStoreQueue()
        let answers = NIOLockedValueBox(0)
        let expect = SharedStoreQueue.Change.expect(try Self.resends(7), provider: "shop", duration: .seconds(60))
        let isAdded = queue.add(expect, until: .seconds(5)) { _ in answers.withLockedValue { $0 += 1 } }
        var taken = Self.kinds(queue.take())
        #expect(isAdded && taken == ["expect"])
        var completions = queue.giveUp(now: .seconds(4))
        #expect(completions.isEmpty)
        completions = queue.giveUp(now: .seconds(5))
        for completion in completions { completion(.givenUp) }
        // The transaction may still commit.
        let waiting = queue.committed()
        #expect(waiting.isEmpty)
        for time in [64, 65] as [Int64] {
            taken = Self.kinds(queue.take())
            #expect(taken == ["discard"])
            queue.failed()
            completions = queue.giveUp(now: .seconds(time))
            #expect(completions.isEmpty)
        }
        // By now, nobody expects them.
        #expect(queue.isIdle)
        #expect(answers.withLockedValue { $0 } == 1)
    }

    @Test func `what failed is tried again before what was added later`() throws {
        var queue = SharedStoreQueue()
        _ = queue.add(.load(provider: "a"), until: .seconds(5)) { _ in }
        var taken = Self.kinds(queue.take())
        #expect(taken == ["load"])
        _ = queue.add(.claim(try Self.resends(1)[0], provider: "a"), until: .seconds(6)) { _ in }
        queue.failed()
        taken = Self.kinds(queue.take())
        #expect(taken == ["load", "claim"])
        let waiting = queue.committed()
        #expect(waiting.count == 2)
        #expect(queue.isIdle && !queue.hasDeadline)
    }

    @Test func `no more resends wait than the limit`() throws {
        var queue = SharedStoreQueue()
        let resend = try Self.resends(1)[0]
        let many = [ExpectedResend](repeating: resend, count: SharedStoreQueue.resendCountMax)
        let isFirstAdded = queue.add(.expect(many, provider: "a", duration: .seconds(60)), until: .seconds(5))
        let one = SharedStoreQueue.Change.expect([resend], provider: "a", duration: .seconds(60))
        let isAddedAtLimit = queue.add(one, until: .seconds(5))
        _ = queue.take()
        _ = queue.committed()
        let isAddedAfter = queue.add(one, until: .seconds(5))
        #expect(isFirstAdded && !isAddedAtLimit && isAddedAfter)
    }
}
