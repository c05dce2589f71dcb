// SPDX-License-Identifier: Apache-2.0

import APNSWire
import Metrics

/// The metrics of a listener.
final class ListenerMetrics: Sendable {
    private let opened = Counter(label: "apns.legacy.connections.opened")
    private let refused: [ConnectionAdmission.Cause: Counter]
    private let closed = Counter(label: "apns.legacy.connections.closed")
    private let accepted = Counter(label: "apns.legacy.notifications.accepted")
    private let discarded = Counter(label: "apns.legacy.notifications.discarded")
    private let bytes = Counter(label: "apns.legacy.received.bytes")

    init() {
        let causes = ConnectionAdmission.Cause.allCases.map { cause in
            (cause, Counter(label: "apns.legacy.connections.refused", dimensions: [("cause", cause.rawValue)]))
        }
        self.refused = Dictionary(uniqueKeysWithValues: causes)
    }

    func connectionOpened() { self.opened.increment() }

    func connectionRefused(_ cause: ConnectionAdmission.Cause) { self.refused[cause]?.increment() }

    func connectionClosed() { self.closed.increment() }

    func received(byteCount: Int, acceptedCount: Int) {
        self.bytes.increment(by: byteCount)
        if acceptedCount > 0 { self.accepted.increment(by: acceptedCount) }
    }

    func discarded(messageCount: Int) { self.discarded.increment(by: messageCount) }

    func ended(_ response: ErrorResponse?) {
        let status = response.map { String($0.status.rawValue) } ?? "none"
        Counter(label: "apns.legacy.connections.ended", dimensions: [("status", status)]).increment()
    }
}
