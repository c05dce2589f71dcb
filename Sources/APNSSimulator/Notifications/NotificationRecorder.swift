// SPDX-License-Identifier: Apache-2.0

import APNSWire
import NIOConcurrencyHelpers

/// Keeps the notifications that were taken, and hands them to those who wait; carries out ``NotificationHistory``.
final class NotificationRecorder: Sendable {
    private typealias Continuation = CheckedContinuation<ReceivedNotification?, any Error>

    private enum Waiter {
        /// Has a number, and has not asked yet.
        case starting
        /// Waits.
        case waiting(Continuation)
        /// Is to be told this as soon as it asks.
        case failed(any Error)
    }

    private struct State {
        var history: NotificationHistory
        /// Those that have no answer yet.
        var waiters: [UInt64: Waiter] = [:]
        var waiterCount: UInt64 = 0
    }

    private let state: NIOLockedValueBox<State>

    init(countMax: Int, byteCountMax: Int) {
        let history = NotificationHistory(countMax: countMax, byteCountMax: byteCountMax)
        self.state = NIOLockedValueBox(State(history: history))
    }

    /// The notifications that are kept, the oldest first.
    var notifications: [ReceivedNotification] { Array(self.state.withLockedValue { $0.history.kept }) }

    /// The number of the notification before the oldest one that is kept.
    var numberBeforeOldest: UInt64 { self.state.withLockedValue(\.history.numberBeforeOldest) }

    /// The one with a number; `nil` where it is not kept.
    func notification(_ number: UInt64) -> ReceivedNotification? {
        self.state.withLockedValue { $0.history.notification(number) }
    }

    /// Those of what is kept that a body says, from a number on.
    ///
    /// - Parameters:
    ///   - first: the number to begin with.
    ///   - countMax: how many at most.
    ///   - isIncluded: says whether one is wanted.
    /// - Returns: those, the oldest first.
    func notifications(
        from first: UInt64,
        countMax: Int,
        where isIncluded: (ReceivedNotification) -> Bool
    ) -> [ReceivedNotification] {
        var found: [ReceivedNotification] = []
        var next = first
        // Bit by bit, so that nobody who is to be recorded waits for long.
        while found.count < countMax {
            let part = self.state.withLockedValue { state -> ArraySlice<ReceivedNotification> in
                next = max(next, state.history.numberBeforeOldest + 1)
                return state.history.notifications(from: next, countMax: Self.searchCount)
            }
            guard !part.isEmpty else { break }
            next += UInt64(part.count)
            found += part.lazy.filter(isIncluded).prefix(countMax - found.count)
        }
        return found
    }

    /// How many are looked at under one lock.
    private static let searchCount = 500

    /// Takes a notification.
    ///
    /// - Parameters:
    ///   - notification: what came.
    ///   - prepare: is called with its number, before anybody is given it.
    /// - Returns: the same with its number.
    func receive(
        _ notification: ReceivedNotification,
        prepare: (inout ReceivedNotification) -> Void
    ) -> ReceivedNotification {
        var notification = notification
        let given = self.state.withLockedValue { state in
            notification.number = state.history.numberAfterNewest
            prepare(&notification)
            let waiters = state.history.receive(&notification)
            return Self.remove(waiters, from: &state)
        }
        for continuation in given { continuation.resume(returning: notification) }
        return notification
    }

    /// Notes what became of a notification since.
    func change(_ number: UInt64, _ delivery: ReceivedNotification.Delivery) {
        self.state.withLockedValue { _ = $0.history.change(number, delivery) }
    }

    /// Forgets what is kept.
    func removeAll() { self.state.withLockedValue { $0.history.removeAll() } }

    /// Tells all who wait that nothing more comes.
    func end() {
        let waiting = self.state.withLockedValue { state in
            let waiters = state.history.end()
            return Self.remove(waiters, from: &state)
        }
        for continuation in waiting { continuation.resume(returning: nil) }
    }

    private static func remove(
        _ waiters: [UInt64],
        from state: inout State
    ) -> [Continuation] {
        waiters.compactMap { waiter in
            guard case .waiting(let continuation) = state.waiters.removeValue(forKey: waiter) else { return nil }
            return continuation
        }
    }

    /// Returns the next notification for a token that nobody was given.
    ///
    /// - Parameters:
    ///   - token: whom it is for.
    ///   - duration: how long to wait for it.
    ///   - clock: measures that.
    ///   - overdue: what is thrown when the time is over.
    /// - Throws: `overdue`, or `CancellationError`.
    /// - Returns: `nil` where nothing more comes.
    func next<C: Clock<Duration>>(
        for token: DeviceToken,
        within duration: Duration,
        clock: C,
        orThrow overdue: @escaping @Sendable () -> any Error
    ) async throws -> ReceivedNotification? {
        let waiter = self.addWaiter()
        return try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                try await clock.sleep(for: duration)
                self.fail(waiter, overdue)
            }
            defer { group.cancelAll() }
            return try await self.wait(waiter) { $0.next(for: token, waiter) }
        }
    }

    /// Returns the notification behind the one with a number.
    ///
    /// - Throws: ``SimulatorError/notificationsMissed(count:)``, or `CancellationError`.
    /// - Returns: `nil` where nothing more comes.
    func next(behind number: UInt64) async throws -> ReceivedNotification? {
        let waiter = self.addWaiter()
        return try await self.wait(waiter) { $0.next(behind: number, waiter) }
    }

    private func addWaiter() -> UInt64 {
        self.state.withLockedValue { state in
            state.waiterCount += 1
            state.waiters[state.waiterCount] = .starting
            return state.waiterCount
        }
    }

    private func wait(
        _ waiter: UInt64,
        _ request: (inout NotificationHistory) -> NotificationHistory.OnRequest
    ) async throws -> ReceivedNotification? {
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let result = self.state.withLockedValue { state in
                    Self.begin(waiter, continuation, request, in: &state)
                }
                if let result { continuation.resume(with: result) }
            }
        } onCancel: {
            self.fail(waiter) { CancellationError() }
        }
    }

    /// - Returns: the answer where it is known at once.
    private static func begin(
        _ waiter: UInt64,
        _ continuation: Continuation,
        _ request: (inout NotificationHistory) -> NotificationHistory.OnRequest,
        in state: inout State
    ) -> Result<ReceivedNotification?, any Error>? {
        var failure: (any Error)?
        if case .failed(let error) = state.waiters.removeValue(forKey: waiter) { failure = error }
        if let failure, failure is CancellationError { return .failure(failure) }
        // What is there is returned, even where the time was over before the request got here.
        switch request(&state.history) {
        case .deliver(let notification): return .success(notification)
        case .fail(let count): return .failure(SimulatorError.notificationsMissed(count: count))
        case .end: return .success(nil)
        case .wait:
            if let failure {
                state.history.cancel(waiter)
                return .failure(failure)
            }
            state.waiters[waiter] = .waiting(continuation)
            return nil
        }
    }

    /// Tells a waiter that it waits no longer, unless it has its answer.
    private func fail(_ waiter: UInt64, _ error: () -> any Error) {
        // The answer of the error may ask for the lock.
        let error = error()
        let continuation = self.state.withLockedValue { state -> Continuation? in
            switch state.waiters[waiter] {
            case .starting:
                state.waiters[waiter] = .failed(error)
                return nil
            case .waiting(let continuation):
                state.waiters[waiter] = nil
                state.history.cancel(waiter)
                return continuation
            case .failed, nil: return nil
            }
        }
        continuation?.resume(throwing: error)
    }
}
