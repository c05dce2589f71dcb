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

    let recorder: NotificationRecorder

    /// Iterates over the notifications.
    public struct AsyncIterator: AsyncIteratorProtocol {
        let recorder: NotificationRecorder
        var number: UInt64

        /// Waits for the next notification.
        ///
        /// - Returns: the notification; `nil` if the simulator has ended.
        /// - Throws: ``SimulatorError/notificationsMissed(count:)``, or `CancellationError`.
        public mutating func next() async throws -> ReceivedNotification? {
            do {
                while let notification = try await self.recorder.next(behind: self.number) {
                    self.number = notification.number
                    if notification.isAccepted { return notification }
                }
                return nil
            } catch SimulatorError.notificationsMissed(let count) {
                self.number += count
                throw SimulatorError.notificationsMissed(count: count)
            }
        }
    }

    /// Starts with the oldest stored notification.
    ///
    /// - Returns: an iterator for one task.
    public func makeAsyncIterator() -> AsyncIterator {
        AsyncIterator(recorder: self.recorder, number: self.recorder.bounds.beforeOldest)
    }
}
