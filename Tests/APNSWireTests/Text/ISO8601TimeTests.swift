// SPDX-License-Identifier: Apache-2.0

import Testing

@testable import APNSWire

/// Goal: a time is parsed with its precision, and formatted so that it can be parsed.
struct ISO8601TimeTests {
    /// 2026-01-05 10:20:30 UTC.
    static let moment: Int64 = 1_767_608_430

    @Test(
        arguments: [
            ("2026-01-05T10:20:30Z", moment, .second, 0), ("2026-01-05t12:20:30+02:00", moment, .second, 7200),
            ("2026-01-05T08:50:30-0130", moment, .second, -5400), ("2026-01-05 10:20:30,999 UTC", moment, .second, 0),
            ("2026-01-05 12:20:30 +02", moment, .second, 7200), ("2026-01-05 10:20:30.5", moment, .second, nil),
            ("2026-01-05 10:20z", moment - 30, .minute, 0), ("2026-01-05", moment - 37_230, .day, nil),
            ("1969-12-31T23:59:60Z", 0, .second, 0), ("0000-03-01", -62_162_035_200, .day, nil),
        ] as [(String, Int64, ISO8601Time.Precision, Int64?)]
    )
    func `a time is parsed`(_ text: String, _ seconds: Int64, _ precision: ISO8601Time.Precision, _ zone: Int64?) {
        let time = ISO8601Time(text.utf8)
        #expect(time?.earliest == seconds && time?.precision == precision && time?.zoneOffset == zone)
        let width: Int64 = precision == .day ? 86_399 : precision == .minute ? 59 : 0
        #expect(time?.latest == seconds + width)
    }

    @Test(arguments: [
        "", "2026", "2026-13-01", "2026-02-29", "2026-00-10", "2026-01-00", "2026-01-32", "2026-04-31", "2026-01-05T",
        "2026-01-05T24:00", "2026-01-05T10:60", "2026-01-05T10:20:61", "2026-01-05T10:20:30+25", "2026-01-05X10:20",
        "2026-01-05 10:20:30 CET", "2026-01-05 10:20:30.", "20260105", "05.01.2026", "2026-01-05 10:20:30 +01:0",
        "2026-01-05 10:20:30Z ", "1900-02-29", " 2026-01-05",
    ])
    func `other text is not a time`(_ text: String) {
        #expect(ISO8601Time(text.utf8) == nil)
    }

    @Test func `a formatted time is parsed`() {
        var seconds: Int64 = 0
        while seconds < 6_000_000_000 {
            let text = ISO8601Time.text(seconds)
            #expect(ISO8601Time(text.utf8)?.earliest == seconds, "\(text)")
            #expect(ISO8601Time(ISO8601Time.unzonedText(seconds).utf8)?.earliest == seconds, "\(text)")
            seconds += 86_400 * 13 + 12_345
        }
        #expect(ISO8601Time.unzonedText(0) == "1970-01-01 00:00:00")
        #expect(ISO8601Time.unzonedText(-5) == "1970-01-01 00:00:00")
        #expect(ISO8601Time.unzonedText(.max) == "9999-12-31 23:59:59")
        #expect(ISO8601Time.unzonedText(1_709_164_800) == "2024-02-29 00:00:00")
        #expect(ISO8601Time.text(1_735_689_599) == "2024-12-31T23:59:59Z")
    }
}
