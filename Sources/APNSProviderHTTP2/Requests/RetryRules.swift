// SPDX-License-Identifier: Apache-2.0

public import APNSSession

/// The limits and delays of attempts to deliver a notification; the defaults are those of a gateway.
public struct RetryRules: Hashable, Sendable {
    /// The time after the first attempt during which others may begin; by default 60 seconds.
    public var budget = Duration.seconds(60)

    /// The delay before a further attempt; by default half a second, doubled with each attempt, up to 15 seconds.
    public var backoff = Backoff(first: .milliseconds(500), max: .seconds(15))

    /// Whether to give up a notification that is not stored (expiry 0) if it is unknown whether the service processed
    /// it; by default it is sent again, and may arrive twice.
    ///
    /// If it is given up, the provider of a gateway gets no error response and its connection closes, so that it
    /// decides about another attempt.
    public var givesUpUnknownUnkept = false

    /// The maximum number of times that the service may postpone it.
    var failureCountMax = Int.max

    /// Whether to omit a header that the service rejects.
    var omitsHeaders = true

    /// Whether to send it again immediately if another connection, or another provider token, may help; not if a
    /// connection worker does that.
    var resendsAtOnce = true

    /// The maximum number of streams on which a connection worker writes it before it is postponed, if none gets an
    /// answer.
    var attemptCountMax = 1

    /// Whether a connection worker writes it again if it is unknown whether the service processed it.
    var resendsUnknown = false

    /// The defaults.
    public init() {}

    /// The rules of a client, and, if the service may postpone notifications, of a batch.
    init(_ configuration: PushConfiguration, tryCountMax: Int = 1) {
        self.budget = .seconds(Int64.max)
        self.backoff.first = configuration.backoff.first
        self.failureCountMax = tryCountMax
        self.omitsHeaders = false
        self.resendsAtOnce = false
        self.attemptCountMax = configuration.attemptCountMax
        self.resendsUnknown = configuration.resendsUnknown
    }
}
