// SPDX-License-Identifier: Apache-2.0

import NIOConcurrencyHelpers
import NIOCore

/// Where a worker lives, for other threads.
final class HTTP2WorkerHandle: Sendable {
    private let eventLoop: any EventLoop
    private let worker: NIOLoopBoundBox<HTTP2ConnectionWorker?>

    init(index: Int, shared: HTTP2ConnectionWorker.Shared, eventLoop: any EventLoop) {
        self.eventLoop = eventLoop
        let box = NIOLoopBoundBox<HTTP2ConnectionWorker?>.makeEmptyBox(
            valueType: HTTP2ConnectionWorker.self,
            eventLoop: eventLoop
        )
        self.worker = box
        eventLoop.execute {
            let worker = HTTP2ConnectionWorker(index: index, shared: shared, eventLoop: eventLoop)
            box.value = worker
            worker.begin()
        }
    }

    /// There is something to send.
    func wake() {
        self.eventLoop.execute { self.worker.value?.wake() }
    }

    /// Closes the worker's connections, which settles what was written there.
    func close() async {
        let closed = self.eventLoop.flatSubmit {
            self.worker.value?.close() ?? self.eventLoop.makeSucceededVoidFuture()
        }
        try? await closed.get()
        // Not earlier: its connections know it weakly.
        try? await self.eventLoop.submit { self.worker.value = nil }.get()
    }
}
