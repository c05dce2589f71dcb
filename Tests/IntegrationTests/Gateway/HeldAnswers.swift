// SPDX-License-Identifier: Apache-2.0

import APNSServer
import NIOConcurrencyHelpers

/// Responses of the service that a test holds until it releases them all.
final class HeldAnswers: Sendable {
    private struct State {
        /// `nil` after the release.
        var tickets: [(number: UInt32, ticket: PushTicket)]? = []
    }

    private let state = NIOLockedValueBox(State())

    /// A service that accepts requests, but responds only after the release.
    func upstream() -> GatewayUpstream {
        GatewayUpstream { number, request in
            let ticket = request.ticket
            return self.state.withLockedValue { state in
                guard state.tickets != nil else { return .accepted }
                state.tickets?.append((number, ticket))
                return nil
            }
        }
    }

    /// Sends all held responses, and does not hold later ones.
    func give(on upstream: GatewayUpstream) {
        let tickets = self.state.withLockedValue { state in
            defer { state.tickets = nil }
            return state.tickets ?? []
        }
        for (number, ticket) in tickets { upstream.accept(number, ticket) }
    }
}
