// SPDX-License-Identifier: Apache-2.0

import Testing

@testable import TokenStore

/// Goal: a time is interpreted as the latest possible second, and ambiguous values are rejected.
struct RegistrationTimeTests {
    private func read(_ text: String) -> RegistrationTime? {
        Array(text.utf8).withUnsafeBytes { RegistrationTime(text: $0) }
    }

    /// 2026-01-05 10:20:30 UTC.
    static let moment: Int64 = 1_767_608_430

    @Test(
        arguments: [
            ("2026-01-05T10:20:30Z", moment, .zoned), ("2026-01-05T12:20:30+02:00", moment, .zoned),
            ("2026-01-05T08:20:30-0200", moment, .zoned), ("2026-01-05 10:20:30.999Z", moment, .zoned),
            ("2026-01-05 12:20:30+02", moment, .zoned), ("2026-01-05 10:20:30 UTC", moment, .zoned),
            ("2026-01-05 10:20:30 +0000", moment, .zoned), ("2026-01-05T10:20:30", moment, .unzoned),
            ("2026-01-05 10:20:30", moment, .unzoned), ("2026-01-05 10:20:30.5", moment, .unzoned),
            ("2026-01-05 10:20", moment + 29, .unzoned), ("2026-01-05", moment + 49_169, .date),
            ("1767608430", moment, .seconds), ("1767608430000", moment, .milliseconds),
            ("1767608430.25", moment, .fractionalSeconds), ("2024-02-29", 1_709_251_199, .date),
        ] as [(String, Int64, RegistrationTimeKind)]
    )
    func `a text is interpreted`(_ text: String, _ seconds: Int64, _ kind: RegistrationTimeKind) {
        let time = self.read(text)
        #expect(time?.seconds == seconds && time?.kind == kind)
    }

    @Test(arguments: [
        "", "never", "0", "-1", "2026", "2026-13-01", "2026-02-29", "2026-00-10", "2026-01-32", "2026-01-05T",
        "2026-01-05T25:00:00", "2026-01-05T10:60", "2026-01-05T10:20:61", "2026-01-05T10:20:30+25", "2026-01-05X10:20",
        "2026-01-05 10:20:30 CET", "2026-01-05 10:20:30.", "20260105", "05.01.2026", "1e9", "nan", "inf", "0x69",
        "1970-01-01", "9999-12-31", "17676084300000000", "2026-01-05 10:20:30 +01:0",
    ])
    func `other texts are rejected`(_ text: String) {
        #expect(self.read(text) == nil)
    }

    @Test func `numbers are interpreted by their size`() {
        #expect(RegistrationTime(Self.moment)?.kind == .seconds)
        #expect(RegistrationTime(Self.moment * 1000 + 999)?.seconds == Self.moment)
        #expect(RegistrationTime(Double(Self.moment) + 0.75)?.seconds == Self.moment)
        #expect(RegistrationTime(Double(Self.moment) + 0.75)?.kind == .fractionalSeconds)
        #expect(RegistrationTime(Double(Self.moment) * 1000)?.kind == .milliseconds)
        let julianDay = Double(Self.moment) / 86_400 + 2_440_587.5
        let time = RegistrationTime(julianDay)
        #expect(time?.kind == .julianDay && abs((time?.seconds ?? 0) - Self.moment) <= 1)
        // Seconds since 2001, zero for never, days, counters, and whole Julian days, which may be counters.
        for number in [0, 1, -1, 789_300_000, 2_461_046, 20_458, 1_767_608_430_000_000, .max, .min] as [Int64] {
            #expect(RegistrationTime(number) == nil, "\(number)")
        }
        for number in [0, -1, 789_300_000.5, .nan, .infinity, -.infinity, 1e300, 1e-300, 9e14, -9e14] as [Double] {
            #expect(RegistrationTime(number) == nil, "\(number)")
        }
    }
}
