// SPDX-License-Identifier: Apache-2.0

import APNSSession
import NIOConcurrencyHelpers
package import NIOCore

/// The workers of one run, accessible from any thread.
package final class WorkerPool: Sendable {
    /// The event loop of a worker, and the promise for its ending.
    private struct WorkerHandle: Sendable {
        var index: Int
        var eventLoop: any EventLoop
        var finished: EventLoopPromise<WorkerEnding>
    }

    private let handles: [WorkerHandle]
    private let workers = NIOLockedValueBox<[Int: NIOLoopBound<any ConnectionWorker>]>([:])

    /// Creates the workers, each on the next event loop of a group, and starts them.
    package init(count: Int, on group: any EventLoopGroup, _ makeWorker: @escaping WorkerFactory) {
        self.handles = (0..<count).map { index in
            let eventLoop = group.next()
            return WorkerHandle(index: index, eventLoop: eventLoop, finished: eventLoop.makePromise())
        }
        for handle in self.handles {
            handle.eventLoop.execute {
                let worker = makeWorker(handle.eventLoop, handle.finished)
                let bound = NIOLoopBound(worker, eventLoop: handle.eventLoop)
                self.workers.withLockedValue { $0[handle.index] = bound }
                worker.begin()
            }
        }
    }

    /// Wakes all workers.
    package func wake() {
        for handle in self.handles { self.withWorker(handle) { $0.wake() } }
    }

    /// Makes all workers verify what they have sent.
    package func checkpoint() {
        for handle in self.handles { self.withWorker(handle) { $0.checkpoint() } }
    }

    /// Stops all workers immediately.
    package func abandon() {
        for handle in self.handles { self.withWorker(handle) { $0.abandon() } }
    }

    /// Waits until all workers have ended; if the task is cancelled, they stop immediately.
    ///
    /// Returns the ending of each.
    package func endings() async -> [WorkerEnding] {
        for handle in self.handles {
            // A permanent failure of one worker stops the others, too. One that cannot connect does not: a gateway may
            // accept fewer connections than there are workers.
            handle.finished.futureResult.whenSuccess { ending in
                switch ending.ending {
                case .completed, .unavailable, .refused: break
                case .notPermitted, .tooManyInvalidTokens, .abandoned: self.abandon()
                }
            }
        }
        defer { self.clear() }
        return await withTaskCancellationHandler {
            var endings: [WorkerEnding] = []
            for handle in self.handles {
                // The futures never fail: each ending contains the failure.
                guard let ending = try? await handle.finished.futureResult.get() else { continue }
                endings.append(ending)
            }
            return endings
        } onCancel: {
            self.abandon()
        }
    }

    /// Releases the workers, which would otherwise live as long as a source that keeps its wake closure.
    private func clear() {
        let workers = self.workers.withLockedValue { workers in
            defer { workers = [:] }
            return workers
        }
        // They are released outside the lock, because deinitializers may call out.
        withExtendedLifetime(workers) {}
    }

    /// Runs a closure with a worker, on its event loop; if the worker is still being made, the closure runs afterwards.
    private func withWorker(_ handle: WorkerHandle, _ body: @escaping @Sendable (any ConnectionWorker) -> Void) {
        handle.eventLoop.execute {
            // A worker may be accessed only on its own event loop.
            guard let worker = self.workers.withLockedValue({ $0[handle.index] }) else { return }
            body(worker.value)
        }
    }
}
