// SPDX-License-Identifier: Apache-2.0

import Glibc
import Synchronization
import UnixSignals

/// Takes note of the signals that ask this program to stop, so that it can stop what it started first.
final class StopSignals: Sendable {
    private let counter = Atomic<Int>(0)
    private let latest = Atomic<CInt>(0)

    /// How many came.
    var count: Int { self.counter.load(ordering: .acquiring) }
    /// The last that came; 0 where none did.
    var last: CInt { self.latest.load(ordering: .acquiring) }

    /// Those that do not stop this program anyway; one that is ignored, as under `nohup`, stays so.
    static var kinds: [UnixSignal] {
        [UnixSignal.sigint, .sigterm, .sighup].filter { signal in
            var action = sigaction()
            sigaction(signal.rawValue, nil, &action)
            return unsafeBitCast(action.__sigaction_handler.sa_handler, to: Int.self) != 1
        }
    }

    /// Counts signals until the task is cancelled.
    func count(_ signals: AsyncStream<UnixSignal>?) async {
        guard let signals else { return }
        for await signal in signals {
            self.latest.store(signal.rawValue, ordering: .releasing)
            self.counter.add(1, ordering: .releasing)
        }
    }
}
