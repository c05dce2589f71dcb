// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import NIOCore
import Testing

@Suite("Stall deadline")
struct StallDeadlineTests {
    private static let start = NIODeadline.uptimeNanoseconds(1_000_000_000_000)

    /// The decisions at these times, in milliseconds, each with the progress so far; `nil` if there is nothing to do.
    private func decisions(_ looks: [(milliseconds: Int64, progressCount: Int?)]) -> [Bool] {
        var stall = StallDeadline(durationMax: .seconds(10))
        return looks.map { look in
            let now = Self.start + .milliseconds(look.milliseconds)
            guard let progressCount = look.progressCount else {
                stall.end()
                return false
            }
            return now >= stall.deadline(at: now, progressCount: progressCount)
        }
    }

    @Test func `it ends when something has waited for the maximum time`() {
        #expect(self.decisions([(0, 7), (9999, 7), (10_000, 7)]) == [false, false, true])
    }

    @Test func `an answer, a sent request, or an empty queue resets the time`() {
        let looks: [(Int64, Int?)] = [(0, 7), (11_000, 8), (20_000, nil), (21_000, 8), (30_000, 8), (31_000, 8)]
        #expect(self.decisions(looks) == [false, false, false, false, false, true])
    }
}
