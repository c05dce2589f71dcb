// SPDX-License-Identifier: Apache-2.0

import Glibc
import Synchronization

/// Takes note of the signals that ask this program to stop, so that it can stop what it started first.
enum StopSignals {
    private static let counter = Atomic<Int>(0)
    private static let latest = Atomic<CInt>(0)

    /// How many came.
    static var count: Int { self.counter.load(ordering: .acquiring) }
    /// The last that came; 0 where none did.
    static var last: CInt { self.latest.load(ordering: .acquiring) }

    /// From now on, such a signal is counted and does nothing else; one that is ignored already stays so.
    static func trap() {
        // Made here, since a handler may not.
        _ = (self.count, self.last)
        for number in [SIGINT, SIGTERM, SIGHUP] {
            var (before, action) = (sigaction(), sigaction())
            sigaction(number, nil, &before)
            if unsafeBitCast(before.__sigaction_handler.sa_handler, to: Int.self) == 1 { continue }
            action.__sigaction_handler = .init(sa_handler: { number in
                StopSignals.latest.store(number, ordering: .releasing)
                StopSignals.counter.add(1, ordering: .releasing)
            })
            action.sa_flags = SA_RESTART
            sigaction(number, &action, nil)
        }
    }
}
