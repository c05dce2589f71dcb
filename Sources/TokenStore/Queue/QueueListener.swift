// SPDX-License-Identifier: Apache-2.0

#if PostgreSQL
import Dispatch
import NIOConcurrencyHelpers
import PostgreSQL

/// Hears of batches that become ready, with a session and a thread of its own (`LISTEN`).
///
/// What it says is advice: a worker also finds batches of which it has not heard.
package final class QueueListener: Sendable {
    /// What it reports.
    package enum Event: Sendable {
        /// It hears of batches from now on.
        case listening
        /// A batch became ready.
        case batchReady
        /// It does not hear of batches, and tries again; reported once until it listens again.
        case failed(any Error)
    }

    /// The channel on which a load notifies.
    static let channel = "apns_queue"

    /// How long the server may take for a statement.
    private static let timeout = Duration.seconds(5)
    /// How long the notification that verifies a new session may take.
    private static let notificationTimeout = Duration.seconds(2)
    /// After how long without a notification the session is verified.
    private static let verificationInterval = Duration.seconds(30)
    /// After how long a lost session is opened again.
    private static let retryInterval = DispatchTimeInterval.seconds(1)
    /// How long the thread may take to notice the end.
    private static let endInterval = Duration.seconds(1)

    private let address: String
    private let isEnded = NIOLockedValueBox(false)
    private let ended = DispatchSemaphore(value: 0)

    /// A listener at the address of a server, not of a pooler that gives each transaction another session.
    package init(_ address: String) { self.address = address }

    /// Listens on a thread, from which events come, until ``end()``.
    package func start(_ onEvent: @escaping @Sendable (Event) -> Void) {
        DispatchQueue(label: "apns-legacy.queue.listener").async {
            var isTroubled = false
            while !self.isEnded.withLockedValue({ $0 }) {
                do {
                    try self.listen {
                        isTroubled = false
                        onEvent($0)
                    }
                } catch {
                    if !isTroubled { onEvent(.failed(error)) }
                    isTroubled = true
                    _ = self.ended.wait(timeout: .now() + Self.retryInterval)
                }
            }
        }
    }

    package func end() {
        self.isEnded.withLockedValue { $0 = true }
        self.ended.signal()
    }

    private func listen(_ onEvent: (Event) -> Void) throws {
        var name = self.address
        do {
            let connection = try PostgreSQLConnection(self.address, timeout: Self.timeout)
            name = connection.name
            try connection.execute("LISTEN \(Self.channel)")
            // From another session: a pooler passes on what a statement's own session hears.
            try PostgreSQLConnection(self.address, timeout: Self.timeout).execute("NOTIFY \(Self.channel)")
            guard try connection.awaitNotification(within: Self.notificationTimeout) else {
                throw QueueError.notHeard(database: name)
            }
            onEvent(.listening)
            var verifiedAt = ContinuousClock.now
            while !self.isEnded.withLockedValue({ $0 }) {
                if try connection.awaitNotification(within: Self.endInterval) { onEvent(.batchReady) }
                guard ContinuousClock.now - verifiedAt >= Self.verificationInterval else { continue }
                try connection.execute("SELECT")
                verifiedAt = .now
            }
        } catch let error as PostgreSQLError {
            throw QueueError.connectionLost(database: name, detail: error.message)
        }
    }
}
#endif
