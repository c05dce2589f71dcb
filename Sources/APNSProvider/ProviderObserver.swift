// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSWire
import Metrics

/// What can be counted while a provider sends, as swift-metrics.
struct ProviderObserver: Sendable {
    private let outcomes: [DeliveryOutcome.Kind: Counter]
    private let connections = Counter(label: "push.connections")
    private let probes = Counter(label: "push.probes")
    private let failures = Counter(label: "push.connection.failures")
    private let duplicates = Counter(label: "push.duplicates.possible")
    private let onFailure: @Sendable (any Error) -> Void

    init(onFailure: @escaping @Sendable (any Error) -> Void = { _ in }) {
        self.onFailure = onFailure
        self.outcomes = Dictionary(
            uniqueKeysWithValues: DeliveryOutcome.Kind.allCases.map { kind in
                (kind, Counter(label: "push.notifications", dimensions: [("outcome", "\(kind.name)")]))
            }
        )
    }

    func settled(_ settlement: Settlement) {
        self.settled(settlement.outcome, count: settlement.numbers.count)
        if settlement.possibleDuplicate { self.duplicates.increment(by: settlement.numbers.count) }
    }

    func settled(_ outcome: DeliveryOutcome, count: Int) {
        self.outcomes[outcome.kind]?.increment(by: count)
    }

    func connecting() { self.connections.increment() }

    func probed() { self.probes.increment() }

    func failed(_ error: any Error) {
        self.failures.increment()
        self.onFailure(error)
    }
}

/// The keys under which data stands in log messages.
enum LogKey {
    static let connection = "push.connection.id"
    static let isSessionReused = "push.connection.session.reused"
    static let status = "push.error.status"
    static let identifier = "push.notification.identifier"
    static let failure = "push.connection.failure"
    static let ending = "push.ending"
}
