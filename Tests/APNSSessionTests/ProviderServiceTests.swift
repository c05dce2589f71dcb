// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSWire
import Testing

/// Goal: a session that is a service verifies in time, survives outages and bad tokens, and reports why something was
/// not sent.
///
/// Method: one line per event and the step that follows it.
@Suite struct ProviderServiceTests {
    private static let failure = ConnectionFailure(.refused, "connection refused")

    @Test func `what is written is verified within the delay, even if there is always more`() {
        var session = ProviderSession(written: 3, limits: .service)
        #expect(session.step(now: .zero) == .connect(2))
        #expect(session.step(now: .zero) == .write(1, numbers: 3..<100_000, firstIdentifier: 4))
        session.wrote(1, now: .milliseconds(50))
        session.connected(2, now: .milliseconds(60))
        #expect(session.step(now: .milliseconds(99)) == .write(1, numbers: 4..<100_000, firstIdentifier: 5))
        session.wrote(1, now: .milliseconds(99))
        #expect(session.step(now: .milliseconds(100)) == .probe(1, identifier: 6))
        session.receive(.missingDeviceToken, 6, on: 1)
        #expect(session.takeSettlements() == [Settlement(0..<5, .accepted, attempts: 1)])
    }

    @Test func `more is written while the replacement is connecting`() {
        var session = ProviderSession(written: 1, limits: .service)
        #expect(session.step(now: .zero) == .connect(2))
        #expect(session.step(now: .seconds(5)) == .write(1, numbers: 1..<100_000, firstIdentifier: 2))
    }

    /// Verification is due after a delay, every second, or after a pause without another notification, every 80 ms.
    @Test(
        arguments: [
            (nil, [100, 200, 300, 1100, 2100, 3100]), (.milliseconds(20), [20, 40, 60, 100, 180, 260]),
        ] as [(Duration?, [Double])]
    )
    func `after a burst of checkpoints, there is one in each interval`(pause: Duration?, expected: [Double]) {
        var limits = BinaryLimits.service
        limits.verificationBurstCount = 3
        limits.verificationPause = pause
        var session = ProviderSession(written: 1, limits: limits)
        session.supply(.waiting)
        var now = Duration.zero
        var times: [Duration] = []
        for connection in 1...6 as ClosedRange<UInt64> {
            let (number, next) = (ConnectionNumber(rawValue: connection), ConnectionNumber(rawValue: connection + 1))
            guard case .wait(.some(let due)) = session.step(now: now) else {
                Issue.record("It does not wait.")
                return
            }
            now = due
            #expect(session.step(now: now) == .connect(next))
            session.connected(next, now: now)
            #expect(session.step(now: now) == .probe(number, identifier: 2))
            times.append(now)
            session.received(ErrorResponse(.missingDeviceToken, 2), on: number, now: now, jitter: 1)
            #expect(session.step(now: now) == .close(number))
            session.closed(number, now: now, jitter: 1)
            session.supply(.available)
            guard case .write = session.step(now: now) else {
                Issue.record("It does not write.")
                return
            }
            session.wrote(1, now: now)
            session.supply(.waiting)
        }
        #expect(times.map { $0 / .milliseconds(1) } == expected)
    }

    @Test func `notifications at shorter intervals than the pause are verified within the delay`() {
        var session = ProviderSession(written: 1, limits: .service)
        for number in 1...9 as ClosedRange<UInt64> {
            let now = Duration.milliseconds(10 * Int64(number))
            session.supply(.waiting)
            #expect(session.step(now: now) == .wait(until: now + .milliseconds(10)))
            session.supply(.available)
            if number == 1 {
                #expect(session.step(now: now) == .connect(2))
                session.connected(2, now: now)
            }
            #expect(session.step(now: now) == .write(1, numbers: number..<100_000, firstIdentifier: UInt32(number + 1)))
            session.wrote(1, now: now)
        }
        session.supply(.waiting)
        #expect(session.step(now: .milliseconds(99)) == .wait(until: .milliseconds(100)))
        #expect(session.step(now: .milliseconds(100)) == .probe(1, identifier: 11))
    }

    @Test func `a requested checkpoint is made when there is nothing more to write, whatever the interval`() {
        var limits = BinaryLimits.service
        limits.verificationDelay = .seconds(3600)
        var session = ProviderSession(written: 3, limits: limits)
        session.checkpoint()
        #expect(session.step(now: .zero) == .connect(2))
        session.connected(2, now: .zero)
        #expect(session.step(now: .zero) == .write(1, numbers: 3..<100_000, firstIdentifier: 4))
        session.supply(.waiting)
        #expect(session.step(now: .zero) == .probe(1, identifier: 4))
    }

    @Test func `an outage causes backoff, not the end of the session`() {
        var session = ProviderSession(limits: .service)
        var now = Duration.zero
        for number in 1...200 as ClosedRange<UInt64> {
            var step = session.step(now: now)
            if case .wait(.some(let due)) = step {
                now = due
                step = session.step(now: now)
            }
            #expect(step == .connect(ConnectionNumber(rawValue: number)))
            session.closed(ConnectionNumber(rawValue: number), failure: Self.failure, now: now, jitter: 1)
        }
        #expect(now > .seconds(1800))
        #expect(session.outage == Self.failure)
        #expect(session.stepOnNextConnection(now: now + .seconds(30)) != .finish(.unavailable))
    }

    @Test func `notifications without a connection for too long get their outcome, with the reason`() {
        var session = ProviderSession(written: 3, limits: .service)
        session.sent(1, before: 2)
        session.closed(1, failure: Self.failure, now: .zero, jitter: 1)
        var now = Duration.zero
        var connection: UInt64 = 2
        while !session.hasSettlements, now < .seconds(100) {
            switch session.step(now: now) {
            case .connect: session.closed(.init(rawValue: connection), failure: Self.failure, now: now, jitter: 1)
            case .wait(.some(let due)): now = due
            default: Issue.record("It neither connects nor waits.")
            }
            if case .wait = session.step(now: now) {} else { connection += 1 }
        }
        #expect(now == .seconds(30))
        #expect(
            session.takeSettlements() == [
                Settlement(0..<2, .indeterminate(.unavailable(Self.failure)), attempts: 1, isDuplicate: true),
                Settlement(2..<3, .unsent(.unavailable(Self.failure)), attempts: 0),
            ]
        )
    }

    @Test func `too many invalid tokens in a row slow it down until one is accepted`() {
        var limits = BinaryLimits.service
        limits.invalidTokenRunCountMax = 2
        var writtenCounts: [Int] = []
        var conversation = Conversation(count: 10, limits: limits) { written, probe in
            writtenCounts.append(written.count)
            if let index = written.firstIndex(where: { $0 < 5 }) {
                return .answer(ErrorResponse(.invalidToken, UInt32(index + 1)))
            }
            return probe.map { .answer(ErrorResponse(.missingDeviceToken, $0)) } ?? .silence
        }
        #expect(conversation.run() == .completed)
        #expect(writtenCounts.filter { $0 > 1 }.count <= 4 && writtenCounts.contains(1))
        #expect(conversation.settlements.filter { $0.outcome == .rejected(.binary(.invalidToken)) }.count == 5)
        #expect(conversation.settlements.filter { $0.outcome == .accepted }.map(\.numbers.count).reduce(0, +) == 5)
    }
}
