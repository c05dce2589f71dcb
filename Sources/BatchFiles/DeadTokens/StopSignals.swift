// SPDX-License-Identifier: Apache-2.0

import NIOConcurrencyHelpers

/// Counts the signals that ask this program to stop, so that it can end in order first.
package final class StopSignals: Sendable {
    private struct State: Sendable {
        var count = 0
        var last: CInt = 0
        var onSignal: @Sendable () -> Void = {}
    }

    private let state = NIOLockedValueBox(State())

    /// How many came.
    package var count: Int { self.state.withLockedValue(\.count) }
    /// The last that came; 0 where none did.
    var last: CInt { self.state.withLockedValue(\.last) }

    /// Makes one of which none came.
    package init() {}

    /// Takes note of a signal.
    package func note(_ signal: CInt) {
        let onSignal = self.state.withLockedValue { state in
            state.count += 1
            state.last = signal
            return state.onSignal
        }
        onSignal()
    }

    /// What to do when a signal comes, in place of what was to be done before.
    func whenNoted(_ body: @escaping @Sendable () -> Void) { self.state.withLockedValue { $0.onSignal = body } }
}
