// SPDX-License-Identifier: Apache-2.0

import NIOCore
import Testing

@testable import APNSProviderHTTP2

@Suite("When a connection on which nothing moves is given up")
struct StallDeadlineTests {
    private static let start = NIODeadline.uptimeNanoseconds(1_000_000_000_000)

    /// What is decided at these times, in milliseconds, each with whether something waits.
    private func decisions(
        _ stall: inout StallDeadline,
        _ looks: [(milliseconds: Int64, isStalled: Bool)]
    ) -> [Bool] {
        looks.map { stall.isOver(at: Self.start + .milliseconds($0.milliseconds), isStalled: $0.isStalled) }
    }

    @Test func `it is over when something has waited for as long as is allowed`() {
        var stall = StallDeadline(durationMax: .seconds(10))
        let decisions = self.decisions(&stall, [(0, true), (9999, true), (10_000, true)])
        #expect(decisions == [false, false, true])
    }

    @Test func `an answer, a request that left, or nothing that waits begins the time anew`() {
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
