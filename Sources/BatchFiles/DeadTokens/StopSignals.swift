// SPDX-License-Identifier: Apache-2.0

import NIOConcurrencyHelpers

/// Counts the signals that ask this program to stop, so that it can shut down in order.
package final class StopSignals: Sendable {
    private struct State: Sendable {
        var count = 0
        var last: CInt = 0
        var onSignal: @Sendable () -> Void = {}
    }

    private let state = NIOLockedValueBox(State())

    /// The number of signals received.
    package var count: Int { self.state.withLockedValue(\.count) }
    /// The last signal received; 0 if there was none.
    var last: CInt { self.state.withLockedValue(\.last) }

    /// Creates a counter with no signals.
    package init() {}

    /// Records a signal.
    package func receive(_ signal: CInt) {
        let onSignal = self.state.withLockedValue { state in
            state.count += 1
            state.last = signal
            return state.onSignal
        }
        onSignal()
    }

    /// Sets what to do when a signal is received; it replaces the previous action.
    func setHandler(_ body: @escaping @Sendable () -> Void) { self.state.withLockedValue { $0.onSignal = body } }
}
