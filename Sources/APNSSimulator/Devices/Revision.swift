// SPDX-License-Identifier: Apache-2.0

import Synchronization

/// Counts changes of devices and faults, which invalidates caches.
final class Revision: Sendable {
    private let number = Atomic<UInt64>(1)

    /// The number of changes; never 0.
    var current: UInt64 { self.number.load(ordering: .acquiring) }

    /// Counts a change; called before the change is acknowledged.
    func advance() { self.number.wrappingAdd(1, ordering: .acquiringAndReleasing) }
}
