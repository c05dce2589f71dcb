// SPDX-License-Identifier: Apache-2.0

public import APNSSession

/// How long, and how often, a gateway tries to deliver a notification before it tells the provider of trouble.
public struct RetryRules: Hashable, Sendable {
    /// How long after the first try others may begin; by default 60 seconds.
    public var budget = Duration.seconds(60)

    /// How long to wait before a further try; by default half a second, doubled with each, up to 15 seconds.
    public var backoff = Backoff(first: .milliseconds(500), max: .seconds(15))

    /// Whether a notification that is not to be kept (expiry 0) is tried no more where it is unknown if the service
    /// has it; by default it is tried again, and may arrive twice.
    ///
    /// The provider is then told nothing, and its connection closes, so that it decides about another attempt.
    public var givesUpUnknownUnkept = false

    /// The defaults.
    public init() {}
}
