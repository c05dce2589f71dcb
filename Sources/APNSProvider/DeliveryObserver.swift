// SPDX-License-Identifier: Apache-2.0

import APNSSession
package import APNSWire
package import Metrics

/// What can be counted while notifications are sent, as swift-metrics.
package struct DeliveryObserver: Sendable {
    /// What the counters are about.
    package enum Subject: Sendable {
        /// Notifications, and the connections of the binary protocol.
        case notifications
        /// Requests of the HTTP/2 provider API, and its connections.
        case requests
    }

    private let outcomes: [DeliveryOutcome.Kind: Counter]
    private let connections: Counter
    private let failures: Counter
    private let probes: Counter?
    private let duplicates: Counter?
    private let repeats: Counter?
    private let onFailure: @Sendable (ConnectionFailure) -> Void

    /// Makes counters.
    ///
    /// - Parameters:
    ///   - subject: what they are about.
    ///   - factory: makes them.
    ///   - onFailure: is told of every connection that fails.
    package init(
        _ subject: Subject,
        factory: any MetricsFactory = MetricsSystem.factory,
        onFailure: @escaping @Sendable (ConnectionFailure) -> Void = { _ in }
    ) {
        self.onFailure = onFailure
        let isBinary = subject == .notifications
        let prefix = isBinary ? "push" : "push.http2"
        let counter = { Counter(label: $0, dimensions: [], factory: factory) }
        let label = isBinary ? "push.notifications" : "push.http2.requests"
        self.outcomes = Dictionary(
            uniqueKeysWithValues: DeliveryOutcome.Kind.allCases.map { kind in
                (kind, Counter(label: label, dimensions: [("outcome", "\(kind.name)")], factory: factory))
            }
        )
        self.connections = counter("\(prefix).connections")
        self.failures = counter("\(prefix).connection.failures")
        self.probes = isBinary ? counter("push.probes") : nil
        self.duplicates = isBinary ? counter("push.duplicates.possible") : nil
        self.repeats = isBinary ? nil : counter("push.http2.requests.repeated")
    }

    func settled(_ settlement: Settlement) {
        self.settled(settlement.outcome, count: settlement.numbers.count)
        if settlement.possibleDuplicate { self.duplicates?.increment(by: settlement.numbers.count) }
    }

    /// Some have this outcome.
    package func settled(_ outcome: DeliveryOutcome, count: Int = 1) {
        self.outcomes[outcome.kind]?.increment(by: count)
    }

    /// A connection is being opened.
    package func connecting() { self.connections.increment() }

    func probed() { self.probes?.increment() }

    /// A connection failed.
    package func failed(_ failure: ConnectionFailure) {
        self.failures.increment()
        self.onFailure(failure)
    }

    /// So many are sent again.
    package func repeated(_ count: Int) { self.repeats?.increment(by: count) }
}
