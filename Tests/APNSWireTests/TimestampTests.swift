// SPDX-License-Identifier: Apache-2.0

import APNSWire
import Foundation
import TestSupport
import Testing

struct TimestampTests {
    @Test(
        arguments: [
            (0, "1970-01-01T00:00:00Z"), (1_700_000_000_000, "2023-11-14T22:13:20Z"),
            (1_700_000_000_007, "2023-11-14T22:13:20.007Z"), (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        ] as [(Int64, String)]
    )
    func `a time is printed in ISO 8601 format, and parsed`(_ milliseconds: Int64, _ text: String) throws {
        let time = Timestamp(millisecondsSince1970: milliseconds)
        #expect("\(time)" == text && Timestamp(text) == time)
        #expect(String(decoding: try JSONEncoder().encode([time]), as: UTF8.self) == "[\"\(text)\"]")
        #expect(try JSONDecoder().decode([Timestamp].self, from: Data("[\"\(text)\"]".utf8)) == [time])
    }

    @Test func `random times are the same after printing and parsing, and ordered like their numbers`() {
        var random = SplitMix64(seed: 7)
        var last = Timestamp(secondsSince1970: 0)
        for _ in 0..<1000 {
            let time = Timestamp(millisecondsSince1970: .random(in: 0...253_402_300_799_999, using: &random))
            #expect(Timestamp(time.description) == time)
            #expect((last < time) == (last.millisecondsSince1970 < time.millisecondsSince1970))
            #expect(time.secondsSince1970 == time.millisecondsSince1970 / 1000)
            last = time
        }
    }

    @Test func `times out of range are clamped`() {
        let latest = "9999-12-31T23:59:59"
        #expect("\(Timestamp(millisecondsSince1970: .max))" == "\(latest).999Z")
        #expect("\(Timestamp(secondsSince1970: .max))" == "\(latest)Z")
        #expect(
            [Timestamp(secondsSince1970: .min), Timestamp(millisecondsSince1970: -1)].allSatisfy {
                $0.millisecondsSince1970 == 0
            }
        )
    }

    @Test(
        arguments: [
            ("2023-11-14T23:13:20.0079+01:00", 1_700_000_000_007), ("2023-11-14 22:13Z", 1_699_999_980_000),
            ("2023-11-14T22:13:20.5Z", 1_700_000_000_500), ("2023-11-14T22:13:20", nil), ("1700000000", nil), ("", nil),
            ("1969-12-31T23:59:59Z", nil), ("2023-11-14", nil),
        ] as [(String, Int64?)]
    )
    func `only text with a zone is a time`(_ text: String, _ milliseconds: Int64?) {
        #expect(Timestamp(text)?.millisecondsSince1970 == milliseconds)
    }

    @Test func `a tuple has a whole second of the field's range`() throws {
        let token = try DeviceToken(bytes: [1])
        let time = Timestamp(millisecondsSince1970: 1_700_000_000_900)
        var tuple = FeedbackTuple(token: token, failedAt: time)
        #expect(tuple.failedAt == Timestamp(secondsSince1970: 1_700_000_000))
        tuple.failedAt = Timestamp(secondsSince1970: .max)
        #expect(tuple.bytes.prefix(4) == [255, 255, 255, 255])
    }
}
