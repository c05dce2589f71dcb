// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import APNSSession
import APNSWire
import NIOCore
import Synchronization

/// A submitted request.
final class Submission: Sendable {
    /// The receiver of the outcome.
    enum Origin: Sendable {
        /// A caller that submitted a single request.
        case caller(@Sendable (DeliveryReport) -> Void)
        /// The source of a batch.
        case source(NotificationChunk, index: Int)
    }

    let request: PushRequest
    let deadline: NIODeadline
    let origin: Origin
    /// Whether it is for another topic than the rest of its batch.
    let hasOwnTopic: Bool
    /// The receiver that may withdraw it; `nil` if none does.
    let receiver: (any SubmissionReceiver)?
    /// Its number in the queue, which is set before another thread can access it; 0 if it comes from a source.
    let number = Atomic<UInt64>(0)

    init(
        _ request: PushRequest,
        deadline: NIODeadline = .distantFuture,
        from origin: Origin,
        hasOwnTopic: Bool = false,
        for receiver: (any SubmissionReceiver)? = nil
    ) {
        self.request = request
        self.deadline = deadline
        self.origin = origin
        self.hasOwnTopic = hasOwnTopic
        self.receiver = receiver
    }
}

/// A submitted request, with the state of its attempts.
struct PendingPush: Sendable {
    let submission: Submission
    var retries = RetryState()
    /// The time of the last attempt.
    var writtenAt = NIODeadline.uptimeNanoseconds(0)
    /// The time of issue of the provider token of the last attempt.
    var tokenIssuedAt: Int64?
    /// How many other requests the service had answered when it first postponed this one.
    var answeredCountThen: UInt64?

    init(_ submission: Submission) { self.submission = submission }

    /// What to do about an answer.
    enum Decision: Equatable {
        /// Settle it with this outcome.
        case settle(DeliveryOutcome)
        /// Send it again, after a delay or immediately.
        case sendAgain(after: Duration)
    }

    /// Decides how to handle a rejection; if it is to be sent again, it is ready for the next attempt.
    ///
    /// Returns what to do.
    mutating func receive(
        _ rejection: Rejection,
        _ responseClass: ResponseClass,
        _ rules: RetryRules,
        _ classifier: ResponseClassifier?,
        _ fields: ResponseFields? = nil,
        renews: (ResponseClass.TransientReason) -> Bool = { _ in false }
    ) -> Decision {
        let answeredCount = classifier?.rejectionArrived() ?? 0
        let answeredCountThen = self.answeredCountThen ?? answeredCount
        switch self.retries.receive(responseClass, rules, jitter: .random(in: 0...1), renews: renews) {
        case .sendAgain(.zero, _): return .sendAgain(after: .zero)
        case .sendAgain(let pause, _):
            self.retries.postpone()
            self.answeredCountThen = answeredCountThen
            return .sendAgain(after: pause)
        case .end(let responseClass):
            guard case .http2(let answer) = rejection else { return .settle(.rejected(rejection)) }
            guard let classifier else {
                // An earlier attempt may have arrived, and this answer does not say that it did not.
                let isInDoubt = self.retries.isUnknown && !responseClass.isNotificationAtFault
                return .settle(isInDoubt ? .indeterminate(.serviceResponse(answer)) : .rejected(rejection))
            }
            let isOnlyTrouble = answeredCount == answeredCountThen
            let isAtFault = classifier.rejected(
                answer,
                responseClass,
                identifier: self.submission.request.apnsID,
                uniqueIdentifier: fields?.apnsUniqueID,
                hasOwnTopic: self.submission.hasOwnTopic,
                isOnlyTrouble: isOnlyTrouble
            )
            return .settle(isAtFault ? .rejected(rejection) : self.unprocessed(.serviceResponse(answer)))
        }
    }

    /// The outcome if the last attempt was verified as not processed: an earlier attempt may have been processed, so
    /// that sending it again is not safe.
    func unprocessed(_ reason: DeliveryOutcome.Reason?) -> DeliveryOutcome {
        self.retries.isUnknown ? .indeterminate(reason) : .unsent(reason)
    }

    /// Reports the outcome, with the fields of the last answer.
    func settle(_ outcome: DeliveryOutcome, at now: NIODeadline? = nil, _ fields: ResponseFields? = nil) {
        var report = DeliveryReport(
            outcome,
            attempts: self.retries.totalAttemptCount,
            isPossibleDuplicate: self.retries.isUnknown
        )
        report.apnsID = self.submission.request.apnsID
        report.responseFields = fields
        switch self.submission.origin {
        case .caller(let onReport):
            report.latency = now.map { Duration($0 - self.writtenAt) }
            onReport(report)
        case .source(let chunk, let index): chunk.settle(index, self.submission.request.token, report)
        }
    }
}
