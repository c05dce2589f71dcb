// SPDX-License-Identifier: Apache-2.0

import APNSWire

@testable import APNSSession

/// What a walk can reach; a test checks that the walks reach everything.
enum WalkMark: Hashable, CaseIterable, Sendable {
    // Steps.
    case replacementOpened, checkpointWhenFull, checkpointWhenStoreFull, checkpointWhenIdle, checkpointAtEnd
    case answerDeadline, backOff, resending
    // Steps of a service.
    case checkpointBeforeMore, cautious, heldGivenUp
    // Answers.
    case probeAnswered, probeAnsweredWithoutIdentifier, rejected, rejectedBehindReplacement, shutdown
    case shutdownWithoutIdentifier, processingErrorRetried, processingErrorGivenUp, unidentified, unidentifiedAlone
    case unidentifiedAtMostOnce, suspectAlone, answerOnStandby, answerTooLate
    // Ends.
    case connectFailed, standbyConnectFailed, diedIdle, diedAllInProcess, diedPartLeft, diedAllLeft
    case diedWithoutIdentifiers, diedProbed, standbyDied, refusedForGood, diedAlone, diedAloneTooOften
    // The end.
    case completed, abandoned, notPermitted, unavailable, tooManyInvalidTokens

    /// The marks of a step.
    static func marks(of step: ProviderStep, from session: ProviderSession, now: Duration) -> [WalkMark] {
        switch step {
        case .connect:
            if case .open = session.link { return [.replacementOpened] }
            return []
        case .write(_, let numbers, _): return numbers.lowerBound < session.nextNumber ? [.resending] : []
        case .probe: return [self.checkpoint(session)]
        case .close:
            guard case .open(let open) = session.link, let deadline = open.probeDeadline, now >= deadline else {
                return []
            }
            return session.ending == nil ? [.answerDeadline] : []
        case .wait(let time):
            if case .none = session.link, time != nil { return [.backOff] }
            return []
        case .finish(let ending): return self.marks(of: ending)
        }
    }

    private static func checkpoint(_ session: ProviderSession) -> WalkMark {
        guard case .open(let open) = session.link else { return .checkpointAtEnd }
        if open.written == session.settled + session.limits.windowCount { return .checkpointWhenFull }
        if session.limits.life == .service, session.supply == .available, !session.isStoreFull, !session.isCautious {
            return .checkpointBeforeMore
        }
        if session.isStoreFull { return .checkpointWhenStoreFull }
        return session.supply == .waiting ? .checkpointWhenIdle : .checkpointAtEnd
    }

    private static func marks(of ending: ProviderEnding) -> [WalkMark] {
        switch ending {
        case .completed: [.completed]
        case .abandoned: [.abandoned]
        case .notPermitted: [.notPermitted]
        case .unavailable: [.unavailable]
        case .tooManyInvalidTokens: [.tooManyInvalidTokens]
        case .refused: []
        }
    }

    /// The marks of an answer.
    init(_ response: ErrorResponse, on number: ConnectionNumber, _ session: ProviderSession) {
        guard case .open(let open) = session.link, open.number == number else {
            self = session.standbyNumber == number ? .answerOnStandby : .answerTooLate
            return
        }
        let count = open.written - open.base
        switch VerificationResult(response, count: count, isProbed: open.probeDeadline != nil) {
        case .allAccepted: self = response.identifier == 0 ? .probeAnsweredWithoutIdentifier : .probeAnswered
        case .accepted: self = .shutdown
        case .unknown: self = .shutdownWithoutIdentifier
        case .unidentifiedRejection where count == 1: self = .unidentifiedAlone
        case .unidentifiedRejection:
            self = session.limits.policy == .atMostOnce ? .unidentifiedAtMostOnce : .unidentified
        case .rejected(let index):
            let isAgain = session.retry.number == open.base + index
            if response.status == .processingError {
                let count = isAgain ? session.retry.count : 0
                let isLast = count >= session.limits.processingErrorRetryCountMax
                self = isLast ? .processingErrorGivenUp : .processingErrorRetried
            } else if case .ready = session.standby {
                self = .rejectedBehindReplacement
            } else {
                self = .rejected
            }
        }
    }

    /// The marks of the end of a connection.
    init(endOf number: ConnectionNumber, _ session: ProviderSession, isRefused: Bool) {
        guard !isRefused else {
            self = .refusedForGood
            return
        }
        guard case .open(let open) = session.link, open.number == number else {
            self = .standbyDied
            return
        }
        let count = open.sent - session.settled
        let deaths = session.singleLoss.number == session.settled ? session.singleLoss.count : 0
        if open.written == session.settled {
            self = .diedIdle
        } else if count == 0 {
            self = .diedAllInProcess
        } else if count == 1, session.limits.policy == .atLeastOnce {
            self = deaths + 1 >= session.limits.silentAttemptCountMax ? .diedAloneTooOften : .diedAlone
        } else if session.limits.hasNoIdentifiers {
            self = .diedWithoutIdentifiers
        } else if open.probeDeadline != nil {
            self = .diedProbed
        } else {
            self = open.sent < open.written ? .diedPartLeft : .diedAllLeft
        }
    }
}

extension ProviderSession {
    /// The connection that waits to be used.
    var standbyNumber: ConnectionNumber? {
        switch self.standby {
        case .connecting(let number), .ready(let number, since: _): number
        case .none, .failed: nil
        }
    }
}
