// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSWire
import Testing

/// Goal: rules 4 to 6 of docs/accounting.md: what an answer, or the lack of one, means for each notification.
///
/// Method: one line per event and what it settles.
@Suite struct ProviderSessionResponseTests {
    static let atMostOnce = BinaryLimits { $0.policy = .atMostOnce }

    // MARK: Rule 4

    @Test func `all before the identified one are accepted, it is rejected, the rest are sent again`() {
        var session = ProviderSession(written: 5)
        session.sent(1, before: 5)
        session.receive(.invalidPayloadSize, 3, on: 1)
        #expect(
            session.takeSettlements() == [
                Settlement(0..<2, .accepted, attempts: 1),
                Settlement(2..<3, .rejected(.binary(.invalidPayloadSize)), attempts: 1),
            ]
        )
        #expect(session.stepOnNextConnection(now: .zero) == .write(2, numbers: 3..<100_003, firstIdentifier: 1))
    }

    @Test func `the replacement begins after the rejected one`() {
        var session = ProviderSession(written: 2, limits: BinaryLimits { $0.windowCount = 4 })
        #expect(session.step(now: .zero) == .connect(2))
        session.connected(2, now: .zero)
        session.receive(.invalidToken, 1, on: 1)
        #expect(session.step(now: .zero) == .close(1))
        #expect(session.step(now: .zero) == .write(2, numbers: 1..<5, firstIdentifier: 1))
    }

    @Test func `status 10 verifies the one that it identifies and all before, and the rest are sent again`() {
        var session = ProviderSession(written: 5)
        session.sent(1, before: 4)
        session.receive(.shutdown, 3, on: 1)
        #expect(session.takeSettlements() == [Settlement(0..<3, .accepted, attempts: 1)])
        session.supply(.ended)
        #expect(session.stepOnNextConnection(now: .zero) == .write(2, numbers: 3..<100_003, firstIdentifier: 1))
        session.wrote(2, now: .zero)
        #expect(session.step(now: .zero) == .probe(2, identifier: 3))
        session.receive(.missingDeviceToken, 3, on: 2)
        #expect(
            session.takeSettlements() == [
                Settlement(3..<4, .accepted, attempts: 2), Settlement(4..<5, .accepted, attempts: 1),
            ]
        )
    }

    @Test func `status 10 with identifier 0 leaves all indeterminate at most once`() {
        var session = ProviderSession(written: 3, limits: Self.atMostOnce)
        session.receive(.shutdown, 0, on: 1)
        #expect(session.takeSettlements() == [Settlement(0..<3, .indeterminate(nil), attempts: 1)])
    }

    @Test func `status 10 with identifier 0 sends all again, flagged, at least once`() {
        var session = ProviderSession(written: 3)
        session.supply(.ended)
        session.receive(.shutdown, 0, on: 1)
        #expect(session.stepOnNextConnection(now: .zero) == .write(2, numbers: 0..<100_000, firstIdentifier: 1))
        session.wrote(3, now: .zero)
        #expect(session.step(now: .zero) == .probe(2, identifier: 4))
        session.receive(.missingDeviceToken, 4, on: 2)
        #expect(session.takeSettlements() == [Settlement(0..<3, .accepted, attempts: 2, isDuplicate: true)])
    }

    @Test(arguments: [0, 4_000_000_000] as [UInt32], [0, 5, 15] as [UInt64])
    func `an unidentified answer is bisected until a window of one identifies the offender`(
        identifier: UInt32,
        offender: UInt64
    ) {
        let limits = BinaryLimits { $0.checkpointIntervalMin = .zero }
        var conversation = Conversation(count: 16, limits: limits) { written, probe in
            if written.contains(offender) { return .answer(ErrorResponse(.invalidToken, identifier)) }
            return probe.map { .answer(ErrorResponse(.missingDeviceToken, $0)) } ?? .silence
        }
        #expect(conversation.run() == .completed)
        let parts = conversation.writes.map(\.count)
        #expect(parts.prefix(2) == [16, 8] && parts.contains(1), "\(parts)")
        for settlement in conversation.settlements {
            let expected =
                settlement.numbers.contains(offender) ? DeliveryOutcome.rejected(.binary(.invalidToken)) : .accepted
            #expect(settlement.outcome == expected)
            #expect(settlement.isPossibleDuplicate)
        }
        #expect(conversation.settlements.contains { $0.numbers == offender..<(offender + 1) })
        #expect(conversation.settlements.map(\.numbers.count).reduce(0, +) == 16)
    }

    @Test func `an unidentified answer leaves all indeterminate at most once`() {
        var session = ProviderSession(written: 3, limits: Self.atMostOnce)
        session.sent(1, before: 2)
        session.receive(.invalidToken, 0, on: 1)
        #expect(session.takeSettlements() == [Settlement(0..<2, .indeterminate(nil), attempts: 1)])
        #expect(session.stepOnNextConnection(now: .zero) == .write(2, numbers: 2..<100_002, firstIdentifier: 1))
    }

    @Test(arguments: DeliveryPolicy.allCases)
    func `an unidentified answer means the only one`(policy: DeliveryPolicy) {
        var session = ProviderSession(written: 1, limits: BinaryLimits { $0.policy = policy })
        session.sent(1, before: 1)
        session.receive(.invalidToken, 0, on: 1)
        #expect(session.takeSettlements() == [Settlement(0..<1, .rejected(.binary(.invalidToken)), attempts: 1)])
    }

    @Test func `an answer before anything was sent rejects nothing`() {
        var session = ProviderSession(written: 1)
        session.receive(.invalidToken, 0, on: 1)
        #expect(!session.hasSettlements)
        #expect(session.stepOnNextConnection(now: .zero) == .write(2, numbers: 0..<100_000, firstIdentifier: 1))
    }

    @Test func `status 1 is retried with increasing delays, and finally rejected`() {
        var session = ProviderSession(written: 1)
        session.supply(.ended)
        for (attempt, delay) in [100, 200, 400].enumerated() {
            let connection = ConnectionNumber(rawValue: UInt64(attempt) + 1)
            session.sent(connection, before: 1)
            session.receive(.processingError, 1, on: connection)
            #expect(!session.hasSettlements)
            #expect(session.step(now: .zero) == .close(connection))
            session.die(connection)
            #expect(session.step(now: .zero) == .wait(until: .milliseconds(delay)))
            #expect(
                session.stepOnNextConnection(now: .milliseconds(delay))
                    == .write(ConnectionNumber(rawValue: UInt64(attempt) + 2), numbers: 0..<100_000, firstIdentifier: 1)
            )
            session.wrote(1, now: .milliseconds(delay))
        }
        session.sent(4, before: 1)
        session.receive(.processingError, 1, on: 4)
        #expect(session.takeSettlements() == [Settlement(0..<1, .rejected(.binary(.processingError)), attempts: 4)])
    }

    @Test func `status 1 is retried after a delay, even on an open replacement`() {
        var session = ProviderSession(written: 2, limits: BinaryLimits { $0.windowCount = 4 })
        #expect(session.step(now: .zero) == .connect(2))
        session.connected(2, now: .zero)
        session.sent(1, before: 2)
        session.receive(.processingError, 1, on: 1)
        #expect(session.step(now: .zero) == .close(1))
        #expect(session.step(now: .zero) == .wait(until: .milliseconds(100)))
        #expect(session.step(now: .milliseconds(100)) == .write(2, numbers: 0..<4, firstIdentifier: 1))
    }

    @Test func `status 1 for one does not use up the attempts of the next`() {
        let limits = BinaryLimits { $0.checkpointIntervalMin = .zero }
        var failures: [UInt64: Int] = [:]
        var conversation = Conversation(count: 4, limits: limits) { written, probe in
            for (index, number) in written.enumerated() where failures[number, default: 0] < 3 {
                failures[number, default: 0] += 1
                return .answer(ErrorResponse(.processingError, UInt32(index + 1)))
            }
            return probe.map { .answer(ErrorResponse(.missingDeviceToken, $0)) } ?? .silence
        }
        #expect(conversation.run() == .completed)
        #expect(conversation.settlements.allSatisfy { $0.outcome == .accepted && !$0.isPossibleDuplicate })
        #expect(failures == [0: 3, 1: 3, 2: 3, 3: 3])
    }

    // MARK: Rule 5

    @Test func `a connection that is given up is never written to`() {
        var session = ProviderSession(written: 3)
        session.receive(.invalidToken, 1, on: 1)
        #expect(session.step(now: .zero) == .close(1))
        #expect(session.step(now: .zero) == .connect(2))
        #expect(session.step(now: .zero) == .wait(until: nil))
        session.connected(2, now: .zero)
        #expect(session.step(now: .zero) == .write(2, numbers: 1..<100_001, firstIdentifier: 1))
    }

    // MARK: Rule 6

    @Test func `at least once, what was sent is sent again and flagged, the rest is not flagged`() {
        var session = ProviderSession(written: 5)
        session.supply(.ended)
        session.sent(1, before: 2)
        session.die(1)
        #expect(!session.hasSettlements)
        #expect(session.stepOnNextConnection(now: .zero) == .write(2, numbers: 0..<100_000, firstIdentifier: 1))
        session.wrote(5, now: .zero)
        #expect(session.step(now: .zero) == .probe(2, identifier: 6))
        session.receive(.missingDeviceToken, 6, on: 2)
        #expect(
            session.takeSettlements() == [
                Settlement(0..<2, .accepted, attempts: 2, isDuplicate: true),
                Settlement(2..<5, .accepted, attempts: 1),
            ]
        )
    }

    @Test func `at most once, what was sent is indeterminate, the rest is sent`() {
        var session = ProviderSession(written: 5, limits: Self.atMostOnce)
        session.supply(.ended)
        session.sent(1, before: 2)
        session.die(1)
        #expect(session.takeSettlements() == [Settlement(0..<2, .indeterminate(nil), attempts: 1)])
        #expect(session.stepOnNextConnection(now: .zero) == .write(2, numbers: 2..<100_002, firstIdentifier: 1))
    }

    @Test func `what was sent is never more than what was written, and never less than before`() {
        var session = ProviderSession(written: 5, limits: Self.atMostOnce)
        session.sent(1, before: .max)
        session.sent(1, before: 1)
        session.sent(7, before: 1)
        session.die(1)
        #expect(session.takeSettlements() == [Settlement(0..<5, .indeterminate(nil), attempts: 1)])
    }

    @Test func `after the second consecutive silent end the parts are smaller`() {
        var session = ProviderSession(written: 64)
        session.sent(1, before: 64)
        session.die(1)
        #expect(session.stepOnNextConnection(now: .zero) == .write(2, numbers: 0..<100_000, firstIdentifier: 1))
        session.wrote(64, now: .zero)
        session.sent(2, before: 64)
        session.die(2)
        #expect(
            session.stepOnNextConnection(now: .milliseconds(100)) == .write(3, numbers: 0..<4, firstIdentifier: 1)
        )
    }

    @Test func `one that is lost alone too many times is given up, and the rest continue`() {
        let limits = BinaryLimits { $0.checkpointIntervalMin = .zero }
        var conversation = Conversation(count: 20, limits: limits) { written, probe in
            if written.contains(3) { return .end }
            return probe.map { .answer(ErrorResponse(.missingDeviceToken, $0)) } ?? .silence
        }
        #expect(conversation.run() == .completed)
        #expect(conversation.settlements.filter { $0.outcome == .indeterminate(nil) }.map(\.numbers) == [3..<4])
        #expect(conversation.settlements.filter { $0.outcome == .accepted }.map(\.numbers.count).reduce(0, +) == 19)
    }

    @Test func `without identifiers, bisection finds the one that the gateway closes on`() {
        let limits = BinaryLimits {
            $0.checkpointIntervalMin = .zero
            $0.hasNoIdentifiers = true
        }
        var conversation = Conversation(count: 1000, limits: limits) { written, probe in
            if written.contains(700) { return .end }
            return probe.map { .answer(ErrorResponse(.missingDeviceToken, $0)) } ?? .silence
        }
        #expect(conversation.run() == .completed)
        #expect(conversation.settlements.filter { $0.outcome == .indeterminate(nil) }.map(\.numbers) == [700..<701])
        #expect(conversation.settlements.map(\.numbers.count).reduce(0, +) == 1000)
    }
}
