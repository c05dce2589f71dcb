// SPDX-License-Identifier: Apache-2.0

import APNSWire
import NIOCore

/// A request as it was handed in.
final class Submission: Sendable {
    let request: PushRequest
    let deadline: NIODeadline
    let onReport: @Sendable (PushReport) -> Void

    init(_ request: PushRequest, deadline: NIODeadline, onReport: @escaping @Sendable (PushReport) -> Void) {
        self.request = request
        self.deadline = deadline
        self.onReport = onReport
    }
}

/// A request on its way, with what was tried so far.
struct PendingPush: Sendable {
    let submission: Submission
    /// On how many streams it was written.
    var attempts = 0
    var possibleDuplicate = false
    /// When it was written the last time.
    var writtenAt = NIODeadline.uptimeNanoseconds(0)
    /// The time of the provider token that it was written with.
    var tokenIssuedAt: Int64?
    /// Whether it was sent again because of its provider token, which is done once.
    var hasNewToken = false

    init(_ submission: Submission) { self.submission = submission }

    /// Tells what became of it.
    func settle(_ outcome: DeliveryOutcome, at now: NIODeadline? = nil) {
        let latency = now.map { Duration.nanoseconds(($0 - self.writtenAt).nanoseconds) }
        self.submission.onReport(
            PushReport(
                identifier: self.submission.request.identifier,
                outcome: outcome,
                attempts: self.attempts,
                possibleDuplicate: self.possibleDuplicate,
                latency: latency
            )
        )
    }
}
