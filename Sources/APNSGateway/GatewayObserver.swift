// SPDX-License-Identifier: Apache-2.0

import APNSWire
import Metrics

/// What can be counted at a listener, as swift-metrics.
struct GatewayObserver: Sendable {
    private let opened = Counter(label: "push.gateway.connections.opened")
    private let refused: [ConnectionAdmission.Cause: Counter]
    private let closed = Counter(label: "push.gateway.connections.closed")
    private let accepted = Counter(label: "push.gateway.notifications.accepted")
    private let discarded = Counter(label: "push.gateway.notifications.discarded")
    private let bytes = Counter(label: "push.gateway.received.bytes")

    init() {
        let causes = ConnectionAdmission.Cause.allCases.map { cause in
            (cause, Counter(label: "push.gateway.connections.refused", dimensions: [("cause", cause.rawValue)]))
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
        Counter(label: "push.gateway.endings", dimensions: [("status", status)]).increment()
    }
}

/// The keys under which data stands in log messages.
enum LogKey {
    static let connection = "push.connection.id"
    /// At the backend, which may have several listeners that each count for themselves.
    static let bridgeConnection = "push.bridge.connection.id"
    static let remoteAddress = "push.connection.remote"
    static let topic = "push.topic"
    static let status = "push.error.status"
    static let identifier = "push.notification.identifier"
    static let failure = "push.connection.failure"
    static let count = "push.connection.count"
    static let accepted = "push.notifications.accepted"
    static let dropped = "push.notifications.dropped"
    static let unparsed = "push.bytes.unparsed"
    static let address = "push.gateway.address"
    static let provider = "push.provider"
    static let message = "push.notification.number"
    static let request = "push.request.identifier"
    static let answer = "push.upstream.answer"
    static let cause = "push.settled.cause"
    static let reason = "push.refusal.reason"
    static let fingerprint = "push.certificate.fingerprint"
    static let subject = "push.certificate.subject"
    static let duration = "push.refusal.duration"
    static let pause = "push.feedback.pause"
    static let tokens = "push.feedback.tokens"
    static let leftOut = "push.refusal.leftout"
    /// "false" in each line that anybody can bring about who is not let in, so that a log can bound those apart.
    static let isAdmitted = "push.provider.admitted"
}
