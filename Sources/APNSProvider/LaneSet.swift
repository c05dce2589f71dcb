// SPDX-License-Identifier: Apache-2.0

import NIOConcurrencyHelpers
import NIOCore

/// The lanes of one run, reachable from any thread.
final class LaneSet: Sendable {
    /// Where a lane lives, and where it says how it ended.
    struct Seat: Sendable {
        var index: Int
        var eventLoop: any EventLoop
        var finished: EventLoopPromise<LaneEnding>
    }

    let seats: [Seat]
    private let lanes = NIOLockedValueBox<[Int: NIOLoopBound<Lane>]>([:])

    init(_ seats: [Seat]) { self.seats = seats }

    /// Takes a lane; called on its event loop.
    func enter(_ lane: Lane, _ seat: Seat) {
        let bound = NIOLoopBound(lane, eventLoop: seat.eventLoop)
        self.lanes.withLockedValue { $0[seat.index] = bound }
    }

    /// Forgets the lanes, which would otherwise live as long as a source that keeps its way to wake them.
    func clear() {
        let lanes = self.lanes.withLockedValue { lanes in
            defer { lanes = [:] }
            return lanes
        }
        // They are let go outside the lock, because that calls out.
        withExtendedLifetime(lanes) {}
    }

    /// Does something with each lane, on its event loop; with lanes that come later as well, since each is entered
    /// before it begins.
    func forEachLane(_ body: @escaping @Sendable (Lane) -> Void) {
        for seat in self.seats {
            seat.eventLoop.execute {
                // A lane may only be looked at on its own event loop.
                guard let lane = self.lanes.withLockedValue({ $0[seat.index] }) else { return }
                body(lane.value)
            }
        }
    }
}
