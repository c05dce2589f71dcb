// SPDX-License-Identifier: Apache-2.0

/// What the caller of a ``FeedbackReader`` must do after an event.
@frozen
public enum FeedbackStep: Hashable, Sendable {
    /// Make the received bytes durable, and call ``FeedbackReader/timePassed(now:)`` at this time.
    case spool(wakeAt: Duration)
    /// Make the received bytes durable; nothing else.
    case spoolOnly
    /// Call ``FeedbackReader/timePassed(now:)`` at this time.
    case wait(wakeAt: Duration)
    /// Make all received bytes durable, then close; spool any further bytes, too.
    case close
    /// Make all received bytes durable, then close without close_notify, which the service could interpret as an
    /// acknowledgment of everything.
    case abort
    /// Reading has ended; nothing more arrives.
    case finish(FeedbackEnding)
    /// Nothing.
    case ignore
}
