// SPDX-License-Identifier: Apache-2.0

import APNSWire
import APNSProviderHTTP2
import Glibc
import Logging
import NIOConcurrencyHelpers

/// The state of the service that outlives a client and a configuration.
final class UpstreamHealth: Sendable {
    private struct State {
        /// One source per key of any configuration, since the service refuses a second token of a key for 20 minutes.
        var tokens: [ProviderTokenSource] = []
        /// Whether the service has answered, by the name of the provider; absent before the first attempt.
        var hasAnswered: [String: Bool] = [:]
        /// The failures since the last answer, by the name of the provider.
        var outages: [String: Outage] = [:]

        /// The outage of a provider, unless another connection may still answer.
        func outage(_ provider: String, now: Int64) -> Outage? {
            guard let outage = self.outages[provider] else { return nil }
            let isOver = now - outage.start >= UpstreamHealth.responseTimeout
            return self.hasAnswered[provider] == true && !isOver ? nil : outage
        }
    }

    /// How long after a failure an answer on another connection may take, in seconds, if the service answered before.
    ///
    /// Otherwise a connection that fails again and again would count as an outage until the next answer on another one.
    private static let responseTimeout: Int64 = 3

    /// A time in which the service cannot be reached.
    struct Outage: Hashable, Sendable {
        /// When the first attempt failed, in seconds since 1970 (UTC).
        var start: Int64
        /// When the last attempt failed.
        var lastFailure: Int64
        /// Why the last attempt failed.
        var reason: String

        /// The outage in one line.
        var text: String { "upstream unreachable since \(TimeText(seconds: self.start).text): \(self.reason)" }
    }

    private let state = NIOLockedValueBox(State())
    private let logger: Logger
    private let now: @Sendable () -> Int64

    init(logger: Logger, now: @escaping @Sendable () -> Int64 = { Int64(time(nil)) }) {
        self.logger = logger
        self.now = now
    }

    /// Returns the source that already signs with the same key; otherwise registers this one.
    func shared(_ source: ProviderTokenSource) -> ProviderTokenSource {
        self.state.withLockedValue { state in
            if let present = state.tokens.first(where: { $0.key == source.key }) { return present }
            state.tokens.append(source)
            return source
        }
    }

    /// Records and logs a failure to reach the service for a provider.
    func failed(_ provider: String, _ text: String) {
        let now = self.now()
        self.state.withLockedValue { state in
            state.hasAnswered[provider] = state.hasAnswered[provider] ?? false
            let start = state.outages[provider]?.start ?? now
            state.outages[provider] = Outage(start: start, lastFailure: now, reason: text)
        }
        self.logger.warning(
            "upstream unreachable, retrying",
            metadata: [LogKey.provider: "\(provider)", LogKey.failure: "\(text)"]
        )
    }

    /// Records that the service responded.
    func answered(_ provider: String) {
        let wasFailing = self.state.withLockedValue { state in
            state.hasAnswered[provider] = true
            return state.outages.removeValue(forKey: provider) != nil
        }
        if wasFailing { self.logger.notice("upstream reachable again", metadata: [LogKey.provider: "\(provider)"]) }
    }

    /// Whether the service is reached for a provider; `nil` before the first attempt.
    func isReached(_ provider: String) -> Bool? {
        let now = self.now()
        return self.state.withLockedValue { state in
            state.hasAnswered[provider].map { $0 && state.outage(provider, now: now) == nil }
        }
    }

    /// Since when the service is unreachable for a provider; `nil` if it is not, or before the first attempt.
    func outage(_ provider: String) -> Outage? {
        let now = self.now()
        return self.state.withLockedValue { $0.outage(provider, now: now) }
    }

    /// How long a failure counts after the last attempt, in seconds: attempts are less than this apart.
    private static let outageDuration: Int64 = 120

    /// The outage while attempts go on.
    ///
    /// Without notifications there is no attempt. If the outage still counted then, a load balancer that sends nothing
    /// to this gateway would never learn that it has ended.
    func currentOutage(_ provider: String) -> Outage? {
        self.outage(provider).flatMap { self.now() - $0.lastFailure <= Self.outageDuration ? $0 : nil }
    }
}
