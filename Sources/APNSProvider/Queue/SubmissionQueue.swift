// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSWire
import NIOConcurrencyHelpers
import NIOCore

/// A source of what callers put in one by one, from any thread.
///
/// Framing happens on the caller's thread; the connections only copy and number.
struct SubmissionQueue: NotificationSource {
    private let queue: NotificationQueue<FrameBlocks>
    private let command: Command
    private let payloadByteCountMax: Int
    private let suppressesRejectedTokens: Bool
    private let outcomes: OutcomeBuffer
    private let observer: DeliveryObserver

    /// All connections are one worker of the queue: they are woken together.
    private static let worker = 0

    init(
        command: Command,
        payloadByteCountMax: Int,
        suppressesRejectedTokens: Bool,
        outcomes: OutcomeBuffer,
        observer: DeliveryObserver
    ) {
        let queue = NotificationQueue(QueueStateMachine(workerCount: 1), FrameBlocks(outcomes: outcomes))
        self.queue = queue
        self.command = command
        self.payloadByteCountMax = payloadByteCountMax
        self.suppressesRejectedTokens = suppressesRejectedTokens
        self.outcomes = outcomes
        self.observer = observer
        outcomes.whenRoom { [weak queue] in queue?.callOut { $0.machine.takeRoomCallbacks() } }
    }

    /// Puts one in, if there is room.
    func put(_ notification: borrowing PushNotification) -> SubmissionReceipt {
        guard !self.outcomes.isFull else { return self.queue.withState { $0.machine.refusal } }
        let count = notification.payload.readableBytes
        if count == 0 { return self.settleHere(.invalid(.payloadEmpty)) }
        if count > self.payloadByteCountMax {
            return self.settleHere(.invalid(.payloadTooLong(byteCount: count, limit: self.payloadByteCountMax)))
        }
        var isSuppressed = false
        let receipt = self.queue.put { blocks, number in
            isSuppressed = !blocks.rejected.isEmpty && blocks.rejected.contains(notification.token)
            return !isSuppressed && blocks.append(notification, command: self.command, number: number)
        }
        return isSuppressed ? self.settleHere(.suppressed) : receipt
    }

    /// Gives one an outcome that never leaves this process.
    private func settleHere(_ outcome: DeliveryOutcome) -> SubmissionReceipt {
        let receipt = self.queue.withState { state -> SubmissionReceipt in
            state.machine.hasEnded ? state.machine.refusal : .taken(state.machine.passBy())
        }
        if case .taken(let number) = receipt { self.report(DeliveryReport(outcome), number..<(number + 1)) }
        return receipt
    }

    /// Reports an outcome that no connection has counted.
    private func report(_ report: DeliveryReport, _ numbers: Range<UInt64>) {
        let settlement = Settlement(numbers: numbers, report: report)
        self.observer.settled(settlement)
        self.outcomes.append(settlement)
    }

    /// Waits until there may be room, or the task is cancelled.
    func waitForRoom() async { await self.queue.waitForRoom() }

    /// Nothing more is put in; what is in goes out.
    func finish() { self.queue.finish() }

    // MARK: NotificationSource

    func start(wake: @escaping @Sendable () -> Void) {
        _ = self.queue.withState { $0.machine.enter(Self.worker, waitingCount: 0, wake: wake) }
        wake()
    }

    func fill(_ batch: inout NotificationBatch) -> ProviderSupply {
        // Blocks are moved without the lock, so that those who put in do not wait for that.
        while batch.countFree > 0, var block = self.queue.withState({ $0.storage.take() }) {
            let isEmptied = block.drain(into: &batch)
            self.queue.giveBack(block)
            if !isEmptied { break }
        }
        var supply = ProviderSupply.available
        self.queue.callOut { state in
            if state.storage.isEmpty {
                supply = state.machine.hasEnded ? .ended : .waiting
                if supply == .waiting { state.machine.set(Self.worker, .hungry) }
            }
            return state.storage.isLow ? state.machine.takeRoomCallbacks() : []
        }
        return supply
    }

    func settle(_ settled: borrowing SettledNotifications) {
        if self.suppressesRejectedTokens, case .rejected(let rejection) = settled.report.outcome,
            rejection.tokenFault(now: .max) != nil
        {
            unsafe settled.forEach { _, token, _ in
                self.queue.withState { unsafe $0.storage.rejected.insert(token) }
            }
        }
        let report = settled.report
        settled.forEachTagRange { self.outcomes.append(Settlement(numbers: $0, report: report)) }
        self.queue.settled(settled.count)
    }

    /// What was put in and never taken by a connection is unsent.
    func stop() {
        var unsent: [Range<UInt64>] = []
        self.queue.callOut { state in
            unsent = state.storage.removeAll()
            return state.machine.stop(.stopped, isAtOnce: true)
        }
        for numbers in unsent { self.report(DeliveryReport(.unsent(nil)), numbers) }
        self.outcomes.finish()
    }
}

extension NotificationQueue where Storage == FrameBlocks {
    /// Takes a block back: as a spare one, or to go out next.
    fileprivate func giveBack(_ block: consuming FrameBlock) {
        self.lock.lock()
        defer { self.lock.unlock() }
        self.state.storage.giveBack(block)
    }
}
