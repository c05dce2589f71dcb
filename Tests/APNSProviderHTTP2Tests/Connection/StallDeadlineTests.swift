// SPDX-License-Identifier: Apache-2.0

import NIOCore
import Testing

@testable import APNSProviderHTTP2

@Suite("Stall deadline")
struct StallDeadlineTests {
    private static let start = NIODeadline.uptimeNanoseconds(1_000_000_000_000)

    /// The decisions at these times, in milliseconds, each with whether something waits.
    private func decisions(
        _ stall: inout StallDeadline,
        _ looks: [(milliseconds: Int64, isStalled: Bool)]
    ) -> [Bool] {
        looks.map { stall.isOver(at: Self.start + .milliseconds($0.milliseconds), isStalled: $0.isStalled) }
    }

    @Test func `it ends when something has waited for the maximum time`() {
        var stall = StallDeadline(durationMax: .seconds(10))
        let decisions = self.decisions(&stall, [(0, true), (9999, true), (10_000, true)])
        #expect(decisions == [false, false, true])
    }

    @Test func `an answer, a sent request, or an empty queue resets the time`() {
        var stall = StallDeadline(durationMax: .seconds(10))
        let before = self.decisions(&stall, [(0, true)])
        stall.moved()
        let behind = self.decisions(
            &stall,
            [(11_000, true), (20_000, false), (21_000, true), (30_000, true), (31_000, true)]
        )
        #expect(before + behind == [false, false, false, false, false, true])
    }
}
