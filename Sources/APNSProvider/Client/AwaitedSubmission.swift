// SPDX-License-Identifier: Apache-2.0

package import APNSSession
package import APNSWire
import Synchronization

/// Something to submit, whose outcome a task awaits until it is cancelled, or until a deadline.
package protocol AwaitedSubmission: Sendable {
    /// Submits it without waiting.
    ///
    /// Returns whether it was submitted.
    func submit(_ receiver: any SubmissionReceiver) -> SubmissionReceipt

    /// Withdraws it if it waits, as `ClientTransport.withdraw(_:in:_:)`.
    func withdraw(_ receiver: any SubmissionReceiver, in numbers: Range<UInt64>, _ reason: DeliveryOutcome.Reason)

    /// Waits until there may be room, submissions have ended, or the task is cancelled.
    func waitForRoom() async

    /// Why connections fail; `nil` if they work.
    var outage: ConnectionFailure? { get }
}

extension AwaitedSubmission {
    /// Submits it, and waits for its outcome, or until the task is cancelled.
    package func report() async -> DeliveryReport {
        while !Task.isCancelled {
            if let report = await self.reportIfRoom() { return report }
            await self.waitForRoom()
        }
        return DeliveryReport(.unsent(.cancelled))
    }

    /// Submits it, and waits for its outcome until a deadline, or until the task is cancelled.
    package func report<C: Clock>(until deadline: C.Instant, clock: C) async -> DeliveryReport {
        guard deadline > clock.now else { return DeliveryReport(.unsent(.deadline)) }
        return await withTaskGroup(of: DeliveryReport?.self) { group in
            group.addTask { await self.report() }
            group.addTask {
                // Ends early if the report arrives, or the caller is cancelled.
                try? await clock.sleep(until: deadline, tolerance: nil)
                return nil
            }
            var isOverdue = false
            for await result in group {
                if let report = result {
                    group.cancelAll()
                    return isOverdue ? report.ended(byDeadlineIn: self.outage) : report
                }
                isOverdue = !Task.isCancelled
                group.cancelAll()
            }
            // One of the two tasks returns a report.
            return DeliveryReport(.indeterminate(nil))
        }
    }

    /// Submits it and waits for its outcome, or until the task is cancelled; `nil` if there is no room.
    private func reportIfRoom() async -> DeliveryReport? {
        let receiver = AwaitedOutcome()
        return await withTaskCancellationHandler {
            // A checked one costs an allocation for each notification; the receiver resumes it once.
            await unsafe withUnsafeContinuation { continuation in
                unsafe receiver.begin(continuation)
                switch self.submit(receiver) {
                case .submitted(let number):
                    if receiver.isCancelled(afterSubmitting: number) { self.withdraw(receiver, number) }
                case .full: receiver.end(nil)
                case .ended(let reason): receiver.end(DeliveryReport(.unsent(reason)))
                }
            }
        } onCancel: {
            if let number = receiver.cancel() { self.withdraw(receiver, number) }
        }
    }

    /// Ends the wait for an outcome: what does not wait in the queue any more may arrive.
    private func withdraw(_ receiver: AwaitedOutcome, _ number: UInt64) {
        self.withdraw(receiver, in: number..<(number + 1), .cancelled)
        // The client may still send it again.
        receiver.end(DeliveryReport(.indeterminate(.cancelled), attempts: 1, isPossibleDuplicate: true))
    }
}

/// A task that waits for the outcome of one notification, until it has it or is cancelled.
private final class AwaitedOutcome: SubmissionReceiver {
    @safe private struct State {
        /// `nil` before the wait begins and after it has ended.
        var continuation: UnsafeContinuation<DeliveryReport?, Never>?
        /// `nil` until the notification is submitted.
        var number: UInt64?
        var isCancelled = false
    }

    private let state = Mutex(State())

    func begin(_ continuation: UnsafeContinuation<DeliveryReport?, Never>) {
        self.state.withLock { unsafe $0.continuation = continuation }
    }

    /// Ends the wait; has no effect if it has ended.
    func end(_ report: DeliveryReport?) {
        unsafe self.state.withLock { unsafe $0.continuation.take() }?.resume(returning: report)
    }

    func settle(_ keys: Range<UInt64>, _ report: DeliveryReport) { self.end(report) }

    /// Records the number of the notification.
    ///
    /// Returns whether the task is already cancelled.
    func isCancelled(afterSubmitting number: UInt64) -> Bool {
        self.state.withLock { state in
            state.number = number
            return state.isCancelled
        }
    }

    /// Records that the task is cancelled.
    ///
    /// Returns the number of the notification; `nil` if it is not submitted yet.
    func cancel() -> UInt64? {
        self.state.withLock { state in
            state.isCancelled = true
            return state.number
        }
    }
}

extension DeliveryReport {
    /// The report of a wait that was cancelled because of its deadline, possibly during an outage.
    fileprivate func ended(byDeadlineIn outage: ConnectionFailure?) -> Self {
        var report = self
        let reason = outage.map { DeliveryOutcome.Reason.unavailable($0) } ?? .deadline
        switch self.outcome {
        case .unsent(.cancelled): report.outcome = .unsent(reason)
        case .indeterminate(.cancelled): report.outcome = .indeterminate(reason)
        default: break
        }
        return report
    }
}
