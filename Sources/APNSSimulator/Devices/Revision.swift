// SPDX-License-Identifier: Apache-2.0

import Synchronization

/// Counts the changes of devices and faults, so that who remembers something of them can tell whether it still holds.
final class Revision: Sendable {
    private let number = Atomic<UInt64>(1)

    /// How many changes there were; never 0.
    var current: UInt64 { self.number.load(ordering: .acquiring) }

    /// Notes a change; called before whoever made it is told that it is done.
    func advance() { self.number.wrappingAdd(1, ordering: .acquiringAndReleasing) }
}
