// SPDX-License-Identifier: Apache-2.0

import APNSSession
import DequeModule
import NIOConcurrencyHelpers
import Synchronization

/// Outcomes on their way from the connections to the one who reads them.
final class OutcomeBuffer: Sendable {
    private struct State: Sendable {
        var settlements = Deque<Settlement>()
        var isFinished = false
        var reader: CheckedContinuation<Settlement?, Never>?
        var onRoom: @Sendable () -> Void = {}
    }

    private let state = NIOLockedValueBox(State())
    private let isFullFlag = Atomic(false)

    /// So many may wait to be read; then no more notifications are taken.
    static let countMax = 10_000

    /// Whether so many wait that no more notifications should be taken.
    ///
    /// It is asked for each notification, so it costs no lock; it may be late by a moment.
    var isFull: Bool { self.isFullFlag.load(ordering: .relaxed) }

    private func updateIsFull(_ state: State) {
        self.isFullFlag.store(state.settlements.count >= OutcomeBuffer.countMax, ordering: .relaxed)
    }

    /// What to do when there is room again.
    func whenRoom(_ body: @escaping @Sendable () -> Void) {
        self.state.withLockedValue { $0.onRoom = body }
    }

    /// Takes an outcome; joins it to the last one where it runs on.
    func append(_ settlement: Settlement) {
        let reader = self.state.withLockedValue { state -> CheckedContinuation<Settlement?, Never>? in
            if let reader = state.reader {
                state.reader = nil
                return reader
            }
            if let last = state.settlements.last, let joined = last.joined(settlement) {
                state.settlements[state.settlements.count - 1] = joined
            } else {
                state.settlements.append(settlement)
                self.updateIsFull(state)
            }
            return nil
        }
        reader?.resume(returning: settlement)
    }

    /// No more outcomes come.
    func finish() {
        let reader = self.state.withLockedValue { state in
            state.isFinished = true
            defer { state.reader = nil }
            return state.reader
        }
        reader?.resume(returning: nil)
    }

    /// The next outcome, or `nil` at the end or when the reader's task is cancelled.
    func next() async -> Settlement? {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let (ready, onRoom) = self.state.withLockedValue { state -> (Settlement??, (@Sendable () -> Void)?) in
                    let isFull = state.settlements.count == OutcomeBuffer.countMax
                    if let settlement = state.settlements.popFirst() {
                        self.updateIsFull(state)
                        return (settlement, isFull ? state.onRoom : nil)
                    }
                    if state.isFinished || Task.isCancelled || state.reader != nil { return (.some(nil), nil) }
                    state.reader = continuation
                    return (nil, nil)
                }
                onRoom?()
                if let ready { continuation.resume(returning: ready) }
            }
        } onCancel: {
            let reader = self.state.withLockedValue { state in
                defer { state.reader = nil }
                return state.reader
            }
            reader?.resume(returning: nil)
        }
    }
}

extension Settlement {
    /// Both in one, where the other runs on from this one with the same outcome.
    func joined(_ other: Settlement) -> Settlement? {
        guard self.numbers.upperBound == other.numbers.lowerBound, self.report == other.report else { return nil }
        return Settlement(numbers: self.numbers.lowerBound..<other.numbers.upperBound, report: self.report)
    }
}
