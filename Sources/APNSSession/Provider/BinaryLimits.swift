// SPDX-License-Identifier: Apache-2.0

/// How to handle notifications that were written to a connection that ended without an answer.
@frozen
public enum DeliveryPolicy: String, CaseIterable, Hashable, Sendable, Codable {
    /// Send them again, flagged as possible duplicates: nothing is lost.
    case atLeastOnce = "at-least-once"
    /// Report them as indeterminate: nothing is duplicated.
    case atMostOnce = "at-most-once"
}

/// How a session handles repeated failures.
@frozen
public enum ProviderLife: Hashable, Sendable {
    /// It stops, so that an operator can look into it.
    case batch
    /// It continues indefinitely.
    ///
    /// It reconnects after the delays of ``BinaryLimits/backoff``. Notifications that have been without a connection
    /// for ``BinaryLimits/outageTimeout`` get their outcome. After ``BinaryLimits/invalidTokenRunCountMax``
    /// consecutive invalid tokens it writes one notification per checkpoint, until one is accepted.
    case service
}

/// The limits of a provider session.
///
/// All of them can be changed; the defaults suit a batch sender, and ``service`` a long-running client.
public struct BinaryLimits: Hashable, Sendable {
    /// How to handle notifications whose outcome is unknown; at least once by default.
    public var policy = DeliveryPolicy.atLeastOnce

    /// The maximum number of notifications that are written but not verified; 1 to 2^31, by default 100,000.
    ///
    /// At this number, the session makes a checkpoint. A larger window means fewer checkpoints, but more to send again
    /// after a rejection.
    public var windowCount: UInt64 = 100_000

    /// Whether the frames have no identifiers (command 0), so that the gateway rejects by closing without an answer.
    public var hasNoIdentifiers = false

    /// The minimum time between two checkpoints; 10 ms by default.
    public var checkpointIntervalMin: Duration = .milliseconds(10)

    /// The time after the first unverified notification was written until a checkpoint, if there is nothing to write
    /// or, for a service, even if there is; 1 s by default, 100 ms for a service.
    public var verificationDelay: Duration = .seconds(1)

    /// The minimum time between two checkpoints due to ``verificationDelay``, on average; 60 s by default, 1 s for a
    /// service, so that occasional notifications do not cause a connection storm.
    public var verificationIntervalMin: Duration = .seconds(60)

    /// The maximum number of such checkpoints without that interval, after an idle time; 1 by default, 10 for a
    /// service.
    ///
    /// The same number applies to ``verificationPause``.
    public var verificationBurstCount = 1

    /// How long there is nothing new to write until a checkpoint, without waiting for ``verificationDelay``; `nil`, the
    /// default, for no such checkpoint, 20 ms for a service.
    ///
    /// So a caller that sends one notification after the other gets each outcome soon. While notifications arrive at
    /// shorter intervals, this has no effect.
    public var verificationPause: Duration?

    /// The minimum time between two checkpoints due to ``verificationPause``, on average; 80 ms by default.
    public var verificationPauseIntervalMin: Duration = .milliseconds(80)

    /// The maximum time to wait for the answer to a probe, and for the end of an abandoned connection; 60 s by default.
    ///
    /// A timeout verifies nothing: the connection counts as ended without an answer.
    public var responseTimeout: Duration = .seconds(60)

    /// The number of times that a notification is sent again after status 1 (processing error); 3 by default.
    public var processingErrorRetryCountMax = 3

    /// The number of connections that may end without an answer after writing only this notification, before it is
    /// reported as indeterminate; 3 by default.
    public var silentAttemptCountMax = 3

    /// The number of consecutive connections that may verify nothing before the session stops; 12 by default.
    public var fruitlessConnectionCountMax = 12

    /// How many of the first connections may be closed without an answer before the session stops, because the
    /// environment or the certificate may be wrong; 5 by default.
    public var refusedConnectionCountMax = 5

    /// The maximum number of consecutive rejections with status 8, without an accepted notification between them,
    /// before the session stops; 50 by default, 0 for no limit.
    public var invalidTokenRunCountMax = 50

    /// The delays before reconnecting after consecutive failures, with no delay after the first; 100 ms to 30 s by
    /// default, to 10 s for a service.
    public var backoff = Backoff(first: .milliseconds(100), max: .seconds(30))

    /// How to handle repeated failures; by default the session stops, as suits a batch.
    public var life = ProviderLife.batch

    /// How long a service without a connection keeps notifications that it cannot verify; 30 s by default.
    public var outageTimeout: Duration = .seconds(30)

    /// The defaults of a batch.
    public init() {}

    /// The defaults of a long-running client: it survives outages, and verifies within 100 ms.
    ///
    /// If nothing follows for 20 ms, it verifies then.
    public static var service: BinaryLimits {
        var limits = BinaryLimits()
        limits.life = .service
        limits.verificationDelay = .milliseconds(100)
        limits.verificationIntervalMin = .seconds(1)
        limits.verificationBurstCount = 10
        limits.verificationPause = .milliseconds(20)
        // Notifications sent at the end of an outage should be accepted, so there is an attempt within a third of the
        // time that they may wait in a client.
        limits.backoff.max = .seconds(10)
        return limits
    }
}
