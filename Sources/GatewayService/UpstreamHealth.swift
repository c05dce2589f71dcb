// SPDX-License-Identifier: Apache-2.0

import APNSWire
import APNSProviderHTTP2
import Logging
import NIOConcurrencyHelpers

/// What a gateway knows of the service beyond one client, and beyond one configuration.
final class UpstreamHealth: Sendable {
    private struct State {
        /// One for each key that any configuration had: the service refuses a second token of a key for 20 minutes.
        var tokens: [ProviderTokenSource] = []
        /// Whether the service was reached at the last attempt, by the name of the provider; none before the first.
        var isReached: [String: Bool] = [:]
    }

    private let state = NIOLockedValueBox(State())
    private let logger: Logger

    init(logger: Logger) { self.logger = logger }

    /// The source that signs with the same key, which is this one where there is none yet.
    func shared(_ source: ProviderTokenSource) -> ProviderTokenSource {
        self.state.withLockedValue { state in
            if let present = state.tokens.first(where: { $0.key == source.key }) { return present }
            state.tokens.append(source)
            return source
        }
    }

    /// Notes, and logs, that the service was not reached for a provider.
    func failed(_ provider: String, _ text: String) {
        self.state.withLockedValue { $0.isReached[provider] = false }
        self.logger.warning(
            "upstream unreachable, retrying",
            metadata: [LogKey.provider: "\(provider)", LogKey.failure: "\(text)"]
        )
    }

    /// Notes that the service answers.
    func answered(_ provider: String) {
        let wasFailing = self.state.withLockedValue { $0.isReached.updateValue(true, forKey: provider) == false }
        if wasFailing { self.logger.notice("service answers again", metadata: [LogKey.provider: "\(provider)"]) }
    }

    /// Whether the last attempt to reach the service for a provider succeeded; `nil` before the first.
    func isReached(_ provider: String) -> Bool? { self.state.withLockedValue { $0.isReached[provider] } }
}
