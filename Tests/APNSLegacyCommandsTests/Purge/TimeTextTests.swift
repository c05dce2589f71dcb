// SPDX-License-Identifier: Apache-2.0

import APNSWire
import Glibc
import Testing

@testable import APNSLegacyCommands

@Suite("Time texts", .timeLimit(.minutes(1)))
struct TimeTextTests {
    @Test(
        "Seconds and ISO 8601 are moments, in UTC where no zone is said",
        arguments: [
            ("0", 0), ("1700000000", 1_700_000_000), ("2023-11-14", 1_699_920_000),
            ("2023-11-14T22:13:20Z", 1_700_000_000), ("2023-11-14 22:13:20", 1_700_000_000),
            ("2023-11-14T22:13", 1_699_999_980), ("2023-11-14T23:13:20.999+01:00", 1_700_000_000),
            ("2023-11-14T20:43:20-0130", 1_700_000_000), ("2024-02-29", 1_709_164_800),
            ("9999-12-31T23:59:59Z", 253_402_300_799),
        ] as [(String, Int64)]
    )
    func moments(_ text: String, _ seconds: Int64) throws {
        #expect(TimeText(text: text) == TimeText(seconds: seconds))
    }

    @Test(
        "What is no moment is none",
        arguments: [
            "", "20231114", "19991231", "-1", "+1", "1700000000000", "1e9", "2023-02-29", "2023-13-01",
            "2023-11-14T24:00", "2023-11-14T",
            "2023-11-14T22:13:20X", "2023-11-14T22:13:20Z ", "14.11.2023", "2023-11-14T22:13:20.", "30d", "1969-12-31",
        ]
    )
    func noMoments(_ text: String) {
        #expect(TimeText(text: text) == nil)
    }

    @Test("an option also accepts now and an age")
    func arguments() throws {
        let now = Int64(time(nil))
        for (text, age) in [("now", 0), ("0s", 0), ("1d", 86_400)] as [(String, Int64)] {
            let seconds = try #require(TimeText(argument: text)?.seconds)
            #expect((now - age...now - age + 60).contains(seconds), "\(text)")
        }
        #expect(TimeText(argument: "soon") == nil && TimeText(text: "now") == nil)
    }

    @Test("a time is written in UTC to the second")
    func text() {
        #expect(TimeText(seconds: 1_700_000_000).text == "2023-11-14T22:13:20Z")
        #expect(TimeText(seconds: 0).text == "1970-01-01T00:00:00Z")
    }

    @Test(
        "A span is a number and a unit",
        arguments: [
            ("90s", 90), ("30m", 1800), ("12h", 43_200), ("400d", 34_560_000), ("8w", 4_838_400), ("1", nil),
            ("d", nil),
            ("", nil), ("-1d", nil), ("1.5d", nil), ("9999999999d", nil),
        ] as [(String, Int64?)]
    )
    func spans(_ text: String, _ seconds: Int64?) {
        #expect(ExplicitDurationArgument(argument: text)?.seconds == seconds)
    }
}
