// SPDX-License-Identifier: Apache-2.0

import NIOConcurrencyHelpers

/// Counts the requests to stop this program that come as signals, so that it can end in order first.
package final class StopSignals: Sendable {
    private struct State: Sendable {
        var count = 0
        var last: CInt = 0
        var firstTime: ContinuousClock.Instant?
        var onSignal: @Sendable () -> Void = {}
    }

    private let state = NIOLockedValueBox(State())

    /// Signals that come within this time after the first belong to it.
    ///
    /// `timeout`, for example, signals the program and then its process group, so that two come at once.
    package static let joinedDuration = Duration.milliseconds(500)

    /// The number of requests.
    package var count: Int { self.state.withLockedValue(\.count) }
    /// The signal of the last request; 0 if there was none.
    var last: CInt { self.state.withLockedValue(\.last) }

    /// Creates a counter at zero.
    package init() {}

    /// Counts a signal.
    ///
    /// Returns the number of requests including this one; `nil` if the signal belongs to the first one.
    @discardableResult
    package func receive(_ signal: CInt, at now: ContinuousClock.Instant = .now) -> Int? {
        let (count, onSignal) = self.state.withLockedValue { state -> (Int?, @Sendable () -> Void) in
            let firstTime = state.firstTime ?? now
            guard state.count == 0 || now - firstTime >= Self.joinedDuration else { return (nil, {}) }
            state.firstTime = firstTime
            state.count += 1
            state.last = signal
            return (state.count, state.onSignal)
        }
        onSignal()
        return count
    }

    /// Sets what is called at a request.
    func setHandler(_ body: @escaping @Sendable () -> Void) { self.state.withLockedValue { $0.onSignal = body } }
}
