// SPDX-License-Identifier: Apache-2.0

import NIOConcurrencyHelpers

/// The lines of a batch that are on their way over HTTP/2: how many are out, and which are to be sent again later.
final class RetryQueue: Sendable {
    private struct State {
        var outCount = 0
        var waiting: [(due: ContinuousClock.Instant, sendAttempt: SendAttempt)] = []
    }

    private let state = NIOLockedValueBox(State())

    /// No further lines are read while so many wait; those that are out may come on top.
    static let waitingCountMax = 256

    /// Whether further lines may be read.
    var hasRoom: Bool { self.state.withLockedValue { $0.waiting.count < Self.waitingCountMax } }

    /// Whether nothing is out and nothing waits.
    var isIdle: Bool { self.state.withLockedValue { $0.outCount == 0 && $0.waiting.isEmpty } }

    /// A line goes out.
    func goOut() { self.state.withLockedValue { $0.outCount += 1 } }

    /// A line that was out has its outcome.
    func settled() { self.state.withLockedValue { $0.outCount -= 1 } }

    /// A line that was out is to be sent again.
    func put(_ sendAttempt: SendAttempt, until due: ContinuousClock.Instant) {
        self.state.withLockedValue { state in
            state.outCount -= 1
            state.waiting.append((due, sendAttempt))
        }
    }

    /// Takes what is due, in the order in which it was put.
    func take(at now: ContinuousClock.Instant) -> [SendAttempt] {
        self.state.withLockedValue { state in
            guard !state.waiting.isEmpty else { return [] }
            let sendAttempts = state.waiting.filter { $0.due <= now }.map(\.sendAttempt)
            state.waiting.removeAll { $0.due <= now }
            return sendAttempts
        }
    }

    /// Takes everything.
    func takeAll() -> [SendAttempt] {
        self.state.withLockedValue { state in
            defer { state.waiting = [] }
            return state.waiting.map(\.sendAttempt)
        }
    }
}
