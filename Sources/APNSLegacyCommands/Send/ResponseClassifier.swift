// SPDX-License-Identifier: Apache-2.0

import APNSGateway
import APNSHTTP2
import APNSSession
import Glibc
import NIOConcurrencyHelpers

/// Reads the reports of a batch: what became of each line, which is to be sent again, and where going on is of no use.
final class ResponseClassifier: Sendable {
    /// What to do about a report.
    enum Judgement: Equatable {
        /// The line has its outcome.
        case settle(SendVerdict)
        /// Send the line again after a pause.
        case sendAgain(after: Duration)
    }

    private struct State {
        var invalidTokenRunCount = 0
        /// Lines that the service said something else about than that it has trouble.
        var answeredCount: UInt64 = 0
        var failure: CommandFailure?
        var isOver = false
        var isConnectionLost = false
    }

    /// The longest pause before a line is sent again.
    static let delayMax = Duration.seconds(15)

    private let invalidTokenRunCountMax: Int
    private let tryCountMax: Int
    private let backoff: Backoff
    private let state = NIOLockedValueBox(State())

    /// - Parameters:
    ///   - invalidTokenRunCountMax: after how many tokens in a row that are rejected as invalid the batch ends; 0 for
    ///     never.
    ///   - tryCountMax: how often a line is sent that the service puts off.
    ///   - backoff: how long to wait in between.
    init(invalidTokenRunCountMax: Int, tryCountMax: Int, backoff: Backoff) {
        self.invalidTokenRunCountMax = invalidTokenRunCountMax
        self.tryCountMax = tryCountMax
        self.backoff = backoff
    }

    /// Why no more are sent.
    var failure: CommandFailure? { self.state.withLockedValue(\.failure) }

    /// Whether no more are sent.
    var isOver: Bool { self.state.withLockedValue { $0.isOver || $0.failure != nil } }

    /// Nothing more can be sent.
    func end() { self.state.withLockedValue { $0.isOver = true } }

    /// A connection could not be opened, or ended before the service answered anything.
    func loseConnection() { self.state.withLockedValue { $0.isConnectionLost = true } }

    /// Whether nothing was heard from the service since a connection failed.
    var isConnectionLost: Bool { self.state.withLockedValue(\.isConnectionLost) }

    /// Judges what became of an attempt.
    func judge(_ report: PushReport, of sendAttempt: inout SendAttempt) -> Judgement {
        sendAttempt.attempts += report.attempts
        sendAttempt.isDuplicate = sendAttempt.isDuplicate || report.possibleDuplicate
        switch report.outcome {
        case .accepted:
            self.state.withLockedValue { state in
                state.answeredCount += 1
                state.invalidTokenRunCount = 0
                state.isConnectionLost = false
            }
            return .settle(sendAttempt.verdict(.accepted))
        case .rejected(let rejection): return self.judge(rejection, of: &sendAttempt)
        case .indeterminate(let trouble): return .settle(sendAttempt.verdict(.indeterminate, trouble.description))
        case .unsent(let trouble): return .settle(sendAttempt.unprocessed(trouble.description))
        case .invalid(let reason): return .settle(sendAttempt.verdict(.invalid, "\(reason)"))
        @unknown default: return .settle(sendAttempt.verdict(.indeterminate))
        }
    }

    private func judge(_ rejection: PushRejection, of sendAttempt: inout SendAttempt) -> Judgement {
        self.state.withLockedValue { $0.isConnectionLost = false }
        let answer = UpstreamAnswer(.rejected(rejection))
        let text = "\(rejection.status) \(rejection.reason.text)"
        switch AnswerMeaning(answer, topic: sendAttempt.request.topic, now: UInt32(clamping: time(nil))) {
        case .passing(.providerToken), .passing(.connection), .misconfigured, .credentialFault:
            // The client tried another provider token and another connection where these may help.
            self.fail(.notPermitted, "The service does not permit it: \(text).")
            return .settle(sendAttempt.unprocessed(text))
        case .passing(let passing) where !passing.isAboutHeader:
            return self.putOff(&sendAttempt, text, isAboutService: passing != .throttled)
        case .dead(let since):
            return .settle(self.rejected(sendAttempt, rejection, .dead(since: Int64(since))))
        case .rejected where rejection.reason == .badDeviceToken:
            return .settle(self.rejected(sendAttempt, rejection, .invalid))
        case .rejected where rejection.reason == .deviceTokenNotForTopic:
            return .settle(self.rejected(sendAttempt, rejection, .foreign))
        case .accepted, .rejected, .gatewayFault, .passing:
            return .settle(self.rejected(sendAttempt, rejection, nil))
        }
    }

    private func rejected(
        _ sendAttempt: SendAttempt,
        _ rejection: PushRejection,
        _ fault: SendVerdict.TokenFault?
    ) -> SendVerdict {
        self.state.withLockedValue { state in
            state.answeredCount += 1
            guard fault == .invalid || fault == .foreign, self.invalidTokenRunCountMax > 0 else { return }
            state.invalidTokenRunCount += 1
            guard state.invalidTokenRunCount >= self.invalidTokenRunCountMax, state.failure == nil else { return }
            state.failure = CommandFailure(
                .dataError,
                "\(state.invalidTokenRunCount) tokens in a row were rejected as invalid, and none was accepted in "
                    + "between. Are they tokens of the other environment or of another app?"
            )
        }
        var verdict = sendAttempt.verdict(.rejected, rejection.reason.text)
        verdict.status = UInt16(clamping: rejection.status)
        verdict.fault = fault
        return verdict
    }

    /// The service asks to come again later.
    private func putOff(_ sendAttempt: inout SendAttempt, _ text: String, isAboutService: Bool) -> Judgement {
        let answeredCount = self.state.withLockedValue(\.answeredCount)
        if sendAttempt.putOffCount == 0 { sendAttempt.answeredCountThen = answeredCount }
        sendAttempt.putOffCount += 1
        guard sendAttempt.putOffCount >= self.tryCountMax else {
            return .sendAgain(after: self.backoff.delay(failures: sendAttempt.putOffCount, jitter: .random(in: 0...1)))
        }
        if isAboutService, answeredCount == sendAttempt.answeredCountThen {
            self.fail(.unavailable, "The service has trouble: it answers \(text).")
        }
        return .settle(sendAttempt.unprocessed(text))
    }

    private func fail(_ status: ExitStatus, _ text: String) {
        self.state.withLockedValue { $0.failure = $0.failure ?? CommandFailure(status, text) }
    }
}

extension SendAttempt {
    fileprivate func verdict(_ outcome: BatchOutcome, _ reason: String? = nil) -> SendVerdict {
        SendVerdict(outcome: outcome, reason: reason, attempts: self.attempts, isDuplicate: self.isDuplicate)
    }

    /// The last attempt was not processed; an earlier one may have been.
    func unprocessed(_ reason: String? = nil) -> SendVerdict {
        self.verdict(self.isDuplicate ? .indeterminate : .unsent, reason)
    }
}

extension AnswerMeaning.Passing {
    fileprivate var isAboutHeader: Bool {
        if case .header = self { true } else { false }
    }
}
