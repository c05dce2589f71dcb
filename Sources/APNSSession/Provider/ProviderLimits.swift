// SPDX-License-Identifier: Apache-2.0

/// What to do with notifications that were written to a connection that died without a word.
@frozen
public enum DeliveryPolicy: String, CaseIterable, Hashable, Sendable, Codable {
    /// Send them again, flagged as possible duplicates: nothing is lost.
    case atLeastOnce = "at-least-once"
    /// Report them as indeterminate: nothing is doubled.
    case atMostOnce = "at-most-once"
}

/// What a session does where sending seems to be of no use.
@frozen
public enum ProviderLife: Hashable, Sendable {
    /// It stops, so that someone looks after it.
    case batch
    /// It goes on, for as long as it takes.
    ///
    /// It connects again after the pauses of ``ProviderLimits/backoff``. What was taken and has been without a
    /// connection for ``ProviderLimits/outageDurationMax`` gets its outcome. After
    /// ``ProviderLimits/invalidTokenRunCountMax`` invalid tokens in a row it writes one notification a checkpoint,
    /// until one is accepted.
    case service
}

/// The numbers by which a provider session decides.
///
/// Every one may be changed; the defaults suit a batch sender, and ``service`` a client that runs for months.
public struct ProviderLimits: Hashable, Sendable {
    /// What to do with notifications whose fate is unknown; at least once by default.
    public var policy = DeliveryPolicy.atLeastOnce

    /// How many notifications may be written without proof of what became of them; 1 to 2^31, by default 100,000.
    ///
    /// When so many are, the session makes a checkpoint. More make checkpoints rarer, and more to send again after a
    /// rejection.
    public var windowCount: UInt64 = 100_000

    /// Whether the frames carry no identifiers (command 0), so that a silent close is how the gateway rejects.
    public var hasNoIdentifiers = false

    /// The shortest time between two checkpoints; 10 ms by default.
    public var checkpointIntervalMin: Duration = .milliseconds(10)

    /// How long after the first unproved notification was written a checkpoint is made where there is nothing to write
    /// or, for a service, also where there is; 1 s by default, 100 ms for a service.
    public var proofDelay: Duration = .seconds(1)

    /// The shortest time between two checkpoints made because of ``proofDelay``, in the long run; 60 s by default, 1 s
    /// for a service, so that a trickle of notifications does not become a storm of connections.
    public var proofIntervalMin: Duration = .seconds(60)

    /// How many such checkpoints may be made without that time between them, after a time without any; 1 by default,
    /// 10 for a service.
    public var proofBurstCount = 1

    /// How long to wait for the answer to a probe, and for the end of a connection that is given up; 60 s by default.
    ///
    /// Running out proves nothing: the connection is then treated as dead without a word.
    public var answerDelayMax: Duration = .seconds(60)

    /// How often a notification is sent again after status 1 (processing error); 3 by default.
    public var processingErrorRetryCountMax = 3

    /// On how many connections a notification may die alone and without a word before it is given up as
    /// indeterminate; 3 by default.
    public var silentAttemptCountMax = 3

    /// How many connections in a row may prove nothing before the session stops; 12 by default.
    public var fruitlessConnectionCountMax = 12

    /// How many of the first connections may be closed without a word before the session stops and suspects the
    /// environment or the certificate; 5 by default.
    public var refusedConnectionCountMax = 5

    /// How many rejections with status 8 may follow one another, with nothing accepted between them, before the
    /// session stops; 50 by default, 0 for no limit.
    public var invalidTokenRunCountMax = 50

    /// The delays before connecting again after failures in a row, the first of which costs none; 100 ms to 30 s by
    /// default, to 10 s for a service.
    public var backoff = Backoff(first: .milliseconds(100), max: .seconds(30))

    /// What to do where sending seems to be of no use; by default to stop, as suits a batch.
    public var life = ProviderLife.batch

    /// How long a service keeps, without a connection, what it has taken and cannot prove; 30 s by default.
    public var outageDurationMax: Duration = .seconds(30)

    /// The defaults of a batch.
    public init() {}

    /// The defaults of a client that runs for months: it outlasts outages, and proves within 100 ms.
    public static var service: ProviderLimits {
        var limits = ProviderLimits()
        limits.life = .service
        limits.proofDelay = .milliseconds(100)
        limits.proofIntervalMin = .seconds(1)
        limits.proofBurstCount = 10
        // What is sent when an outage is over is to be accepted: there is a try within a third of the time that it may
        // wait in a client.
        limits.backoff.max = .seconds(10)
        return limits
    }
}
