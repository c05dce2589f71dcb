// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import APNSSession
import APNSWire
import NIOCore

/// A request as it was handed in.
final class Submission: Sendable {
    /// Who is told what became of it.
    enum Origin: Sendable {
        /// One who handed it in alone.
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

/// A request on its way, with what was tried so far.
struct PendingPush: Sendable {
    let submission: Submission
    var retries = RetryState()
    /// When it was written the last time.
    var writtenAt = NIODeadline.uptimeNanoseconds(0)
    /// The time of the provider token that it was written with.
    var tokenIssuedAt: Int64?
    /// How many others the service had answered when it first put this one off.
    var answeredCountThen: UInt64?

    init(_ submission: Submission) { self.submission = submission }

    /// What is told where the last attempt was proved not to be processed: an earlier one may have been, so that it is
    /// not safe to send it again.
    func unprocessed(_ reason: DeliveryOutcome.Reason?) -> DeliveryOutcome {
        self.retries.isUnknown ? .indeterminate(reason) : .unsent(reason)
    }

    /// Tells what became of it.
    ///
    /// - Parameters:
    ///   - outcome: what.
    ///   - now: when it was answered.
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
