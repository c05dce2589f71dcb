// SPDX-License-Identifier: Apache-2.0

import APNSWire
import NIOConcurrencyHelpers

/// Stores notifications and returns them to waiters: executes the decisions of ``NotificationHistory``.
final class NotificationRecorder: Sendable {
    private typealias Continuation = CheckedContinuation<ReceivedNotification?, any Error>

    private enum Waiter {
        /// Has a number, and has not made its request yet.
        case starting
        /// Is waiting.
        case waiting(Continuation)
        /// Fails with this error when it makes its request.
        case failed(any Error)
    }

    private struct State {
        var history: NotificationHistory
        /// The unfinished waiters.
        var waiters: [UInt64: Waiter] = [:]
        var waiterCount: UInt64 = 0
    }

    private let state: NIOLockedValueBox<State>

    init(countMax: Int, byteCountMax: Int) {
        let history = NotificationHistory(countMax: countMax, byteCountMax: byteCountMax)
        self.state = NIOLockedValueBox(State(history: history))
    }

    /// The number of stored notifications.
    var count: Int { self.state.withLockedValue(\.history.count) }

    /// Their approximate memory usage in bytes.
    var byteCount: Int { self.state.withLockedValue(\.history.byteCount) }

    /// The number before the oldest stored notification, and the number of the newest one.
    var bounds: (beforeOldest: UInt64, newest: UInt64) {
        self.state.withLockedValue { ($0.history.numberBeforeOldest, $0.history.nextNumber - 1) }
    }

    /// Returns the notification with a number; `nil` if it is not stored.
    func notification(_ number: UInt64) -> ReceivedNotification? {
        self.state.withLockedValue { $0.history.notification(number) }
    }

    /// Returns stored notifications that match a query.
    func notifications(_ query: NotificationQuery, countMax: Int) -> [RecordedNotification] {
        let key = query.token?.recordKey
        var found: [RecordedNotification] = []
        var rest: ClosedRange<UInt64>? = query.numbers
        while let numbers = rest, found.count < countMax {
            let part = self.state.withLockedValue { $0.history.candidates(key, numbers, query.order) }
            for each in part.found where found.count < countMax {
                if each.segment.mayMatch(query), each.segment.matches(query, each.number) { found.append(each) }
            }
            rest = part.rest
        }
        return found
    }

    /// Visits the origins of stored notifications, the oldest first.
    func origins(_ body: (NotificationOrigin) -> Void) {
        var number: UInt64 = 0
        while true {
            let part = self.state.withLockedValue { $0.history.segments(from: number, countMax: Self.portionCount) }
            guard let last = part.last else { return }
            for segment in part { body(segment.origin) }
            number = last.numbers.upperBound + 1
        }
    }

    /// The number of segments that are copied at a time, so that recording never waits long for the lock.
    private static let portionCount = 64

    /// Records a notification.
    ///
    /// Returns the notification with its number.
    func receive(
        _ notification: ReceivedNotification,
        prepare: (inout ReceivedNotification) -> Void
    ) -> ReceivedNotification {
        var notification = notification
        let given = self.state.withLockedValue { state in
            notification.number = state.history.nextNumber
            prepare(&notification)
            let waiters = state.history.receive(&notification)
            return Self.remove(waiters, from: &state)
        }
        for continuation in given { continuation.resume(returning: notification) }
        return notification
    }

    /// Records messages.
    ///
    /// Returns their numbers.
    func receive(_ batch: MessageBatch) -> ClosedRange<UInt64> {
        var given: [(Continuation, ReceivedNotification)] = []
        let numbers = self.state.withLockedValue { state in
            let first = state.history.nextNumber
            for (waiters, notification) in state.history.receive(batch) {
                given += Self.remove(waiters, from: &state).map { ($0, notification) }
            }
            return first...state.history.nextNumber - 1
        }
        for (continuation, notification) in given { continuation.resume(returning: notification) }
        return numbers
    }

    /// Updates the delivery of a notification.
    func change(_ number: UInt64, _ delivery: ReceivedNotification.Delivery) {
        self.state.withLockedValue { $0.history.change(number, delivery) }
    }

    /// Removes all notifications.
    func removeAll() { self.state.withLockedValue { $0.history.removeAll() } }

    /// Ends all waiters: no more notifications will arrive.
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

    /// Returns the next notification for a token that was not returned yet.
    ///
    /// - Throws: `overdue`, or `CancellationError`.
    func next<C: Clock<Duration>>(
        for token: DeviceToken,
        within duration: Duration,
        clock: C,
        orThrow overdue: @escaping @Sendable () -> any Error
    ) async throws -> ReceivedNotification? {
        let deadline = clock.now.advanced(by: duration)
        return try await self.wait(until: deadline, clock: clock, { $0.next(for: token, $1) }, orThrow: overdue)
    }

    /// No notification arrived in time.
    struct Overdue: Error {}

    /// Returns the notification after a number.
    ///
    /// - Throws: ``Overdue``, ``SimulatorError/notificationsMissed(count:)``, or `CancellationError`.
    func next<C: Clock<Duration>>(
        behind number: UInt64,
        until deadline: C.Instant,
        clock: C
    ) async throws -> ReceivedNotification? {
        try await self.wait(until: deadline, clock: clock, { $0.next(behind: number, $1) }) { Overdue() }
    }

    private func wait<C: Clock<Duration>>(
        until deadline: C.Instant,
        clock: C,
        _ request: (inout NotificationHistory, UInt64) -> NotificationHistory.OnRequest,
        orThrow overdue: @escaping @Sendable () -> any Error
    ) async throws -> ReceivedNotification? {
        let waiter = self.addWaiter()
        return try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                try await clock.sleep(until: deadline, tolerance: nil)
                self.fail(waiter, overdue)
            }
            defer { group.cancelAll() }
            return try await self.wait(waiter) { request(&$0, waiter) }
        }
    }

    /// Returns the notification after a number.
    ///
    /// - Throws: ``SimulatorError/notificationsMissed(count:)``, or `CancellationError`.
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

    /// Returns the result, if it is known immediately.
    private static func begin(
        _ waiter: UInt64,
        _ continuation: Continuation,
        _ request: (inout NotificationHistory) -> NotificationHistory.OnRequest,
        in state: inout State
    ) -> Result<ReceivedNotification?, any Error>? {
        var failure: (any Error)?
        if case .failed(let error) = state.waiters.removeValue(forKey: waiter) { failure = error }
        if let failure, failure is CancellationError { return .failure(failure) }
        // A stored notification is returned even if the time was over before the request was made.
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

    /// Fails a waiter, unless it has its result.
    private func fail(_ waiter: UInt64, _ error: () -> any Error) {
        // Creating the error may require the lock.
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
