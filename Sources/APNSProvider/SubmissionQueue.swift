// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSWire
import DequeModule
import NIOConcurrencyHelpers
import NIOCore

/// Takes notifications one by one from any thread, and gives them in batches to the connections.
///
/// Framing happens on the caller's thread; the connections only copy and number.
///
/// Safe to share: its state is used under the lock alone.
final class SubmissionQueue: NotificationSource, @unchecked Sendable {
    /// What became of putting one in.
    enum Receipt {
        case taken(UInt64)
        case full
        case ended
    }

    private struct State: ~Copyable {
        var open = FrameBlock()
        var sealed = UniqueDeque<FrameBlock>()
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

        /// Puts an empty block in the place of the open one.
        ///
        /// - Returns: what was the open one.
        mutating func replaceOpen() -> FrameBlock {
            var block = self.spare.take() ?? FrameBlock()
            swap(&self.open, &block)
            return block
        }
    }

    private let command: Command
    private let payloadByteCountMax: Int
    private let suppressesRejectedTokens: Bool
    private let outcomes: OutcomeBuffer
    private let observer: ProviderObserver
    private let lock = NIOLock()
    private var state = State()

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
    }

    private func withState<Value: ~Copyable>(_ body: (inout State) -> Value) -> Value {
        self.lock.lock()
        defer { self.lock.unlock() }
        return body(&self.state)
    }

    /// Puts one in, if there is room.
    func put(_ notification: borrowing Notification) -> Receipt {
        guard !self.outcomes.isFull else {
            return self.withState { $0.isEnded || $0.isStopped } ? .ended : .full
        }
        let count = notification.payload.readableBytes
        if count == 0 { return self.settleHere(.invalid(.payloadEmpty)) }
        if count > self.payloadByteCountMax {
            return self.settleHere(.invalid(.payloadTooLong(byteCount: count, limit: self.payloadByteCountMax)))
        }
        let (receipt, wake) = self.withState { state -> (Receipt?, (@Sendable () -> Void)?) in
            guard !state.isEnded, !state.isStopped else { return (.ended, nil) }
            if !state.rejected.isEmpty, state.rejected.contains(notification.token) { return (nil, nil) }
            if !state.open.append(notification, command: self.command, number: state.nextNumber) {
                guard state.sealed.count < SubmissionQueue.sealedCountMax else { return (.full, nil) }
                state.sealed.append(state.replaceOpen())
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
        let number = self.withState { state -> UInt64? in
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
        let waiter = self.withState { state in
            state.nextWaiter += 1
            return state.nextWaiter
        }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isReady = self.withState { state in
                    let hasRoom = state.sealed.count < SubmissionQueue.sealedCountMax && !self.outcomes.isFull
                    if hasRoom || state.isEnded || state.isStopped || Task.isCancelled { return true }
                    state.waiters[waiter] = continuation
                    return false
                }
                if isReady { continuation.resume() }
            }
        } onCancel: {
            self.withState { $0.waiters.removeValue(forKey: waiter) }?.resume()
        }
    }

    /// Lets those go on that wait for room.
    func resumeWaiters() {
        let waiters = self.withState { state in
            defer { state.waiters.removeAll() }
            return state.waiters
        }
        for waiter in waiters.values { waiter.resume() }
    }

    /// Nothing more is put in; what is in goes out.
    func end() {
        let wake = self.withState { state in
            state.isEnded = true
            return state.wake
        }
        wake()
        self.resumeWaiters()
    }

    // MARK: NotificationSource

    func start(wake: @escaping @Sendable () -> Void) {
        self.withState { $0.wake = wake }
        wake()
    }

    func fill(_ batch: inout NotificationBatch) -> ProviderSupply {
        // Blocks are moved without the lock, so that those who put in do not wait for that.
        while batch.countFree > 0, var block = self.takeBlock() {
            let isEmptied = block.drain(into: &batch)
            self.giveBack(block, isEmptied: isEmptied)
            if !isEmptied { break }
        }
        let (supply, waiters) = self.withState {
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
        self.withState { state in
            if let block = state.sealed.popFirst() { return block }
            guard !state.open.isEmpty else { return nil }
            return state.replaceOpen()
        }
    }

    /// Takes a block back: as a spare one, or to go out next.
    private func giveBack(_ block: consuming FrameBlock, isEmptied: Bool) {
        self.lock.lock()
        defer { self.lock.unlock() }
        if isEmptied { self.state.spare = consume block } else { self.state.sealed.prepend(block) }
    }

    func settle(_ settled: borrowing SettledNotifications) {
        if self.suppressesRejectedTokens, case .rejected(let rejection) = settled.outcome,
            rejection.tokenFault(now: .max) != nil
        {
            unsafe settled.forEach { _, token, _ in self.withState { unsafe $0.rejected.insert(token) } }
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
        let unsent = self.withState { state in
            state.isStopped = true
            var ranges: [Range<UInt64>] = []
            while let block = state.sealed.popFirst() { block.forEachNumberRange { ranges.append($0) } }
            state.replaceOpen().forEachNumberRange { ranges.append($0) }
            return ranges
        }
        for numbers in unsent {
            self.observer.settled(.unsent(nil), count: numbers.count)
            self.outcomes.append(
                Settlement(numbers: numbers, outcome: .unsent(nil), attempts: 0, possibleDuplicate: false)
            )
        }
        self.outcomes.finish()
        self.resumeWaiters()
    }
}
