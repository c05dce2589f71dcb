// SPDX-License-Identifier: Apache-2.0

import NIOConcurrencyHelpers
import NIOCore
import NIOPosix

/// A value that can change on any thread, and whose changes can be awaited.
package final class ObservedValue<Value: Sendable>: Sendable {
    private struct State {
        var value: Value
        var waiters: [(promise: EventLoopPromise<Void>, isMet: @Sendable (Value) -> Bool)] = []
    }

    private let state: NIOLockedValueBox<State>

    package init(_ value: Value) { self.state = NIOLockedValueBox(State(value: value)) }

    package var current: Value { self.state.withLockedValue(\.value) }

    @discardableResult
    package func change<Result>(_ change: (inout Value) -> Result) -> Result {
        let (result, met) = self.state.withLockedValue { state in
            let result = change(&state.value)
            guard !state.waiters.isEmpty else { return (result, [EventLoopPromise<Void>]()) }
            let met = state.waiters.filter { $0.isMet(state.value) }.map(\.promise)
            if !met.isEmpty { state.waiters.removeAll { $0.isMet(state.value) } }
            return (result, met)
        }
        for promise in met { promise.succeed(()) }
        return result
    }

    /// Waits until the value meets a condition.
    ///
    /// - Throws: `failure`.
    package func wait(
        within limit: Duration = .seconds(20),
        until isMet: @escaping @Sendable (Value) -> Bool,
        orThrow failure: @escaping @Sendable (Value) -> any Error
    ) async throws {
        let eventLoop = MultiThreadedEventLoopGroup.singleton.any()
        let promise = eventLoop.makePromise(of: Void.self)
        let timer = eventLoop.scheduleTask(in: TimeAmount(limit)) { promise.fail(failure(self.current)) }
        defer { timer.cancel() }
        self.state.withLockedValue { $0.waiters.append((promise, isMet)) }
        self.change { _ in }
        try await promise.futureResult.get()
    }
}
