// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSWire
import DequeModule
import NIOConcurrencyHelpers
import NIOCore

/// Takes notifications one by one from any thread, and gives them in batches to the connections.
///
/// Framing happens on the caller's thread; the connections only copy and number.
final class SubmissionQueue: NotificationSource {
    /// What became of putting one in.
    enum Receipt {
        case taken(UInt64)
        case full
        case ended
    }

    private struct State: Sendable {
        var open: FrameBlock
        var sealed = Deque<FrameBlock>()
        var nextNumber: UInt64 = 0
        var isEnded = false
        var isStopped = false
        var isAwaited = false
        var rejected = RejectedTokens()
        var waiters: [UInt64: CheckedContinuation<Void, Never>] = [:]
        var nextWaiter: UInt64 = 0
        var wake: @Sendable () -> Void = {}
        /// An emptied block, to be used again.
        var spare: FrameBlock?

        mutating func takeSpare() -> FrameBlock {
            defer { self.spare = nil }
            return self.spare ?? FrameBlock()
        }
    }

    private let command: Command
    private let payloadByteCountMax: Int
    private let suppressesRejectedTokens: Bool
    private let outcomes: OutcomeBuffer
    private let observer: ProviderObserver
    private let state: NIOLockedValueBox<State>

    /// How many full blocks may wait to be written.
    private static let sealedCountMax = 16
    /// When so few wait, those go on that wait for room: to wake one for each block would cost more than the block.
    private static let sealedCountLow = 4

    init(
        command: Command,
        payloadByteCountMax: Int,
        suppressesRejectedTokens: Bool,
        outcomes: OutcomeBuffer,
        observer: ProviderObserver
    ) {
        self.command = command
        self.payloadByteCountMax = payloadByteCountMax
        self.suppressesRejectedTokens = suppressesRejectedTokens
        self.outcomes = outcomes
        self.observer = observer
        self.state = NIOLockedValueBox(State(open: FrameBlock()))
    }

    /// Puts one in, if there is room.
    func put(_ notification: borrowing Notification) -> Receipt {
        guard !self.outcomes.isFull else {
            return self.state.withLockedValue { $0.isEnded || $0.isStopped } ? .ended : .full
        }
        let count = notification.payload.readableBytes
        if count == 0 { return self.settleHere(.invalid(.payloadEmpty)) }
        if count > self.payloadByteCountMax {
            return self.settleHere(.invalid(.payloadTooLong(byteCount: count, limit: self.payloadByteCountMax)))
        }
        let (receipt, wake) = self.state.withLockedValue { state -> (Receipt?, (@Sendable () -> Void)?) in
            guard !state.isEnded, !state.isStopped else { return (.ended, nil) }
            if !state.rejected.isEmpty, state.rejected.contains(notification.token) { return (nil, nil) }
            if !state.open.append(notification, command: self.command, number: state.nextNumber) {
                guard state.sealed.count < SubmissionQueue.sealedCountMax else { return (.full, nil) }
                state.sealed.append(state.open)
                state.open = state.takeSpare()
                guard state.open.append(notification, command: self.command, number: state.nextNumber) else {
                    return (.full, nil)
                }
            }
            defer { state.nextNumber += 1 }
            guard state.isAwaited else { return (.taken(state.nextNumber), nil) }
            state.isAwaited = false
            return (.taken(state.nextNumber), state.wake)
        }
        wake?()
        return receipt ?? self.settleHere(.suppressed)
    }

    /// Gives one an outcome that never leaves this process.
    private func settleHere(_ outcome: DeliveryOutcome) -> Receipt {
        let number = self.state.withLockedValue { state -> UInt64? in
            guard !state.isEnded, !state.isStopped else { return nil }
            defer { state.nextNumber += 1 }
            return state.nextNumber
        }
        guard let number else { return .ended }
        self.observer.settled(outcome, count: 1)
        self.outcomes.append(
            Settlement(numbers: number..<(number + 1), outcome: outcome, attempts: 0, possibleDuplicate: false)
        )
        return .taken(number)
    }

    /// Waits until there may be room, or the task is cancelled.
    func room() async {
        let waiter = self.state.withLockedValue { state in
            state.nextWaiter += 1
            return state.nextWaiter
        }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isReady = self.state.withLockedValue { state in
                    let hasRoom = state.sealed.count < SubmissionQueue.sealedCountMax && !self.outcomes.isFull
                    if hasRoom || state.isEnded || state.isStopped || Task.isCancelled { return true }
                    state.waiters[waiter] = continuation
                    return false
                }
                if isReady { continuation.resume() }
            }
        } onCancel: {
            self.state.withLockedValue { $0.waiters.removeValue(forKey: waiter) }?.resume()
        }
    }

    /// Lets those go on that wait for room.
    func resumeWaiters() {
        let waiters = self.state.withLockedValue { state in
            defer { state.waiters.removeAll() }
            return state.waiters
        }
        for waiter in waiters.values { waiter.resume() }
    }

    /// Nothing more is put in; what is in goes out.
    func end() {
        let wake = self.state.withLockedValue { state in
            state.isEnded = true
            return state.wake
        }
        wake()
        self.resumeWaiters()
    }

    // MARK: NotificationSource

    func start(wake: @escaping @Sendable () -> Void) {
        self.state.withLockedValue { $0.wake = wake }
        wake()
    }

    func fill(_ batch: inout NotificationBatch) -> ProviderSupply {
        // Blocks are moved without the lock, so that those who put in do not wait for that.
        while batch.countFree > 0, var block = self.takeBlock() {
            let isEmptied = block.drain(into: &batch)
            self.state.withLockedValue { state in
                if isEmptied { state.spare = block } else { state.sealed.prepend(block) }
            }
            if !isEmptied { break }
        }
        let (supply, waiters) = self.state.withLockedValue {
            state -> (ProviderSupply, [UInt64: CheckedContinuation<Void, Never>]) in
            var waiters: [UInt64: CheckedContinuation<Void, Never>] = [:]
            if state.sealed.count <= SubmissionQueue.sealedCountLow { swap(&waiters, &state.waiters) }
            guard state.sealed.isEmpty, state.open.isEmpty else { return (.available, waiters) }
            if state.isEnded { return (.ended, waiters) }
            state.isAwaited = true
            return (.waiting, waiters)
        }
        for waiter in waiters.values { waiter.resume() }
        return supply
    }

    /// The block that is to go out next, where there is one.
    private func takeBlock() -> FrameBlock? {
        self.state.withLockedValue { state in
            if let block = state.sealed.popFirst() { return block }
            guard !state.open.isEmpty else { return nil }
            let block = state.open
            state.open = state.takeSpare()
            return block
        }
    }

    func settle(_ settled: borrowing SettledNotifications) {
        if self.suppressesRejectedTokens, case .rejected(let rejection) = settled.outcome,
            rejection.tokenFault(now: .max) != nil
        {
            settled.forEach { _, token, _ in self.state.withLockedValue { $0.rejected.insert(token) } }
        }
        let (outcome, attempts, isDuplicate) = (settled.outcome, settled.attempts, settled.possibleDuplicate)
        settled.forEachTagRange { numbers in
            self.outcomes.append(
                Settlement(numbers: numbers, outcome: outcome, attempts: attempts, possibleDuplicate: isDuplicate)
            )
        }
    }

    /// What was put in and never taken by a connection is unsent.
    func stop() {
        let blocks = self.state.withLockedValue { state -> [FrameBlock] in
            state.isStopped = true
            defer {
                state.sealed.removeAll()
                state.open = FrameBlock()
            }
            return Array(state.sealed) + [state.open]
        }
        for block in blocks {
            block.forEachNumberRange { numbers in
                self.observer.settled(.unsent(nil), count: numbers.count)
                self.outcomes.append(
                    Settlement(numbers: numbers, outcome: .unsent(nil), attempts: 0, possibleDuplicate: false)
                )
            }
        }
        self.outcomes.finish()
        self.resumeWaiters()
    }
}
