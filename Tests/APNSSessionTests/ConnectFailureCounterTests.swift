// SPDX-License-Identifier: Apache-2.0

import APNSSession
import Testing

@Suite("Failures to connect")
struct ConnectFailureCounterTests {
    private static let backoff = Backoff(first: .milliseconds(100), max: .seconds(1))

    @Test func `delays double up to the maximum, and it gives up at its limit`() {
        var failures = ConnectFailureCounter(backoff: Self.backoff, countMax: 6)
        let waits = (0..<5).map { _ in failures.failed(jitter: 1) }
        #expect(waits == [100, 200, 400, 800, 1000].map { .milliseconds($0) })
        #expect(failures.failed(jitter: 1) == nil)
        failures.succeeded()
        #expect(failures.failed(jitter: 0) == .milliseconds(50))
        #expect(failures.silentCount == 1)
    }

    @Test func `a connection that answered causes a delay, but not giving up`() {
        var failures = ConnectFailureCounter(backoff: Self.backoff, countMax: 6)
        let answered = (0..<10).map { _ in failures.failed(hasAnswered: true, jitter: 1) }
        #expect(answered.last == .seconds(1) && !answered.contains(nil))
        #expect(failures.silentCount == 0)
    }

    @Test func `without a limit it never gives up, and a free first failure has no delay`() {
        var failures = ConnectFailureCounter(backoff: Self.backoff, countMax: nil, isFirstFree: true)
        #expect(failures.failed(jitter: 1) == .zero)
        #expect(failures.failed(jitter: 1) == .milliseconds(100))
        for _ in 0..<200 { _ = failures.failed(jitter: 0.5) }
        #expect(failures.failed(jitter: 1) == .seconds(1))
    }
}
