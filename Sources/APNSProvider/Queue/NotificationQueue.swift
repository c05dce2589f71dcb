// SPDX-License-Identifier: Apache-2.0

package import APNSSession
package import APNSTransport
package import APNSWire
package import Logging
package import NIOConcurrencyHelpers

/// The storage for the notifications of a queue.
package protocol QueueStorage: ~Copyable, Sendable {
    /// Whether there is memory for another notification.
    var hasRoom: Bool { get }

    /// Whether few enough wait to wake those who wait for room.
    var isLow: Bool { get }
}

/// Notifications that wait for a connection: submitted on any thread, or taken from a source, and shared by all
/// workers.
///
/// ``QueueStateMachine`` makes the decisions; the queue holds the lock, and calls callbacks after it released the lock.
/// The transport provides the storage.
///
/// Safe to share: its state is accessed only under the lock.
package final class NotificationQueue<Storage: QueueStorage & ~Copyable>: @unchecked Sendable {
    /// The state that the lock protects.
    package struct State: ~Copyable {
        /// The decisions.
        package var machine: QueueStateMachine
        /// Why connections fail; `nil` if they work.
        package fileprivate(set) var outage: ConnectionFailure?
        /// The waiting notifications.
        package var storage: Storage
    }

    @usableFromInline let lock = NIOLock()
    @usableFromInline var state: State
    private let outages: OutageLog?

    /// Creates a queue.
    package init(_ machine: QueueStateMachine, _ storage: consuming Storage, _ outages: OutageLog?) {
        self.state = State(machine: machine, storage: storage)
        self.outages = outages
    }

    /// Calls a closure with the state.
    @inlinable
    package func withState<Value: ~Copyable>(_ body: (inout State) -> Value) -> Value {
        self.lock.lock()
        defer { self.lock.unlock() }
        return body(&self.state)
    }

    /// Calls a closure with the state, and the returned callbacks outside the lock.
    @inlinable
    package func callOut(_ body: (inout State) -> [QueueStateMachine.Callback]) {
        for callback in self.withState(body) { callback() }
    }

    /// Adds a notification, if there is room.
    @inlinable
    package func enqueue(_ append: (inout Storage, _ number: UInt64) -> Bool) -> SubmissionReceipt {
        let (receipt, wake) = self.withState { state -> (SubmissionReceipt, QueueStateMachine.Callback?) in
            guard state.machine.mayEnqueue else { return (state.machine.refusal, nil) }
            guard append(&state.storage, state.machine.nextNumber) else { return (.full, nil) }
            let (number, wake) = state.machine.enqueue()
            return (.submitted(number), wake)
        }
        wake?()
        return receipt
    }

    /// Why connections fail; `nil` if they work.
    package var outage: ConnectionFailure? { self.withState { $0.outage } }

    /// Whether there is room, and notifications are sent.
    @inlinable
    package var hasRoom: Bool { self.withState { $0.machine.hasRoom && $0.storage.hasRoom } }

    /// Calls back once, on any thread, when there is room or submissions have ended.
    package func whenRoom(_ callback: @escaping QueueStateMachine.Callback) {
        let isKept = self.withState { state in
            let waiter = state.machine.newWaiter()
            return state.machine.awaitRoom(waiter, hasMemory: state.storage.hasRoom, callback)
        }
        if !isKept { callback() }
    }

    /// Waits until there may be room, submissions have ended, or the task is cancelled.
    package func waitForRoom() async {
        await self.wait { state, waiter, callback in
            state.machine.awaitRoom(waiter, hasMemory: state.storage.hasRoom, callback)
        }
    }

    /// Waits until everything is settled and submissions have ended, or the task is cancelled.
    ///
    /// Returns why they ended; `nil` if the task is cancelled.
    package func waitForEnd() async -> DeliveryOutcome.Reason? {
        await self.wait { state, waiter, callback in state.machine.awaitEnd(waiter, callback) }
        return self.withState { $0.machine.isOver ? $0.machine.reason ?? .stopped : nil }
    }

    /// Waits until a callback is called, or the task is cancelled.
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

    /// Ends submissions; the workers end when everything is settled.
    package func finish() { self.callOut { $0.machine.finish() } }

    /// Records that connections fail, or work.
    package func connectionsChanged(_ failure: ConnectionFailure?) {
        let wasOutage = self.withState { state in
            defer { state.outage = failure }
            return state.outage != nil
        }
        if wasOutage != (failure != nil) { self.outages?.changed(failure) }
    }

    /// Records outcomes.
    @inlinable
    package func settled(_ count: Int) {
        guard count > 0 else { return }
        self.callOut { $0.machine.settled(count, hasMemory: $0.storage.isLow) }
    }
}

/// Logs that the connections of a client fail, and that they work again.
package struct OutageLog: Sendable {
    private let endpoint: Endpoint
    private let logger: Logger

    package init(_ endpoint: Endpoint, _ logger: Logger) {
        self.endpoint = endpoint
        self.logger = logger
    }

    /// Logs a change.
    func changed(_ failure: ConnectionFailure?) {
        var metadata: Logger.Metadata = [LogKey.endpoint: "\(self.endpoint)"]
        if let failure {
            metadata[LogKey.failure] = "\(failure)"
            self.logger.notice("connections fail, retrying", metadata: metadata)
        } else {
            self.logger.notice("connections work again", metadata: metadata)
        }
    }
}
