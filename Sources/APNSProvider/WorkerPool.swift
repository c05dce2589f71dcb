// SPDX-License-Identifier: Apache-2.0

import APNSSession
import NIOConcurrencyHelpers
package import NIOCore

/// The workers of one run, reachable from any thread.
package final class WorkerPool: Sendable {
    /// Where a worker lives, and where it says how it ended.
    private struct WorkerHandle: Sendable {
        var index: Int
        var eventLoop: any EventLoop
        var finished: EventLoopPromise<WorkerEnding>
    }

    private let handles: [WorkerHandle]
    private let workers = NIOLockedValueBox<[Int: NIOLoopBound<any ConnectionWorker>]>([:])

    /// Makes the workers, each on the next event loop of a group, and lets them begin.
    ///
    /// - Parameters:
    ///   - count: how many.
    ///   - group: the threads that they work on.
    ///   - makeWorker: makes one of them.
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

    /// Lets all workers prove what they have taken.
    package func checkpoint() {
        for handle in self.handles { self.withWorker(handle) { $0.checkpoint() } }
    }

    /// Lets all workers stop at once.
    package func abandon() {
        for handle in self.handles { self.withWorker(handle) { $0.abandon() } }
    }

    /// Waits until all workers have ended; where the task is cancelled, they stop at once.
    ///
    /// - Returns: how each ended.
    package func endings() async -> [WorkerEnding] {
        for handle in self.handles {
            // What one was told for good stops the others, too. One that cannot connect says nothing about them: a
            // gateway may take fewer connections than there are workers.
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
                // None fails: each worker says in its ending what went wrong.
                guard let ending = try? await handle.finished.futureResult.get() else { continue }
                endings.append(ending)
            }
            return endings
        } onCancel: {
            self.abandon()
        }
    }

    /// Forgets the workers, which would otherwise live as long as a source that keeps its way to wake them.
    private func clear() {
        let workers = self.workers.withLockedValue { workers in
            defer { workers = [:] }
            return workers
        }
        // They are let go outside the lock, because that calls out.
        withExtendedLifetime(workers) {}
    }

    /// Does something with a worker, on its event loop; also with one that is still to be made, since that is done
    /// there before.
    private func withWorker(_ handle: WorkerHandle, _ body: @escaping @Sendable (any ConnectionWorker) -> Void) {
        handle.eventLoop.execute {
            // A worker may only be looked at on its own event loop.
            guard let worker = self.workers.withLockedValue({ $0[handle.index] }) else { return }
            body(worker.value)
        }
    }
}
