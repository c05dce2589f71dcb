// SPDX-License-Identifier: Apache-2.0

package import APNSSession
package import APNSWire
import NIOConcurrencyHelpers

/// What a queue keeps notifications in.
package protocol QueueStorage: ~Copyable, Sendable {
    /// Whether there is memory for another one.
    var hasRoom: Bool { get }

    /// Whether so few wait that those may go on who were told that there is no room.
    var isLow: Bool { get }
}

/// Notifications that wait for a connection: put in from any thread, or taken from a source, and shared by all workers.
///
/// ``QueueStateMachine`` decides; this has the lock, and calls those who wait once it has let go of it. What
/// notifications are kept in is the transport's.
///
/// Safe to share: its state is used under the lock alone.
package final class NotificationQueue<Storage: QueueStorage & ~Copyable>: @unchecked Sendable {
    /// What the lock guards.
    package struct State: ~Copyable {
        /// Decides.
        package var machine: QueueStateMachine
        /// What waits.
        package var storage: Storage
    }

    let lock = NIOLock()
    var state: State

    /// Makes a queue.
    ///
    /// - Parameters:
    ///   - machine: its decisions.
    ///   - storage: what it keeps notifications in.
    package init(_ machine: QueueStateMachine, _ storage: consuming Storage) {
        self.state = State(machine: machine, storage: storage)
    }

    /// Lends the state.
    package func withState<Value: ~Copyable>(_ body: (inout State) -> Value) -> Value {
        self.lock.lock()
        defer { self.lock.unlock() }
        return body(&self.state)
    }

    /// Lends the state, and calls outside the lock what is returned.
    package func callOut(_ body: (inout State) -> [QueueStateMachine.Callback]) {
        for callback in self.withState(body) { callback() }
    }

    /// Puts one in, if there is room.
    ///
    /// - Parameter append: keeps it under its number; says whether there was memory for it.
    /// - Returns: what became of that.
    package func put(_ append: (inout Storage, _ number: UInt64) -> Bool) -> SubmissionReceipt {
        let (receipt, wake) = self.withState { state -> (SubmissionReceipt, QueueStateMachine.Callback?) in
            guard state.machine.mayPut else { return (state.machine.refusal, nil) }
            guard append(&state.storage, state.machine.nextNumber) else { return (.full, nil) }
            let (number, wake) = state.machine.put()
            return (.taken(number), wake)
        }
        wake?()
        return receipt
    }

    /// Whether there is room, and something would be sent.
    package var hasRoom: Bool { self.withState { $0.machine.hasRoom && $0.storage.hasRoom } }

    /// Calls back once, from any thread, when there is room, or nothing is taken any more.
    package func whenRoom(_ callback: @escaping QueueStateMachine.Callback) {
        let isKept = self.withState { state in
            let waiter = state.machine.newWaiter()
            return state.machine.awaitRoom(waiter, hasMemory: state.storage.hasRoom, callback)
        }
        if !isKept { callback() }
    }

    /// Waits until there may be room, nothing is taken any more, or the task is cancelled.
    package func waitForRoom() async {
        await self.wait { state, waiter, callback in
            state.machine.awaitRoom(waiter, hasMemory: state.storage.hasRoom, callback)
        }
    }

    /// Waits until everything has its outcome and nothing more comes, or the task is cancelled.
    ///
    /// - Returns: why nothing more comes; `nil` where the task is cancelled.
    package func waitForEnd() async -> DeliveryOutcome.Reason? {
        await self.wait { state, waiter, callback in state.machine.awaitEnd(waiter, callback) }
        return self.withState { $0.machine.isOver ? $0.machine.reason ?? .stopped : nil }
    }

    /// Waits until a callback is called, or the task is cancelled.
    ///
    /// - Parameter keep: keeps the callback; says whether it is to be waited for.
    private func wait(
        _ keep: (inout State, _ waiter: UInt64, _ callback: @escaping QueueStateMachine.Callback) -> Bool
    ) async {
        let waiter = self.withState { $0.machine.newWaiter() }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isKept = self.withState { state in
                    guard !Task.isCancelled else { return false }
                    return keep(&state, waiter) { continuation.resume() }
                }
                if !isKept { continuation.resume() }
            }
        } onCancel: {
            self.withState { $0.machine.removeWaiter(waiter) }?()
        }
    }

    /// Nothing more is put in; the workers end when everything that is in has its outcome.
    package func finish() { self.callOut { $0.machine.finish() } }

    /// Counts outcomes.
    package func settled(_ count: Int) {
        guard count > 0 else { return }
        self.callOut { $0.machine.settled(count, hasMemory: $0.storage.isLow) }
    }
}
