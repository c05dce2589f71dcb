// SPDX-License-Identifier: Apache-2.0

import NIOConcurrencyHelpers
import NIOCore

/// Where a lane lives, for other threads.
final class PushSeat: Sendable {
    private let eventLoop: any EventLoop
    private let lane: NIOLoopBoundBox<PushLane?>

    init(index: Int, shared: PushLane.Shared, eventLoop: any EventLoop) {
        self.eventLoop = eventLoop
        let box = NIOLoopBoundBox<PushLane?>.makeEmptyBox(valueType: PushLane.self, eventLoop: eventLoop)
        self.lane = box
        eventLoop.execute {
            let lane = PushLane(index: index, shared: shared, eventLoop: eventLoop)
            box.value = lane
            lane.begin()
        }
    }

    /// There is something to send.
    func wake() {
        self.eventLoop.execute { self.lane.value?.wake() }
    }

    /// Closes the lane's connections, which settles what was written there.
    func close() async {
        let closed = self.eventLoop.flatSubmit {
            self.lane.value?.close() ?? self.eventLoop.makeSucceededVoidFuture()
        }
        try? await closed.get()
        // Not earlier: its connections know it weakly.
        try? await self.eventLoop.submit { self.lane.value = nil }.get()
    }
}
