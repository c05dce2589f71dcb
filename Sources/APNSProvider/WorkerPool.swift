// SPDX-License-Identifier: Apache-2.0

import NIOConcurrencyHelpers
import NIOCore

/// The workers of one run, reachable from any thread.
final class WorkerPool: Sendable {
    /// Where a worker lives, and where it says how it ended.
    struct WorkerHandle: Sendable {
        var index: Int
        var eventLoop: any EventLoop
        var finished: EventLoopPromise<WorkerEnding>
    }

    let handles: [WorkerHandle]
    private let workers = NIOLockedValueBox<[Int: NIOLoopBound<ConnectionWorker>]>([:])

    init(_ handles: [WorkerHandle]) { self.handles = handles }

    /// Takes a worker; called on its event loop.
    func enter(_ worker: ConnectionWorker, _ handle: WorkerHandle) {
        let bound = NIOLoopBound(worker, eventLoop: handle.eventLoop)
        self.workers.withLockedValue { $0[handle.index] = bound }
    }

    /// Forgets the workers, which would otherwise live as long as a source that keeps its way to wake them.
    func clear() {
        let workers = self.workers.withLockedValue { workers in
            defer { workers = [:] }
            return workers
        }
        // They are let go outside the lock, because that calls out.
        withExtendedLifetime(workers) {}
    }

    /// Does something with each worker, on its event loop; with workers that come later as well, since each is entered
    /// before it begins.
    func forEachWorker(_ body: @escaping @Sendable (ConnectionWorker) -> Void) {
        for handle in self.handles {
            handle.eventLoop.execute {
                // A worker may only be looked at on its own event loop.
                guard let worker = self.workers.withLockedValue({ $0[handle.index] }) else { return }
                body(worker.value)
            }
        }
    }
}
