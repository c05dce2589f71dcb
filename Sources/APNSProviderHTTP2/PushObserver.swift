// SPDX-License-Identifier: Apache-2.0

import APNSWire
import Metrics

/// What can be counted at a client, as swift-metrics.
struct PushObserver: Sendable {
    private let accepted = PushObserver.counter("accepted")
    private let rejected = PushObserver.counter("rejected")
    private let indeterminate = PushObserver.counter("indeterminate")
    private let unsent = PushObserver.counter("unsent")
    private let invalid = PushObserver.counter("invalid")
    private let connections = Counter(label: "push.http2.connections")
    private let failures = Counter(label: "push.http2.connection.failures")
    private let repeats = Counter(label: "push.http2.requests.repeated")

    private static func counter(_ outcome: String) -> Counter {
        Counter(label: "push.http2.requests", dimensions: [("outcome", outcome)])
    }

    func settled(_ outcome: DeliveryOutcome) {
        switch outcome {
        case .accepted: self.accepted.increment()
        case .rejected: self.rejected.increment()
        case .indeterminate: self.indeterminate.increment()
        case .unsent: self.unsent.increment()
        case .invalid: self.invalid.increment()
        case .suppressed: break
        }
    }

    func connecting() { self.connections.increment() }

    func failed() { self.failures.increment() }

    func repeated(_ count: Int) { self.repeats.increment(by: count) }
}

/// The keys under which data stands in log messages.
enum LogKey {
    static let request = "push.request.id"
    static let status = "push.answer.status"
    static let reason = "push.answer.reason"
    static let outcome = "push.outcome"
    static let endpoint = "push.endpoint"
    static let failure = "push.connection.failure"
    static let pause = "push.connection.pause"
    static let address = "push.server.address"
    static let remoteAddress = "push.connection.remote"
}
