// SPDX-License-Identifier: Apache-2.0

/// The notifications that a simulator accepts, in order: first the stored ones, then each as it arrives.
///
/// Each iterator returns all of them independently, and ends with the simulator. It has no buffer: if notifications
/// leave the simulator before a slow iterator requests them, it throws
/// ``SimulatorError/notificationsMissed(count:)`` and continues with the oldest stored one.
public struct NotificationSequence: AsyncSequence, Sendable {
    /// The element.
    public typealias Element = ReceivedNotification
    /// The error: ``SimulatorError``, or `CancellationError`.
    public typealias Failure = any Error

    let registry: DeviceRegistry

    /// Iterates over the notifications.
    public struct AsyncIterator: AsyncIteratorProtocol {
        let registry: DeviceRegistry
        var number: UInt64

        /// Waits for the next notification.
        ///
        /// - Returns: the notification; `nil` if the simulator has ended.
        /// - Throws: ``SimulatorError/notificationsMissed(count:)``, or `CancellationError`.
        public mutating func next() async throws -> ReceivedNotification? {
            do {
                while let notification = try await self.registry.recorder.next(behind: self.number) {
                    self.number = notification.number
                    if notification.isAccepted { return notification }
                }
                return nil
            } catch SimulatorError.notificationsMissed(let count) {
                self.number += count
                throw SimulatorError.notificationsMissed(count: count)
            }
        }

        /// Waits for the next notification, but not longer than a duration.
        ///
        /// - Parameters:
        ///   - duration: how long to wait.
        ///   - clock: the clock for the duration; by default the continuous clock.
        /// - Returns: the notification.
        /// - Throws: as ``next(count:within:clock:)``.
        public mutating func next<C: Clock<Duration>>(
            within duration: Duration,
            clock: C = ContinuousClock()
        ) async throws -> ReceivedNotification {
            try await self.next(count: 1, within: duration, clock: clock)[0]
        }

        /// Waits for the next notifications, but not longer than a duration.
        ///
        /// - Parameters:
        ///   - count: their number; at least 1.
        ///   - duration: how long to wait for all of them.
        ///   - clock: the clock for the duration; by default the continuous clock.
        /// - Returns: the notifications, in the order in which they arrived.
        /// - Throws: ``SimulatorError/tooFewReceived(within:count:expectedCount:rejectedCount:)`` after the duration;
        ///   those that have arrived are then returned by the next call. ``SimulatorError/ended`` if the simulator
        ///   ends, ``SimulatorError/notificationsMissed(count:)``, or `CancellationError` if the task is cancelled.
        public mutating func next<C: Clock<Duration>>(
            count: Int,
            within duration: Duration,
            clock: C = ContinuousClock()
        ) async throws -> [ReceivedNotification] {
            precondition(count > 0, "no notification is expected")
            let (start, deadline) = (self.number, clock.now.advanced(by: duration))
            var found: [ReceivedNotification] = []
            do {
                while found.count < count {
                    let next = try await self.registry.recorder.next(behind: self.number, until: deadline, clock: clock)
                    guard let next else { throw SimulatorError.ended }
                    self.number = next.number
                    if next.isAccepted { found.append(next) }
                }
                return found
            } catch SimulatorError.notificationsMissed(let missedCount) {
                self.number += missedCount
                throw SimulatorError.notificationsMissed(count: missedCount)
            } catch is NotificationRecorder.Overdue {
                self.number = start
                let rejectedCount = self.registry.statistics.rejectedCount
                throw SimulatorError.tooFewReceived(
                    within: duration,
                    count: found.count,
                    expectedCount: count,
                    rejectedCount: rejectedCount
                )
            } catch {
                self.number = start
                throw error
            }
        }
    }

    /// Starts with the oldest stored notification.
    ///
    /// - Returns: an iterator for one task.
    public func makeAsyncIterator() -> AsyncIterator {
        AsyncIterator(registry: self.registry, number: self.registry.recorder.bounds.beforeOldest)
    }
}
