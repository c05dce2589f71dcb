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
    ///   each has the outcome that ``send(_:)-(PushNotification)`` would return.
    public func send(_ notifications: some Sequence<PushNotification>) async -> [DeliveryOutcome] {
        await self.observingAll { await self.outcomes(of: notifications) }
    }

    private func outcomes(of notifications: some Sequence<PushNotification>) async -> [DeliveryOutcome] {
        let outcomes = AwaitedOutcomes(self.transport)
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
        var unsent = DeliveryOutcome.unsent(.cancelled)
        wait: while !Task.isCancelled {
            let receipt =
                local.map { self.transport.settleLocally($0, outcomes, key: key) }
                ?? self.transport.submit(notification, outcomes, key: key)
            switch receipt {
            case .submitted(let number):
                outcomes.submitted(number)
                return nil
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

/// A task that waits for the outcomes of several notifications, until it has all or is cancelled.
private final class AwaitedOutcomes: SubmissionReceiver {
    private struct State {
        var outcomes: [DeliveryOutcome?] = []
        /// When each was submitted; empty if no metrics system measures it.
        var startTimes: [NIODeadline] = []
        var openCount = 0
        /// The numbers of the submitted ones, and possibly of others in between.
        var numbers: Range<UInt64>?
        var waiter: CheckedContinuation<Void, Never>?
    }

    private let transport: any ClientTransport
    private let state = NIOLockedValueBox(State())

    init(_ transport: any ClientTransport) { self.transport = transport }

    /// Adds a notification without an outcome; returns its key.
    func append() -> UInt64 {
        let start = self.transport.observer.startTime
        return self.state.withLockedValue { state in
            state.outcomes.append(nil)
            if let start { state.startTimes.append(start) }
            state.openCount += 1
            return UInt64(state.outcomes.count - 1)
        }
    }

    func submitted(_ number: UInt64) {
        self.state.withLockedValue { state in
            state.numbers = (state.numbers?.lowerBound ?? number)..<(number + 1)
        }
    }

    func settle(_ keys: Range<UInt64>, _ report: DeliveryReport) {
        self.settle(Int(keys.lowerBound)..<Int(keys.upperBound), report.outcome)
    }

    /// Those that have an outcome already keep it.
    private func settle(_ indices: Range<Int>?, _ outcome: DeliveryOutcome) {
        let (startTimes, waiter) = self.state.withLockedValue { state in
            let open = (indices ?? state.outcomes.indices).filter { state.outcomes[$0] == nil }
            for index in open { state.outcomes[index] = outcome }
            state.openCount -= open.count
            let startTimes = state.startTimes.isEmpty ? [] : open.map { state.startTimes[$0] }
            return (startTimes, state.openCount == 0 ? state.waiter.take() : nil)
        }
        for start in startTimes { self.transport.observer.recordLatency(outcome, since: start) }
        waiter?.resume()
    }

    /// Waits until each has its outcome; all have been submitted, or have one already.
    func all() async -> [DeliveryOutcome] {
        await withTaskCancellationHandler {
            await withCheckedContinuation { (waiter: CheckedContinuation<Void, Never>) in
                let isComplete = self.state.withLockedValue { state in
                    if state.openCount > 0 { state.waiter = waiter }
                    return state.openCount == 0
                }
                if isComplete { waiter.resume() }
            }
        } onCancel: {
            if let numbers = self.state.withLockedValue(\.numbers) {
                self.transport.withdraw(self, in: numbers, .cancelled)
            }
            // What does not wait in the queue any more may arrive.
            self.settle(nil, .indeterminate(.cancelled))
        }
        return self.state.withLockedValue { $0.outcomes.compactMap(\.self) }
    }
}
