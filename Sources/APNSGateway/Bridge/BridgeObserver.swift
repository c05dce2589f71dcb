// SPDX-License-Identifier: Apache-2.0

import Metrics
import NIOCore

/// The metrics of a bridge.
struct BridgeObserver: Sendable {
    private let endings: [DeliveryCause: Counter]
    /// The counter for nearly all notifications, without a look-up.
    private let accepted: Counter?
    private let deliveries: Gauge
    private let latency: Timer
    private let again: Counter
    private let doubts: Counter

    init(provider: String) {
        let dimensions = [("provider", provider)]
        var endings: [DeliveryCause: Counter] = [:]
        for cause in DeliveryCause.allCases {
            endings[cause] = Counter(
                label: "apns.legacy.notifications.settled",
                dimensions: dimensions + [("verdict", cause.rawValue)]
            )
        }
        self.endings = endings
        self.accepted = endings[.accepted]
        self.deliveries = Gauge(label: "apns.legacy.notifications.in.flight", dimensions: dimensions)
        self.latency = Timer(label: "apns.legacy.upstream.request.duration", dimensions: dimensions)
        self.again = Counter(label: "apns.legacy.upstream.retries", dimensions: dimensions)
        self.doubts = Counter(label: "apns.legacy.connections.closed.in.doubt", dimensions: dimensions)
    }

    func ended(_ cause: DeliveryCause) {
        let counter = cause == .accepted ? self.accepted : self.endings[cause]
        counter?.increment()
    }

    func ended(_ cause: DeliveryCause, count: Int) {
        if count > 0 { self.endings[cause]?.increment(by: count) }
    }

    func inFlight(_ count: Int) { self.deliveries.record(count) }

    func answered(after duration: Duration) { self.latency.recordNanoseconds(TimeAmount(duration).nanoseconds) }

    func sentAgain() { self.again.increment() }

    /// Records that a connection was closed without an error response because expected resends could not be stored.
    func closedInDoubt() { self.doubts.increment() }
}
