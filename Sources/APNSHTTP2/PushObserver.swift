// SPDX-License-Identifier: Apache-2.0

import Metrics

/// What can be counted at a client, as swift-metrics.
struct PushObserver: Sendable {
    private let outcomes: [String: Counter]
    private let connections = Counter(label: "push.http2.connections")
    private let failures = Counter(label: "push.http2.connection.failures")
    private let repeats = Counter(label: "push.http2.requests.repeated")

    init() {
        let names = ["accepted", "rejected", "indeterminate", "unsent", "invalid"]
        self.outcomes = Dictionary(
            uniqueKeysWithValues: names.map { name in
                (name, Counter(label: "push.http2.requests", dimensions: [("outcome", name)]))
            }
        )
    }

    func settled(_ outcome: PushOutcome, count: Int = 1) { self.outcomes[outcome.name]?.increment(by: count) }

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
