// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import APNSSession
import APNSWire
import NIOCore

/// A submitted request.
final class Submission: Sendable {
    /// The receiver of the outcome.
    enum Origin: Sendable {
        /// A caller that submitted a single request.
        case caller(@Sendable (DeliveryReport) -> Void)
        /// The source of a batch.
        case source(NotificationChunk, NotificationChunk.Position)
    }

    let request: PushRequest
    let deadline: NIODeadline
    let origin: Origin

    init(_ request: PushRequest, deadline: NIODeadline = .distantFuture, from origin: Origin) {
        self.request = request
        self.deadline = deadline
        self.origin = origin
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

    /// The outcome if the last attempt was verified as not processed: an earlier attempt may have been processed, so
    /// that sending it again is not safe.
    func unprocessed(_ reason: DeliveryOutcome.Reason?) -> DeliveryOutcome {
        self.retries.isUnknown ? .indeterminate(reason) : .unsent(reason)
    }

    /// Reports the outcome.
    ///
    /// - Parameters:
    ///   - outcome: the outcome.
    ///   - now: when the request was answered.
    func settle(_ outcome: DeliveryOutcome, at now: NIODeadline? = nil) {
        var report = DeliveryReport(
            outcome,
            attempts: self.retries.totalAttemptCount,
            possibleDuplicate: self.retries.isUnknown
        )
        switch self.submission.origin {
        case .caller(let onReport):
            report.latency = now.map { Duration($0 - self.writtenAt) }
            onReport(report)
        case .source(let chunk, let position): chunk.settle(position, report)
        }
    }
}
