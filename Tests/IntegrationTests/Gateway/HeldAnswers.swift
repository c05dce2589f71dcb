// SPDX-License-Identifier: Apache-2.0

import APNSServer
import NIOConcurrencyHelpers

/// Answers of the service that a test keeps back until it gives them all.
final class HeldAnswers: Sendable {
    private struct State {
        /// `nil` when they were given.
        var tickets: [(number: UInt32, ticket: PushTicket)]? = []
    }

    private let state = NIOLockedValueBox(State())

    /// A service that accepts what it is asked for, not before it is told to.
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

    /// Gives all answers, also those to come.
    func give(on upstream: GatewayUpstream) {
        let tickets = self.state.withLockedValue { state in
            defer { state.tickets = nil }
            return state.tickets ?? []
        }
        for (number, ticket) in tickets { upstream.accept(number, ticket) }
    }
}
