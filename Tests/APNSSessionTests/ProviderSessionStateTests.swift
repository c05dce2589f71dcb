// SPDX-License-Identifier: Apache-2.0

import APNSWire
import Testing

@testable import APNSSession

/// Goal: no event traps in any state, and afterwards every notification still gets exactly one outcome.
///
/// Method: every state, then every event for every connection, in pairs; then run to the end.
@Suite struct ProviderSessionStateTests {
    enum State: CaseIterable {
        case new, connecting, open, written, leftInPart, standbyConnecting, standbyReady, standbyFailed, probed
        case probedWithStandby, waitingToRetry, suspicious, supplyEnded, abandoned, finished

        var session: ProviderSession {
            var session = ProviderSession(written: 8, limits: BinaryLimits { $0.windowCount = 16 })
            switch self {
            case .new: return ProviderSession()
            case .connecting:
                session = ProviderSession()
                _ = session.step(now: .zero)
            case .open: session = ProviderSession(written: 0)
            case .written: break
            case .leftInPart: session.sent(1, before: 3)
            case .standbyConnecting: _ = session.step(now: .zero)
            case .standbyReady:
                _ = session.step(now: .zero)
                session.connected(2, now: .zero)
            case .standbyFailed:
                _ = session.step(now: .zero)
                session.closed(2, now: .zero, jitter: 1)
            case .probed:
                session.supply(.ended)
                _ = session.step(now: .zero)
            case .probedWithStandby:
                session.supply(.waiting)
                _ = session.stepOnNextConnection(now: .seconds(1))
            case .waitingToRetry: session.receive(.processingError, 1, on: 1)
            case .suspicious:
                session.sent(1, before: 8)
                session.receive(.invalidToken, 0, on: 1)
            case .supplyEnded: session.supply(.ended)
            case .abandoned: session.abandon()
            case .finished:
                session.abandon()
                _ = session.stepOnNextConnection(now: .zero)
            }
            return session
        }
    }

    enum Event: CaseIterable {
        case connected, connectFailed, connectFailedForGood, closed, closedForGood, refused, left, leftAll
        case proof, proofWithoutIdentifier, rejection, rejectionOfNone, processingError, shutdown, shutdownWithoutWord
        case available, waiting, ended, storeFull, storeFree, step, stepLater, abandon

        func happen(to session: inout ProviderSession, _ number: ConnectionNumber) {
            switch self {
            case .connected: session.connected(number, now: .zero)
            case .connectFailed: session.closed(number, now: .zero, jitter: 0)
            case .connectFailedForGood: session.closed(number, permanently: true, now: .zero, jitter: 0)
            case .closed: session.closed(number, now: .zero, jitter: 0)
            case .closedForGood: session.closed(number, permanently: true, now: .zero, jitter: 0)
            case .refused:
                session.closed(number, permanently: true, isUnprocessed: true, now: .zero, jitter: 0)
            case .left: session.sent(number, before: 2)
            case .leftAll: session.sent(number, before: .max)
            case .proof: session.receive(.missingDeviceToken, 9, on: number)
            case .proofWithoutIdentifier: session.receive(.missingDeviceToken, 0, on: number)
            case .rejection: session.receive(.invalidToken, 2, on: number)
            case .rejectionOfNone: session.receive(.invalidToken, .max, on: number)
            case .processingError: session.receive(.processingError, 1, on: number)
            case .shutdown: session.receive(.shutdown, 4, on: number)
            case .shutdownWithoutWord: session.receive(.shutdown, 0, on: number)
            case .available: session.supply(.available)
            case .waiting: session.supply(.waiting)
            case .ended: session.supply(.ended)
            case .storeFull: session.isStoreFull = true
            case .storeFree: session.isStoreFull = false
            case .step: _ = session.step(now: .seconds(1))
            case .stepLater: _ = session.step(now: .seconds(3600))
            case .abandon: session.abandon()
            }
        }
    }

    @Test(arguments: State.allCases, Event.allCases)
    func `two events in any state leave every notification with one outcome`(state: State, first: Event) {
        for second in Event.allCases {
            for numbers in [(1, 1), (1, 2), (2, 1), (2, 2), (9, 0)] as [(UInt64, UInt64)] {
                var session = state.session
                first.happen(to: &session, ConnectionNumber(rawValue: numbers.0))
                second.happen(to: &session, ConnectionNumber(rawValue: numbers.1))
                session.abandon()
                for number in 0...9 as ClosedRange<UInt64> {
                    session.closed(ConnectionNumber(rawValue: number), now: .seconds(7200), jitter: 0)
                }
                guard case .finish = session.step(now: .seconds(7200)) else {
                    Issue.record("does not end after \(second) on \(numbers)")
                    continue
                }
                var next: UInt64 = 0
                for settlement in session.takeSettlements() {
                    #expect(settlement.numbers.lowerBound == next)
                    next = settlement.numbers.upperBound
                }
                #expect(next == session.nextNumber)
                #expect(session.settled == session.nextNumber)
            }
        }
    }
}
