// SPDX-License-Identifier: Apache-2.0

/// The notifications that a simulator takes, in order: first those that it still has, then each as it arrives.
///
/// Each iterator gives all of them, whatever others were given. It ends with the simulator. It keeps nothing: where it
/// is so slow that notifications have left the simulator before it asked for them, it throws
/// ``SimulatorError/notificationsMissed(count:)``, and then goes on with the oldest one that is there.
public struct NotificationSequence: AsyncSequence, Sendable {
    /// What it is made of.
    public typealias Element = ReceivedNotification
    /// Why it ends early: ``SimulatorError``, or `CancellationError`.
    public typealias Failure = any Error

    let recorder: NotificationRecorder

    /// Goes through the notifications.
    public struct AsyncIterator: AsyncIteratorProtocol {
        let recorder: NotificationRecorder
        var number: UInt64

        /// Waits for the next one.
        ///
        /// - Returns: the notification; `nil` where the simulator has ended.
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

    /// Begins with the oldest notification that the simulator still has.
    ///
    /// - Returns: an iterator for one task.
    public func makeAsyncIterator() -> AsyncIterator {
        AsyncIterator(recorder: self.recorder, number: self.recorder.bounds.beforeOldest)
    }
}
