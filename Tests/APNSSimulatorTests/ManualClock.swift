// SPDX-License-Identifier: Apache-2.0

import NIOConcurrencyHelpers

/// A clock that a test advances.
final class ManualClock: Clock {
    struct Instant: InstantProtocol {
        var offset: Duration

        func advanced(by duration: Duration) -> Instant { Instant(offset: self.offset + duration) }
        func duration(to other: Instant) -> Duration { other.offset - self.offset }
        static func < (left: Instant, right: Instant) -> Bool { left.offset < right.offset }
    }

    private struct State {
        var now = Instant(offset: .zero)
        var sleepers: [Int: (deadline: Instant, continuation: CheckedContinuation<Void, any Error>)] = [:]
        var cancelled: Set<Int> = []
        var count = 0
    }

    private let state = NIOLockedValueBox(State())
    /// Reports when a task starts to sleep.
    let sleeps: AsyncStream<Void>
    private let sleepsContinuation: AsyncStream<Void>.Continuation

    init() { (self.sleeps, self.sleepsContinuation) = AsyncStream.makeStream() }

    var now: Instant { self.state.withLockedValue(\.now) }
    var minimumResolution: Duration { .nanoseconds(1) }

    func advance(by duration: Duration) {
        let due = self.state.withLockedValue { state in
            state.now = state.now.advanced(by: duration)
            let due = state.sleepers.filter { $0.value.deadline <= state.now }
            for number in due.keys { state.sleepers[number] = nil }
            return due.values.map(\.continuation)
        }
        for continuation in due { continuation.resume() }
    }

    func sleep(until deadline: Instant, tolerance: Duration?) async throws {
        let number = self.state.withLockedValue { state in
            state.count += 1
            return state.count
        }
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let isCancelled = self.state.withLockedValue { state in
                    if state.cancelled.contains(number) { return true }
                    state.sleepers[number] = (deadline, continuation)
                    return false
                }
                if isCancelled { continuation.resume(throwing: CancellationError()) }
                self.sleepsContinuation.yield()
            }
        } onCancel: {
            let sleeper = self.state.withLockedValue { state in
                state.cancelled.insert(number)
                return state.sleepers.removeValue(forKey: number)
            }
            sleeper?.continuation.resume(throwing: CancellationError())
        }
    }
}
