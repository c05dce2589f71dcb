// SPDX-License-Identifier: Apache-2.0

import APNSSession
public import APNSWire
import NIOConcurrencyHelpers
import NIOCore

extension PushClient {
    /// Sends notifications, and waits for their outcomes.
    ///
    /// All outcomes are in memory. To send many, or to act on each outcome when it is known, send a sequence with
    /// identifiers.
    ///
    /// - Parameter notifications: the notifications.
    /// - Returns: the outcome of each, in the order of `notifications`. If the task is cancelled or the client ends,
    ///   those that were not submitted yet are unsent; the others have the outcome that
    ///   ``send(_:)-(PushNotification)`` would return.
    public func send(_ notifications: some Sequence<PushNotification>) async -> [DeliveryOutcome] {
        let outcomes = AwaitedOutcomes(self.transport.observer)
        var unsent: DeliveryOutcome?
        for notification in notifications {
            let key = outcomes.append()
            if let unsent {
                outcomes.settle(key..<(key + 1), DeliveryReport(unsent))
            } else {
                unsent = await self.submit(notification, outcomes, key)
            }
        }
        self.transport.endSequence()
        return await outcomes.all()
    }

    /// Submits a notification, if necessary when there is room.
    ///
    /// Returns the outcome of this and all later ones if it cannot be submitted.
    private func submit(
        _ notification: PushNotification,
        _ outcomes: AwaitedOutcomes,
        _ key: UInt64
    ) async -> DeliveryOutcome? {
        let local = self.check?.outcome(of: notification)
        var unsent = DeliveryOutcome.unsent(.stopped)
        wait: while !Task.isCancelled {
            let receipt =
                local.map { self.transport.settleLocally($0, outcomes, key: key) }
                ?? self.transport.submit(notification, outcomes, key: key)
            switch receipt {
            case .submitted: return nil
            case .full: await self.transport.waitForRoom()
            case .ended(let reason):
                unsent = .unsent(reason)
                break wait
            }
        }
        outcomes.settle(key..<(key + 1), DeliveryReport(unsent))
        return unsent
    }
}

/// A task that waits for the outcomes of several notifications.
private final class AwaitedOutcomes: SubmissionReceiver {
    private struct State {
        var outcomes: [DeliveryOutcome?] = []
        /// When each was submitted; empty if no metrics system measures it.
        var startTimes: [NIODeadline] = []
        var openCount = 0
        var waiter: CheckedContinuation<Void, Never>?
    }

    private let observer: DeliveryObserver
    private let state = NIOLockedValueBox(State())

    init(_ observer: DeliveryObserver) { self.observer = observer }

    /// Adds a notification without an outcome; returns its key.
    func append() -> UInt64 {
        let start = self.observer.startTime
        return self.state.withLockedValue { state in
            state.outcomes.append(nil)
            if let start { state.startTimes.append(start) }
            state.openCount += 1
            return UInt64(state.outcomes.count - 1)
        }
    }

    func settle(_ keys: Range<UInt64>, _ report: DeliveryReport) {
        let indices = Int(keys.lowerBound)..<Int(keys.upperBound)
        let (startTimes, waiter) = self.state.withLockedValue { state in
            for index in indices { state.outcomes[index] = report.outcome }
            state.openCount -= indices.count
            let startTimes = state.startTimes.isEmpty ? [] : Array(state.startTimes[indices])
            return (startTimes, state.openCount == 0 ? state.waiter.take() : nil)
        }
        for start in startTimes { self.observer.recordLatency(report.outcome, since: start) }
        waiter?.resume()
    }

    /// Waits until each has its outcome.
    func all() async -> [DeliveryOutcome] {
        await withCheckedContinuation { (waiter: CheckedContinuation<Void, Never>) in
            let isComplete = self.state.withLockedValue { state in
                if state.openCount > 0 { state.waiter = waiter }
                return state.openCount == 0
            }
            if isComplete { waiter.resume() }
        }
        return self.state.withLockedValue { $0.outcomes.compactMap(\.self) }
    }
}
