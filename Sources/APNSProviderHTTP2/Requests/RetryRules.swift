// SPDX-License-Identifier: Apache-2.0

public import APNSSession

/// How long, and how often, it is tried to deliver a notification; by default as a gateway does it.
public struct RetryRules: Hashable, Sendable {
    /// How long after the first attempt others may begin; by default 60 seconds.
    public var budget = Duration.seconds(60)

    /// How long to wait before a further attempt; by default half a second, doubled with each, up to 15 seconds.
    public var backoff = Backoff(first: .milliseconds(500), max: .seconds(15))

    /// Whether a notification that is not to be kept (expiry 0) is tried no more where it is unknown if the service
    /// has it; by default it is tried again, and may arrive twice.
    ///
    /// The provider of a gateway is then told nothing, and its connection closes, so that it decides about another
    /// attempt.
    public var givesUpUnknownUnkept = false

    /// How often the service may put it off.
    var failureCountMax = Int.max

    /// Whether a header that the service does not like is left out.
    var omitsHeaders = true

    /// Whether it goes out again at once where another connection, or another provider token, may help; not where a
    /// connection worker has seen to that.
    var resendsAtOnce = true

    /// On how many streams a connection worker writes it at most, before it is put off, where none gets an answer.
    var attemptCountMax = 1

    /// Whether a connection worker writes it again where it is unknown if the service has it.
    var resendsUnknown = false

    /// The defaults.
    public init() {}

    /// What a client does by itself, and, where the service may put notifications off, a batch.
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
