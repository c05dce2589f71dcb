// SPDX-License-Identifier: Apache-2.0

import APNSSession
package import APNSWire
package import Metrics
package import NIOCore

/// The metrics of sending notifications.
@usableFromInline
package final class DeliveryObserver: Sendable {
    /// What the metrics measure.
    package enum Subject: Sendable {
        /// Notifications, and the connections of the binary protocol.
        case notifications
        /// Requests of the HTTP/2 provider API, and its connections.
        case requests
    }

    /// The name of the protocol in spans and in the log.
    package let transportName: String
    private let outcomes: [DeliveryOutcome.Kind: Counter]
    private let connections: Counter
    private let failures: Counter
    private let probes: Counter?
    private let duplicates: Counter?
    private let repeats: Counter?
    /// The time from sending to each outcome; empty if there is no metrics system.
    private let durations: [DeliveryOutcome.Kind: Timer]
    private let queue: Meter?
    private let openConnections: Meter?
    private let onFailure: @Sendable (ConnectionFailure) -> Void
    private let monitor: ConnectionMonitor?

    /// Creates the metrics.
    package init(
        _ subject: Subject,
        factory: any MetricsFactory = MetricsSystem.factory,
        monitor: ConnectionMonitor? = nil,
        onFailure: @escaping @Sendable (ConnectionFailure) -> Void = { _ in }
    ) {
        self.onFailure = onFailure
        self.monitor = monitor
        let isBinary = subject == .notifications
        self.transportName = isBinary ? "binary" : "http2"
        let prefix = isBinary ? "apns.legacy.binary" : "apns.legacy.http2"
        let counter = { Counter(label: $0, dimensions: [], factory: factory) }
        let label = isBinary ? "apns.legacy.binary.notifications" : "apns.legacy.http2.requests"
        self.outcomes = Dictionary(
            uniqueKeysWithValues: DeliveryOutcome.Kind.allCases.map { kind in
                (kind, Counter(label: label, dimensions: [("outcome", "\(kind.name)")], factory: factory))
            }
        )
        self.connections = counter("\(prefix).connections")
        self.failures = counter("\(prefix).connection.failures")
        self.probes = isBinary ? counter("apns.legacy.binary.probes") : nil
        self.duplicates = isBinary ? counter("apns.legacy.binary.duplicates.possible") : nil
        self.repeats = isBinary ? nil : counter("apns.legacy.http2.requests.repeated")
        // Measurements for each notification are made only if there is a metrics system.
        guard !(factory is NOOPMetricsHandler) else {
            self.durations = [:]
            self.queue = nil
            self.openConnections = nil
            return
        }
        let duration = isBinary ? "apns.legacy.binary.notification.duration" : "apns.legacy.http2.request.duration"
        self.durations = Dictionary(
            uniqueKeysWithValues: DeliveryOutcome.Kind.allCases.map { kind in
                (kind, Timer(label: duration, dimensions: [("outcome", "\(kind.name)")], factory: factory))
            }
        )
        self.queue = Meter(label: "\(prefix).queue", factory: factory)
        self.openConnections = Meter(label: "\(prefix).connections.open", factory: factory)
    }

    func settled(_ settlement: Settlement) {
        self.settled(settlement.outcome, count: settlement.numbers.count)
        if settlement.isPossibleDuplicate { self.duplicates?.increment(by: settlement.numbers.count) }
    }

    /// Notifications have this outcome.
    package func settled(_ outcome: DeliveryOutcome, count: Int = 1) {
        self.outcomes[outcome.kind]?.increment(by: count)
    }

    /// A connection is being opened.
    package func connecting() {
        self.connections.increment()
        self.monitor?.connecting()
    }

    /// The next attempt to connect begins after a delay.
    package func retries(_ number: Int, failureCountMax: Int?, after delay: Duration) {
        guard let monitor = self.monitor else { return }
        let retry = ConnectionMonitor.Retry(number: number, countMax: failureCountMax.map { max(number, $0 - 1) })
        monitor.waits(for: retry, until: .now + delay)
    }

    /// The handshake of a connection is complete.
    package func opened() {
        self.openConnections?.increment()
        self.monitor?.opened()
    }

    /// A connection with a complete handshake has closed.
    package func closed() {
        self.openConnections?.decrement()
        self.monitor?.closed()
    }

    func probed() { self.probes?.increment() }

    /// A connection failed.
    package func failed(_ failure: ConnectionFailure) {
        self.failures.increment()
        self.onFailure(failure)
    }

    /// The number of notifications that wait for a connection changes.
    package func queued(_ count: Int) {
        guard let queue = self.queue, count != 0 else { return }
        if count > 0 { queue.increment(by: Double(count)) } else { queue.decrement(by: Double(-count)) }
    }

    /// Whether a metrics system measures the time to outcomes.
    package var measuresTime: Bool { !self.durations.isEmpty }

    /// The current time, if a metrics system measures the time to outcomes; otherwise `nil`.
    package var startTime: NIODeadline? { self.measuresTime ? .now() : nil }

    /// Records the time from sending to an outcome.
    package func recordLatency(_ outcome: DeliveryOutcome, since start: NIODeadline?) {
        guard let start else { return }
        self.durations[outcome.kind]?.recordNanoseconds((NIODeadline.now() - start).nanoseconds)
    }

    /// Notifications are sent again.
    package func repeated(_ count: Int) { self.repeats?.increment(by: count) }
}
