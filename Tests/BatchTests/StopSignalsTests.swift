// SPDX-License-Identifier: Apache-2.0

import Batch
import Testing

/// What counts as a request to stop.
@Suite struct StopSignalsTests {
    private static let start = ContinuousClock.now

    /// The numbers of requests that signals at these times are.
    private static func numbers(_ milliseconds: [Int]) -> [Int?] {
        let stops = StopSignals()
        return milliseconds.map { stops.receive(15, at: Self.start + .milliseconds($0)) }
    }

    @Test func `signals that come together are one request`() {
        #expect(Self.numbers([0, 0, 1, 499]) == [1, nil, nil, nil])
    }

    @Test func `a signal that comes later is another request`() {
        #expect(Self.numbers([0, 500, 501]) == [1, 2, 3])
        #expect(Self.numbers([7, 8, 506, 507]) == [1, nil, nil, 2])
    }

    @Test func `the count is that of requests`() {
        let stops = StopSignals()
        #expect(stops.count == 0)
        for time in [0, 3, 600] { stops.receive(2, at: Self.start + .milliseconds(time)) }
        #expect(stops.count == 2)
    }
}
