// SPDX-License-Identifier: Apache-2.0

import CoreMetrics
import Testing

@testable import GatewayService

@Suite struct GatewayMetricsTests {
    @Test func `metrics are written in Prometheus' format`() {
        let metrics = GatewayMetrics()
        let dimensions = [("provider", "a\"b"), ("cause", "accepted")]
        metrics.makeCounter(label: "apns.legacy.settled", dimensions: dimensions).increment(by: 2)
        metrics.makeCounter(label: "apns.legacy.settled", dimensions: dimensions).increment(by: 1)
        metrics.makeRecorder(label: "apns.legacy.gauge", dimensions: [], aggregate: false).record(7 as Int64)
        let timer = metrics.makeTimer(label: "apns.legacy.duration", dimensions: [])
        timer.recordNanoseconds(20_000_000)
        timer.recordNanoseconds(60_000_000_000)
        let text = metrics.text(with: [
            .init(name: "apns_legacy_days", dimensions: [("use", "server")], value: 1.5)
        ])
        #expect(text.contains("# TYPE apns_legacy_settled_total counter\n"))
        #expect(text.contains("apns_legacy_settled_total{provider=\"a\\\"b\",cause=\"accepted\"} 3\n"))
        #expect(text.contains("# TYPE apns_legacy_gauge gauge\napns_legacy_gauge 7\n"))
        #expect(text.contains("apns_legacy_duration_seconds_bucket{le=\"0.01\"} 0\n"))
        #expect(text.contains("apns_legacy_duration_seconds_bucket{le=\"0.025\"} 1\n"))
        #expect(text.contains("apns_legacy_duration_seconds_bucket{le=\"30.0\"} 1\n"))
        #expect(text.contains("apns_legacy_duration_seconds_bucket{le=\"+Inf\"} 2\n"))
        #expect(text.contains("apns_legacy_duration_seconds_count 2\n"))
        #expect(text.contains("apns_legacy_duration_seconds_sum 60.02\n"))
        metrics.makeCounter(label: "apns.legacy.http2.requests", dimensions: []).increment(by: 1)
        #expect(metrics.text().contains("# TYPE apns_legacy_http2_requests_total counter\n"), "It is a library's.")
        #expect(text.contains("apns_legacy_days{use=\"server\"} 1.5\n"))
    }

    /// A quotation mark with a combining accent is one character, and so is CR LF.
    @Test func `no label value ends early`() {
        let metrics = GatewayMetrics()
        let name = "a\"\u{301}} 1\r\nb"
        metrics.makeCounter(label: "apns.legacy.settled", dimensions: [("provider", name)]).increment(by: 1)
        let text = metrics.text()
        #expect(text.utf8.count { $0 == UInt8(ascii: "\n") } == 2, "\(text)")
        #expect(Array(text.utf8).contains(Array("a\\\"\u{301}} 1\r\\nb\"".utf8)), "\(text)")
    }
}
