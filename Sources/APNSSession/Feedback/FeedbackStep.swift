// SPDX-License-Identifier: Apache-2.0

/// What the owner of a ``FeedbackReader`` has to do about an event.
@frozen
public enum FeedbackStep: Hashable, Sendable {
    /// Make the bytes that came durable, and say so with ``FeedbackReader/timePassed(now:)`` when this time has come.
    case spool(wakeAt: Duration)
    /// Make the bytes that came durable; nothing else.
    case spoolOnly
    /// Say ``FeedbackReader/timePassed(now:)`` when this time has come.
    case wait(wakeAt: Duration)
    /// Make durable all that came, then close; what still comes is spooled too.
    case close
    /// Make durable all that came, then close without close_notify, which the service could take for "I have it all".
    case abort
    /// All is said: nothing comes any more.
    case finish(FeedbackEnding)
    /// Nothing.
    case ignore
}
