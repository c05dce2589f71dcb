// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSWire
import Testing

/// Goal: rules 1 to 3 of docs/accounting.md: numbers, the window, checkpoints.
///
/// Method: one line per event and the step that follows it.
@Suite struct ProviderSessionTests {
    @Test func `a batch is written, probed and verified`() {
        var session = ProviderSession()
        #expect(session.step(now: .zero) == .connect(1))
        #expect(session.step(now: .zero) == .wait(until: nil))
        session.connected(1, now: .zero)
        #expect(session.step(now: .zero) == .write(1, numbers: 0..<100_000, firstIdentifier: 1))
        session.wrote(3, now: .zero)
        #expect(session.step(now: .zero) == .write(1, numbers: 3..<100_000, firstIdentifier: 4))
        session.supply(.ended)
        #expect(session.step(now: .zero) == .probe(1, identifier: 4))
        #expect(session.step(now: .zero) == .wait(until: .seconds(60)))
        #expect(!session.hasSettlements)
        session.receive(.missingDeviceToken, 4, on: 1)
        #expect(session.hasSettlements)
        #expect(session.takeSettlements() == [Settlement(0..<3, .accepted, attempts: 1)])
        #expect(!session.hasSettlements)
        #expect(session.step(now: .zero) == .close(1))
        #expect(session.step(now: .zero) == .wait(until: nil))
        #expect(session.knownEnding == .completed)
        session.die(1)
        #expect(session.step(now: .zero) == .finish(.completed))
        #expect(session.step(now: .zero) == .finish(.completed))
    }

    @Test func `a session without notifications ends without a probe`() {
        var session = ProviderSession()
        #expect(session.step(now: .zero) == .connect(1))
        session.connected(1, now: .zero)
        session.supply(.ended)
        #expect(session.step(now: .zero) == .close(1))
        session.die(1)
        #expect(session.step(now: .zero) == .finish(.completed))
    }

    @Test func `the end of the supply is final`() {
        var session = ProviderSession()
        session.supply(.ended)
        session.supply(.available)
        #expect(session.step(now: .zero) == .finish(.completed))
    }

    // MARK: Rule 1

    @Test func `identifiers run from 1 on each connection, and the order is kept when resending`() {
        var session = ProviderSession(written: 5)
        session.sent(1, before: 5)
        session.receive(.invalidToken, 2, on: 1)
        #expect(session.step(now: .zero) == .close(1))
        #expect(session.step(now: .zero) == .connect(2))
        session.connected(2, now: .zero)
        #expect(session.step(now: .zero) == .write(2, numbers: 2..<100_002, firstIdentifier: 1))
        session.wrote(2, now: .zero)
        #expect(session.step(now: .zero) == .write(2, numbers: 4..<100_002, firstIdentifier: 3))
        session.wrote(2, now: .zero)
        session.supply(.ended)
        #expect(session.step(now: .zero) == .probe(2, identifier: 5))
        session.receive(.missingDeviceToken, 5, on: 2)
        #expect(
            session.takeSettlements() == [
                Settlement(0..<1, .accepted, attempts: 1),
                Settlement(1..<2, .rejected(.binary(.invalidToken)), attempts: 1),
                Settlement(2..<5, .accepted, attempts: 2),
                Settlement(5..<6, .accepted, attempts: 1),
            ]
        )
    }

    // MARK: Rule 2

    @Test func `a full window accepts no more, opens the replacement at its half, and is probed`() {
        var session = ProviderSession(written: 2, limits: BinaryLimits { $0.windowCount = 4 })
        #expect(session.step(now: .zero) == .connect(2))
        #expect(session.step(now: .zero) == .write(1, numbers: 2..<4, firstIdentifier: 3))
        session.wrote(2, now: .zero)
        #expect(session.step(now: .zero) == .wait(until: nil))
        session.connected(2, now: .zero)
        #expect(session.step(now: .zero) == .probe(1, identifier: 5))
        #expect(session.step(now: .zero) == .wait(until: .seconds(60)))
        session.receive(.missingDeviceToken, 5, on: 1)
        #expect(session.step(now: .zero) == .close(1))
        #expect(session.step(now: .zero) == .write(2, numbers: 4..<8, firstIdentifier: 1))
    }

    @Test func `a window of one probes after each`() {
        let limits = BinaryLimits {
            $0.windowCount = 1
            $0.checkpointIntervalMin = .zero
        }
        var conversation = Conversation(count: 5, limits: limits) { _, probe in
            probe.map { .answer(ErrorResponse(.missingDeviceToken, $0)) } ?? .silence
        }
        #expect(conversation.run() == .completed)
        #expect(conversation.writes == [0..<1, 1..<2, 2..<3, 3..<4, 4..<5])
        #expect(conversation.settlements.allSatisfy { $0.outcome == .accepted && $0.attempts == 1 })
    }

    @Test func `age verifies nothing`() {
        var session = ProviderSession(written: 3)
        session.supply(.waiting)
        #expect(session.step(now: .seconds(86_400)) == .connect(2))
        #expect(session.step(now: .seconds(864_000)) == .wait(until: nil))
        #expect(!session.hasSettlements)
    }

    // MARK: Rule 3

    @Test func `what was written is verified after the delay, and again after the interval`() {
        var session = ProviderSession(written: 3)
        session.supply(.waiting)
        #expect(session.step(now: .zero) == .wait(until: .seconds(1)))
        #expect(session.step(now: .seconds(1)) == .connect(2))
        #expect(session.step(now: .seconds(1)) == .wait(until: nil))
        session.connected(2, now: .seconds(1))
        #expect(session.step(now: .seconds(1)) == .probe(1, identifier: 4))
        session.received(ErrorResponse(.missingDeviceToken, 4), on: 1, now: .seconds(1), jitter: 1)
        #expect(session.step(now: .seconds(1)) == .close(1))
        #expect(session.step(now: .seconds(1)) == .wait(until: nil))
        session.supply(.available)
        #expect(session.step(now: .seconds(2)) == .write(2, numbers: 3..<100_003, firstIdentifier: 1))
        session.wrote(1, now: .seconds(2))
        session.supply(.waiting)
        #expect(session.step(now: .seconds(3)) == .wait(until: .seconds(61)))
        #expect(session.step(now: .seconds(61)) == .connect(3))
    }

    @Test func `occasional notifications do not delay the checkpoint`() {
        var session = ProviderSession(written: 3)
        session.supply(.waiting)
        #expect(session.step(now: .zero) == .wait(until: .seconds(1)))
        session.supply(.available)
        #expect(session.step(now: .milliseconds(900)) == .write(1, numbers: 3..<100_000, firstIdentifier: 4))
        session.wrote(1, now: .milliseconds(900))
        session.supply(.waiting)
        #expect(session.step(now: .milliseconds(900)) == .wait(until: .seconds(1)))
        #expect(session.step(now: .seconds(1)) == .connect(2))
    }

    @Test func `checkpoints keep their minimum interval`() {
        var session = ProviderSession(written: 2, limits: BinaryLimits { $0.windowCount = 2 })
        #expect(session.step(now: .zero) == .connect(2))
        session.connected(2, now: .zero)
        #expect(session.step(now: .zero) == .probe(1, identifier: 3))
        session.receive(.missingDeviceToken, 3, on: 1)
        #expect(session.step(now: .zero) == .close(1))
        #expect(session.step(now: .zero) == .write(2, numbers: 2..<4, firstIdentifier: 1))
        session.wrote(2, now: .zero)
        #expect(session.step(now: .zero) == .wait(until: .milliseconds(10)))
        #expect(session.step(now: .milliseconds(10)) == .connect(3))
    }

    @Test func `a full store accepts no more and is probed`() {
        var session = ProviderSession(written: 3)
        session.isStoreFull = true
        #expect(session.step(now: .zero) == .connect(2))
        #expect(session.step(now: .zero) == .wait(until: nil))
        session.connected(2, now: .zero)
        #expect(session.step(now: .zero) == .probe(1, identifier: 4))
        session.receive(.missingDeviceToken, 4, on: 1)
        #expect(session.step(now: .zero) == .close(1))
        #expect(session.step(now: .zero) == .wait(until: nil))
        session.isStoreFull = false
        #expect(session.step(now: .zero) == .write(2, numbers: 3..<100_003, firstIdentifier: 1))
    }

    @Test func `a full store does not prevent resending`() {
        var session = ProviderSession(written: 3)
        session.die(1)
        session.isStoreFull = true
        #expect(session.step(now: .zero) == .connect(2))
        session.connected(2, now: .zero)
        #expect(session.step(now: .zero) == .write(2, numbers: 0..<3, firstIdentifier: 1))
    }

    @Test func `nothing is written after a probe, although there is more`() {
        var session = ProviderSession(written: 3)
        session.supply(.waiting)
        #expect(session.stepOnNextConnection(now: .seconds(1)) == .probe(1, identifier: 4))
        session.supply(.available)
        #expect(session.step(now: .seconds(2)) == .wait(until: .seconds(61)))
    }

    @Test func `a replacement that cannot be opened does not prevent probing`() {
        var session = ProviderSession(written: 3)
        session.isStoreFull = true
        #expect(session.step(now: .zero) == .connect(2))
        session.closed(2, now: .zero, jitter: 1)
        #expect(session.step(now: .zero) == .probe(1, identifier: 4))
        session.receive(.missingDeviceToken, 4, on: 1)
        session.isStoreFull = false
        #expect(session.step(now: .zero) == .close(1))
        #expect(session.step(now: .zero) == .connect(3))
    }

    @Test func `a replacement that fails while it waits does not prevent probing`() {
        var session = ProviderSession(written: 3)
        session.isStoreFull = true
        #expect(session.step(now: .zero) == .connect(2))
        session.connected(2, now: .zero)
        session.die(2)
        #expect(session.step(now: .zero) == .probe(1, identifier: 4))
    }

    @Test func `a replacement that answers before it was written to is closed`() {
        var session = ProviderSession(written: 3)
        session.isStoreFull = true
        #expect(session.step(now: .zero) == .connect(2))
        session.connected(2, now: .zero)
        session.receive(.shutdown, 0, on: 2)
        #expect(session.step(now: .zero) == .close(2))
        session.die(2)
        #expect(session.step(now: .zero) == .probe(1, identifier: 4))
    }

    @Test func `the replacement is used while it is still being opened`() {
        var session = ProviderSession(written: 3)
        session.isStoreFull = true
        #expect(session.step(now: .zero) == .connect(2))
        session.receive(.invalidToken, 1, on: 1)
        #expect(session.step(now: .zero) == .close(1))
        #expect(session.step(now: .zero) == .wait(until: nil))
        session.connected(2, now: .zero)
        #expect(session.step(now: .zero) == .write(2, numbers: 1..<3, firstIdentifier: 1))
    }

    @Test func `status 2 with identifier 0 answers the probe`() {
        var session = ProviderSession(written: 3)
        session.supply(.ended)
        #expect(session.step(now: .zero) == .probe(1, identifier: 4))
        session.receive(.missingDeviceToken, 0, on: 1)
        #expect(session.takeSettlements() == [Settlement(0..<3, .accepted, attempts: 1)])
    }

    @Test func `a probe that is not answered in time verifies nothing`() {
        var session = ProviderSession(written: 3)
        session.supply(.ended)
        #expect(session.step(now: .zero) == .probe(1, identifier: 4))
        #expect(session.step(now: .seconds(59)) == .wait(until: .seconds(60)))
        #expect(session.step(now: .seconds(60)) == .close(1))
        #expect(!session.hasSettlements)
        session.die(1, now: .seconds(60))
        #expect(session.step(now: .seconds(60)) == .connect(2))
        session.connected(2, now: .seconds(60))
        #expect(session.step(now: .seconds(60)) == .write(2, numbers: 0..<100_000, firstIdentifier: 1))
        session.wrote(3, now: .seconds(60))
        #expect(session.step(now: .seconds(60)) == .probe(2, identifier: 4))
        session.receive(.missingDeviceToken, 4, on: 2)
        #expect(session.takeSettlements() == [Settlement(0..<3, .accepted, attempts: 2, isDuplicate: true)])
    }

    @Test func `an answer after its connection was given up is ignored`() {
        var session = ProviderSession(written: 3)
        session.supply(.ended)
        #expect(session.step(now: .zero) == .probe(1, identifier: 4))
        #expect(session.step(now: .seconds(60)) == .close(1))
        session.receive(.missingDeviceToken, 4, on: 1)
        #expect(!session.hasSettlements)
    }
}

extension BinaryLimits {
    /// The defaults with changes.
    init(_ change: (inout BinaryLimits) -> Void) {
        self.init()
        change(&self)
    }
}
