// SPDX-License-Identifier: Apache-2.0

import Synchronization

/// Takes note of the signals that ask this program to stop, so that it can stop what it started first.
package final class StopSignals: Sendable {
    private let counter = Atomic<Int>(0)
    private let latest = Atomic<CInt>(0)

    /// How many came.
    var count: Int { self.counter.load(ordering: .acquiring) }
    /// The last that came; 0 where none did.
    var last: CInt { self.latest.load(ordering: .acquiring) }

    /// Makes one of which none came.
    package init() {}

    /// Takes note of a signal.
    package func note(_ signal: CInt) {
        self.latest.store(signal, ordering: .releasing)
        self.counter.add(1, ordering: .releasing)
    }
}
