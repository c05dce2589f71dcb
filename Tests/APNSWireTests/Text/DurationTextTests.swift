// SPDX-License-Identifier: Apache-2.0

import Testing

@testable import APNSWire

/// Goal: a number with a unit is that duration, whatever its length, and nothing else is one.
struct DurationTextTests {
    @Test(
        arguments: [
            ("0", 0, nil), ("90", 90_000, nil), ("500ms", 500, .milliseconds), ("90s", 90_000, .seconds),
            ("30m", 1_800_000, .minutes), ("12h", 43_200_000, .hours), ("400d", 34_560_000_000, .days),
            ("8w", 4_838_400_000, .weeks), ("0000000000001s", 1000, .seconds),
        ] as [(String, Int64, DurationText.Unit?)]
    )
    func `a duration is read`(_ text: String, _ milliseconds: Int64, _ unit: DurationText.Unit?) {
        let duration = DurationText(text.utf8)
        #expect(duration?.unit == unit && duration?.duration == .milliseconds(milliseconds))
        #expect(duration?.seconds == UInt64(milliseconds / 1000))
    }

    @Test(arguments: ["", "s", "-1d", "+1d", "1.5d", "1 d", "1d ", "1D", "1sm", "1mss", "1y", "1é", "١s"])
    func `other text is not a duration`(_ text: String) {
        #expect(DurationText(text.utf8) == nil)
    }

    @Test(arguments: ["", "ms", "s", "m", "h", "d", "w"])
    func `a number of any length fits`(_ unit: String) throws {
        let long = try #require(DurationText((String(repeating: "9", count: 1000) + unit).utf8))
        #expect(long.count == DurationText.countMax)
        #expect(long.duration >= .milliseconds(1_000_000_000_000))
    }
}
