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
    /// On how many streams it was written since it came, or was put off.
    var attempts = 0
    var possibleDuplicate = false
    /// When it was written the last time.
    var writtenAt = NIODeadline.uptimeNanoseconds(0)
    /// The time of the provider token that it was written with.
    var tokenIssuedAt: Int64?
    /// Whether it was sent again because of its provider token, which is done once.
    var hasNewToken = false

    /// How often the service put it off.
    private(set) var putOffCount = 0
    /// On how many streams it was written before it was put off the last time.
    private var earlierAttempts = 0
    /// How many others the service had answered when it first put this one off.
    private(set) var answeredCountThen: UInt64 = 0

    init(_ submission: Submission) { self.submission = submission }

    /// On how many streams it was written.
    var totalAttempts: Int { self.earlierAttempts + self.attempts }

    /// The same, put off by the service, which has answered so many others.
    func putOff(answeredCount: UInt64) -> PendingPush {
        var push = PendingPush(self.submission)
        push.possibleDuplicate = self.possibleDuplicate
        push.earlierAttempts = self.totalAttempts
        push.putOffCount = self.putOffCount + 1
        push.answeredCountThen = self.putOffCount == 0 ? answeredCount : self.answeredCountThen
        return push
    }

    /// What is told where the last attempt was proved not to be processed: an earlier one may have been, so that it is
    /// not safe to send it again.
    func unprocessed(_ reason: DeliveryOutcome.Reason?) -> DeliveryOutcome {
        self.possibleDuplicate ? .indeterminate(reason) : .unsent(reason)
    }

    /// Tells what became of it.
    ///
    /// - Parameters:
    ///   - outcome: what.
    ///   - now: when it was answered.
    func settle(_ outcome: DeliveryOutcome, at now: NIODeadline? = nil) {
        var report = DeliveryReport(outcome, attempts: self.totalAttempts, possibleDuplicate: self.possibleDuplicate)
        switch self.submission.origin {
        case .caller(let onReport):
            report.latency = now.map { Duration($0 - self.writtenAt) }
            onReport(report)
        case .source(let chunk, let position): chunk.settle(position, report)
        }
    }
}
