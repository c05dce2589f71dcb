// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSWire
import Testing

/// Goal: rules 7 and 8 of docs/accounting.md, and every other way that a session can end.
///
/// Method: one line per event and the step that follows it.
@Suite struct ProviderSessionEndingTests {
    // MARK: Rule 7

    @Test(arguments: zip([-1, 0, 1, 2, 3, 9, 10, 11, 1000], [0, 0, 100, 200, 400, 25_600, 30_000, 30_000, 30_000]))
    func `the delay doubles up to its limit, with jitter over its second half`(failures: Int, milliseconds: Int) {
        let backoff = BinaryLimits().backoff
        let whole = Duration.milliseconds(milliseconds)
        #expect(backoff.delay(failures: failures, jitter: 1) == whole)
        #expect(backoff.delay(failures: failures, jitter: 0) == whole / 2)
        #expect(backoff.delay(failures: failures, jitter: 7) == whole)
        #expect(backoff.delay(failures: failures, jitter: -7) == whole / 2)
    }

    @Test func `failed connections are retried with increasing delays, and finally given up`() {
        var session = ProviderSession(limits: BinaryLimits { $0.fruitlessConnectionCountMax = 5 })
        var now = Duration.zero
        for (failure, delay) in [0, 100, 200, 400].enumerated() {
            let number = ConnectionNumber(rawValue: UInt64(failure) + 1)
            #expect(session.step(now: now) == .connect(number))
            session.closed(number, now: now, jitter: 1)
            if delay > 0 { #expect(session.step(now: now) == .wait(until: now + .milliseconds(delay))) }
            now += .milliseconds(delay)
        }
        #expect(session.step(now: now) == .connect(5))
        session.closed(5, now: now, jitter: 1)
        #expect(session.step(now: now) == .finish(.unavailable))
    }

    @Test func `a verified outcome resets the count of failures`() {
        var session = ProviderSession(limits: BinaryLimits { $0.fruitlessConnectionCountMax = 2 })
        #expect(session.step(now: .zero) == .connect(1))
        session.closed(1, now: .zero, jitter: 1)
        #expect(session.stepOnNextConnection(now: .zero) == .write(2, numbers: 0..<100_000, firstIdentifier: 1))
        session.wrote(2, now: .zero)
        session.receive(.invalidToken, 1, on: 2)
        #expect(session.step(now: .zero) == .close(2))
        #expect(session.step(now: .zero) == .connect(3))
        session.closed(3, now: .zero, jitter: 1)
        #expect(session.step(now: .zero) == .connect(4))
    }

    @Test func `a permanent failure stops at once, and nothing was sent`() {
        var session = ProviderSession()
        #expect(session.step(now: .zero) == .connect(1))
        session.closed(1, permanently: true, now: .zero, jitter: 1)
        #expect(session.step(now: .zero) == .finish(.notPermitted))
        #expect(!session.hasSettlements)
    }

    @Test(arguments: [true, false])
    func `a permanent failure of the replacement stops when what was written is verified`(isClosed: Bool) {
        var session = ProviderSession(written: 3)
        session.isStoreFull = true
        #expect(session.step(now: .zero) == .connect(2))
        if isClosed {
            session.connected(2, now: .zero)
            session.closed(2, permanently: true, isUnprocessed: true, now: .zero, jitter: 1)
        } else {
            session.closed(2, permanently: true, now: .zero, jitter: 1)
        }
        session.isStoreFull = false
        #expect(session.step(now: .zero) == .probe(1, identifier: 4))
        session.receive(.missingDeviceToken, 4, on: 1)
        #expect(session.takeSettlements() == [Settlement(0..<3, .accepted, attempts: 1)])
        #expect(session.step(now: .zero) == .close(1))
        session.die(1)
        #expect(session.step(now: .zero) == .finish(.notPermitted))
    }

    @Test func `a permanent failure of the replacement stops when the current one fails, too`() {
        var session = ProviderSession(written: 3)
        session.sent(1, before: 3)
        session.isStoreFull = true
        #expect(session.step(now: .zero) == .connect(2))
        session.closed(2, permanently: true, now: .zero, jitter: 1)
        session.die(1)
        #expect(session.step(now: .zero) == .finish(.notPermitted))
        #expect(session.takeSettlements() == [Settlement(0..<3, .indeterminate(nil), attempts: 1, isDuplicate: true)])
    }

    @Test func `a certificate refused after the handshake leaves all unsent`() {
        var session = ProviderSession(written: 3)
        session.sent(1, before: 3)
        session.closed(1, permanently: true, isUnprocessed: true, now: .zero, jitter: 1)
        #expect(session.takeSettlements() == [Settlement(0..<3, .unsent(nil), attempts: 0)])
        #expect(session.step(now: .zero) == .finish(.notPermitted))
    }

    @Test(arguments: DeliveryPolicy.allCases)
    func `any other permanent end leaves what had been sent indeterminate`(policy: DeliveryPolicy) {
        var session = ProviderSession(written: 5, limits: BinaryLimits { $0.policy = policy })
        session.sent(1, before: 3)
        session.closed(1, permanently: true, now: .zero, jitter: 1)
        #expect(session.takeSettlements().map(\.outcome) == [.indeterminate(nil), .unsent(nil)])
        #expect(session.settled == 5)
        #expect(session.step(now: .zero) == .finish(.notPermitted))
    }

    @Test func `a session at rest has neither a connection nor anything to verify`() {
        var session = ProviderSession()
        #expect(session.isAtRest)
        #expect(session.step(now: .zero) == .connect(1))
        #expect(!session.isAtRest)
        session.connected(1, now: .zero)
        session.supply(.waiting)
        session.die(1, now: .seconds(9))
        #expect(session.isAtRest)
        session.abandon()
        #expect(!session.isAtRest)
    }

    @Test(arguments: [0, 3] as [UInt64])
    func `first connections that are closed without an answer mean refused`(count: UInt64) {
        var session = ProviderSession(limits: BinaryLimits { $0.policy = .atMostOnce })
        var now = Duration.zero
        for number in 1...5 as ClosedRange<UInt64> {
            let connection = ConnectionNumber(rawValue: number)
            let base = session.settled
            #expect(
                session.stepOnNextConnection(now: now)
                    == .write(connection, numbers: base..<(base + 100_000), firstIdentifier: 1)
            )
            session.wrote(count, now: now)
            session.sent(connection, before: base + count)
            session.die(connection, now: now)
            now += .seconds(30)
        }
        #expect(session.step(now: now) == .finish(.refused))
    }

    @Test func `a gateway that always announces a shutdown is unavailable, not refusing`() {
        var session = ProviderSession(limits: BinaryLimits { $0.policy = .atMostOnce })
        var now = Duration.zero
        var answeredCount = 0
        var ending: ProviderEnding?
        for _ in 0..<200 where ending == nil {
            switch session.step(now: now) {
            case .connect(let connection): session.connected(connection, now: now)
            case .write(let connection, let numbers, _):
                session.wrote(1, now: now)
                session.sent(connection, before: numbers.lowerBound + 1)
                answeredCount += 1
                let response = ErrorResponse(status: .shutdown, identifier: 0)
                session.received(response, on: connection, now: now, jitter: 1)
            case .probe: break
            case .close(let connection): session.closed(connection, now: now, jitter: 1)
            case .wait(let time): now = max(now, time ?? now + .seconds(1))
            case .finish(let end): ending = end
            }
        }
        #expect(ending == .unavailable)
        #expect(answeredCount == 12)
    }

    @Test func `a closed idle connection is not a failure, and is reopened only when there is something to send`() {
        var session = ProviderSession(limits: BinaryLimits { $0.refusedConnectionCountMax = 1 })
        #expect(session.step(now: .zero) == .connect(1))
        session.connected(1, now: .zero)
        session.supply(.waiting)
        #expect(session.step(now: .zero) == .wait(until: nil))
        session.die(1, now: .seconds(5))
        #expect(session.step(now: .seconds(5)) == .wait(until: nil))
        session.supply(.available)
        #expect(session.step(now: .seconds(5)) == .connect(2))
    }

    @Test func `a connection that is closed during its handshake is a failure`() {
        var session = ProviderSession()
        #expect(session.step(now: .zero) == .connect(1))
        session.die(1)
        #expect(session.step(now: .zero) == .connect(2))
        session.die(2)
        #expect(session.step(now: .zero) == .wait(until: .milliseconds(100)))
    }

    // MARK: Rule 8

    @Test func `invalid tokens in a row, with none accepted, stop the run`() {
        let limits = BinaryLimits { $0.invalidTokenRunCountMax = 3 }
        var conversation = Conversation(count: 10, limits: limits) { _, _ in .answer(ErrorResponse(.invalidToken, 1)) }
        #expect(conversation.run() == .tooManyInvalidTokens)
        #expect(
            conversation.settlements == [
                Settlement(0..<1, .rejected(.binary(.invalidToken)), attempts: 1),
                Settlement(1..<2, .rejected(.binary(.invalidToken)), attempts: 2),
                Settlement(2..<3, .rejected(.binary(.invalidToken)), attempts: 3),
                Settlement(3..<10, .unsent(nil), attempts: 3),
            ]
        )
    }

    @Test func `an accepted one resets the count of invalid tokens`() {
        let limits = BinaryLimits { $0.invalidTokenRunCountMax = 2 }
        var conversation = Conversation(count: 10, limits: limits) { written, probe in
            if let index = written.firstIndex(where: { $0 % 2 == 1 }) {
                return .answer(ErrorResponse(.invalidToken, UInt32(index + 1)))
            }
            return probe.map { .answer(ErrorResponse(.missingDeviceToken, $0)) } ?? .silence
        }
        #expect(conversation.run() == .completed)
        #expect(conversation.settlements.filter { $0.outcome == .rejected(.binary(.invalidToken)) }.count == 5)
    }

    @Test func `without a limit any number of invalid tokens is sent`() {
        let limits = BinaryLimits { $0.invalidTokenRunCountMax = 0 }
        var conversation = Conversation(count: 200, limits: limits) { _, probe in
            .answer(ErrorResponse(probe == nil ? .invalidToken : .missingDeviceToken, 1))
        }
        #expect(conversation.run() == .completed)
        #expect(conversation.settlements.count == 200)
    }

    // MARK: Abandoned

    @Test func `abandoned, what was written is indeterminate and the rest unsent`() {
        var session = ProviderSession(written: 5)
        session.sent(1, before: 5)
        session.receive(.shutdown, 1, on: 1)
        _ = session.takeSettlements()
        #expect(session.stepOnNextConnection(now: .zero) == .write(2, numbers: 1..<100_001, firstIdentifier: 1))
        session.wrote(2, now: .zero)
        session.abandon()
        #expect(
            session.takeSettlements() == [
                Settlement(1..<3, .indeterminate(nil), attempts: 2), Settlement(3..<5, .unsent(nil), attempts: 1),
            ]
        )
        #expect(session.step(now: .zero) == .close(2))
        session.die(2)
        #expect(session.step(now: .zero) == .finish(.abandoned))
        session.abandon()
        #expect(session.step(now: .zero) == .finish(.abandoned))
    }

    @Test func `abandoned, what was lost without an answer stays indeterminate`() {
        var session = ProviderSession(written: 5)
        session.sent(1, before: 3)
        session.die(1)
        session.abandon()
        #expect(
            session.takeSettlements() == [
                Settlement(0..<3, .indeterminate(nil), attempts: 1, isDuplicate: true),
                Settlement(3..<5, .unsent(nil), attempts: 0),
            ]
        )
        #expect(session.step(now: .zero) == .finish(.abandoned))
    }

    @Test func `abandoned, every connection is closed before the end`() {
        var session = ProviderSession(written: 3)
        session.isStoreFull = true
        #expect(session.step(now: .zero) == .connect(2))
        session.abandon()
        #expect(session.step(now: .zero) == .close(2))
        #expect(session.step(now: .zero) == .close(1))
        #expect(session.step(now: .zero) == .wait(until: nil))
        session.connected(2, now: .zero)
        session.die(1)
        #expect(session.step(now: .zero) == .wait(until: nil))
        session.closed(2, now: .zero, jitter: 1)
        #expect(session.step(now: .zero) == .finish(.abandoned))
    }

    @Test func `every outcome has a name`() {
        let outcomes: [DeliveryOutcome] = [
            .accepted, .rejected(.binary(.invalidToken)), .indeterminate(nil), .unsent(nil),
            .invalid(.payloadEmpty), .suppressed,
        ]
        #expect(
            outcomes.map(\.name) == ["accepted", "rejected", "indeterminate", "unsent", "invalid", "suppressed"]
        )
        #expect(outcomes.map(\.kind) == DeliveryOutcome.Kind.allCases)
        #expect(outcomes.map(\.rejectionStatusCode) == [nil, 8, nil, nil, nil, nil])
    }

    @Test func `connections are ordered by their numbers`() {
        #expect(ConnectionNumber(rawValue: 1) < ConnectionNumber(rawValue: 2))
    }

    @Test func `an empty window is a programming error`() async {
        await #expect(processExitsWith: .failure) {
            _ = ProviderSession(limits: BinaryLimits { $0.windowCount = 0 })
        }
    }

    @Test func `writing without a write step is a programming error`() async {
        await #expect(processExitsWith: .failure) {
            var session = ProviderSession()
            session.wrote(1, now: .zero)
        }
    }
}
