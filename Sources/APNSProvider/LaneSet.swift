// SPDX-License-Identifier: Apache-2.0

import NIOConcurrencyHelpers
import NIOCore

/// The lanes of one run, reachable from any thread.
final class LaneSet: Sendable {
    /// Where a lane lives, and where it says how it ended.
    struct Seat: Sendable {
        var eventLoop: any EventLoop
        var finished: EventLoopPromise<LaneEnding>
    }

    let seats: [Seat]
    private let lanes = NIOLockedValueBox<[NIOLoopBound<Lane>]>([])

    init(_ seats: [Seat]) { self.seats = seats }

    /// Takes a lane; called on its event loop.
    func enter(_ lane: Lane, _ seat: Seat) {
        self.lanes.withLockedValue { $0.append(NIOLoopBound(lane, eventLoop: seat.eventLoop)) }
    }

    /// Does something with each lane, on its event loop; with lanes that come later as well, since each is entered
    /// before it begins.
    func forEachLane(_ body: @escaping @Sendable (Lane) -> Void) {
        for seat in self.seats {
            seat.eventLoop.execute {
                let lanes = self.lanes.withLockedValue { $0 }
                for lane in lanes where lane.value.eventLoop === seat.eventLoop { body(lane.value) }
            }
        }
    }
}
