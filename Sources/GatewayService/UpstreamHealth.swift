// SPDX-License-Identifier: Apache-2.0

import APNSWire
import APNSProviderHTTP2
import Logging
import NIOConcurrencyHelpers

/// The state of the service that outlives a client and a configuration.
final class UpstreamHealth: Sendable {
    private struct State {
        /// One source per key of any configuration, since the service refuses a second token of a key for 20 minutes.
        var tokens: [ProviderTokenSource] = []
        /// Whether the last attempt reached the service, by the name of the provider; absent before the first attempt.
        var isReached: [String: Bool] = [:]
    }

    private let state = NIOLockedValueBox(State())
    private let logger: Logger

    init(logger: Logger) { self.logger = logger }

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
        self.state.withLockedValue { $0.isReached[provider] = false }
        self.logger.warning(
            "upstream unreachable, retrying",
            metadata: [LogKey.provider: "\(provider)", LogKey.failure: "\(text)"]
        )
    }

    /// Records that the service responded.
    func answered(_ provider: String) {
        let wasFailing = self.state.withLockedValue { $0.isReached.updateValue(true, forKey: provider) == false }
        if wasFailing { self.logger.notice("upstream reachable again", metadata: [LogKey.provider: "\(provider)"]) }
    }

    /// Whether the last attempt to reach the service for a provider succeeded; `nil` before the first.
    func isReached(_ provider: String) -> Bool? { self.state.withLockedValue { $0.isReached[provider] } }
}
