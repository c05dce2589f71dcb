// SPDX-License-Identifier: Apache-2.0

public import APNSSimulator
public import APNSWire
import NIOConcurrencyHelpers

/// A clock that a test advances, so that no test has to wait for real time.
///
/// Give it to a client as its `suppressionClock`, to a simulator with `SimulatorConfiguration.use(_:)`, and to the code
/// under test wherever that accepts a `Clock`.
///
/// ```swift
/// let clock = ManualClock()
/// configuration.suppressionClock = clock
/// clock.advance(by: .seconds(3600))
/// ```
public final class ManualClock: Clock {
    /// A time of this clock, measured from its creation.
    public struct Instant: InstantProtocol {
        /// The time since the clock was created.
        public let offset: Duration

        /// The time after a duration.
        public func advanced(by duration: Duration) -> Instant { Instant(offset: self.offset + duration) }

        /// The duration until another time.
        public func duration(to other: Instant) -> Duration { other.offset - self.offset }

        /// Whether the first time is before the second.
        public static func < (left: Instant, right: Instant) -> Bool { left.offset < right.offset }
    }

    private struct State {
        var now = Instant(offset: .zero)
        var sleepers: [Int: (deadline: Instant, continuation: CheckedContinuation<Void, any Error>)] = [:]
        /// The sleepers that have not ended, by their numbers, which count from 0.
        var unfinished: Set<Int> = []
        var count = 0
    }

    private let state = NIOLockedValueBox(State())
    private let sleeperCount = ObservedValue(0)
    private let start: Timestamp

    /// Creates a clock.
    ///
    /// - Parameter start: the time of ``timestamp`` until the clock is advanced; by default the system's time.
    public init(timestamp start: Timestamp = .now) { self.start = start }

    /// The present time of this clock.
    public var now: Instant { self.state.withLockedValue(\.now) }

    /// A nanosecond.
    public var minimumResolution: Duration { .nanoseconds(1) }

    /// The present time of this clock as a time of day, in whole milliseconds.
    public var timestamp: Timestamp {
        let (seconds, attoseconds) = self.now.offset.components
        let elapsed = seconds * 1000 + attoseconds / 1_000_000_000_000_000
        return Timestamp(millisecondsSince1970: self.start.millisecondsSince1970 + elapsed)
    }

    /// Advances the clock, and wakes the tasks whose time has come.
    ///
    /// - Parameter duration: how far; at least 0.
    public func advance(by duration: Duration) {
        precondition(duration >= .zero, "a clock does not go back")
        let due = self.state.withLockedValue { state in
            state.now = state.now.advanced(by: duration)
            let due = state.sleepers.filter { $0.value.deadline <= state.now }
            for number in due.keys {
                state.sleepers[number] = nil
                state.unfinished.remove(number)
            }
            return due.values.map(\.continuation)
        }
        self.countSleepers()
        for continuation in due { continuation.resume() }
    }

    /// Waits until tasks sleep on this clock, so that advancing it has an effect on them.
    ///
    /// - Parameters:
    ///   - count: the number of tasks that sleep at the same time; by default 1.
    ///   - limit: the maximum time to wait, by the continuous clock; by default 20 seconds.
    /// - Throws: ``TooFewSleepers``.
    public func waitForSleepers(_ count: Int = 1, within limit: Duration = .seconds(20)) async throws {
        try await self.sleeperCount.wait(within: limit, until: { $0 >= count }) {
            TooFewSleepers(count: $0, expectedCount: count)
        }
    }

    /// Fewer tasks than expected slept in time.
    public struct TooFewSleepers: Error, Hashable, Sendable {
        /// The number of tasks that slept when the time was over.
        public let count: Int
        /// The expected number.
        public let expectedCount: Int
    }

    /// Sleeps until the clock was advanced to a time.
    ///
    /// - Parameters:
    ///   - deadline: the time.
    ///   - tolerance: not used.
    /// - Throws: `CancellationError` if the task is cancelled.
    public func sleep(until deadline: Instant, tolerance: Duration? = nil) async throws {
        let number = self.state.withLockedValue { state in
            state.count += 1
            state.unfinished.insert(state.count)
            return state.count
        }
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let result = self.state.withLockedValue { state -> Result<Void, any Error>? in
                    guard state.unfinished.contains(number) else { return .failure(CancellationError()) }
                    guard deadline > state.now else {
                        state.unfinished.remove(number)
                        return .success(())
                    }
                    state.sleepers[number] = (deadline, continuation)
                    return nil
                }
                if let result { continuation.resume(with: result) } else { self.countSleepers() }
            }
        } onCancel: {
            let sleeper = self.state.withLockedValue { state in
                state.unfinished.remove(number)
                return state.sleepers.removeValue(forKey: number)
            }
            self.countSleepers()
            sleeper?.continuation.resume(throwing: CancellationError())
        }
    }

    private func countSleepers() {
        self.sleeperCount.change { count in count = self.state.withLockedValue { $0.sleepers.count } }
    }
}

extension SimulatorConfiguration {
    /// Measures time with a clock that a test advances: expiry, feedback, and the age of provider tokens.
    ///
    /// - Parameter clock: the clock.
    public mutating func use(_ clock: ManualClock) {
        self.now = { clock.timestamp }
        self.http2.clock = { clock.timestamp }
    }
}
