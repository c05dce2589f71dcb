// SPDX-License-Identifier: Apache-2.0

import APNSWire
import Testing

@Suite struct PushExpiryTests {
    @Test(arguments: [
        (PushExpiry.none, UInt32?.none, "none"), (.immediately, 0, "immediately"),
        (.at(Timestamp(millisecondsSince1970: 1_700_000_000_999)), 1_700_000_000, "2023-11-14T22:13:20Z"),
        (.at(secondsSince1970: .max), .max, "2106-02-07T06:28:15Z"),
        // A time in the past does not mean "not stored".
        (.at(secondsSince1970: 0), 1, "1970-01-01T00:00:01Z"), (.at(secondsSince1970: .min), 1, "1970-01-01T00:00:01Z"),
    ])
    func `an expiry has its wire value and description`(expiry: PushExpiry, wireValue: UInt32?, text: String) {
        #expect(expiry.wireValue == wireValue && "\(expiry)" == text)
        #expect(PushExpiry(wireValue: wireValue) == expiry)
    }

    @Test(arguments: [
        (Duration.seconds(3600), Int64(1_700_000_000), UInt32(1_700_003_600)), (.zero, 1_700_000_000, 1_700_000_000),
        (.milliseconds(1), 1_700_000_000, 1_700_000_001), (.milliseconds(1500), 1_700_000_000, 1_700_000_002),
        (.seconds(-3600), 1_700_000_000, 1_699_996_400), (.seconds(Int64.max), 1_700_000_000, .max),
        (.seconds(Int64.min), 1_700_000_000, 1), (.seconds(Int64.min), -1, 1),
        (.seconds(Int64.max) + .milliseconds(1), 0, .max),
    ])
    func `a duration counts from a time`(duration: Duration, now: Int64, wireValue: UInt32) {
        #expect(PushExpiry.after(duration, from: now).wireValue == wireValue)
    }
}
