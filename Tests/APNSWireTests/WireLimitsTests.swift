// SPDX-License-Identifier: Apache-2.0

import APNSWire
import Testing

@Suite struct WireLimitsTests {
    @Test func `the longest legal frame fits the frame limit`() {
        let items = [WireLimits.tokenByteCountMax, WireLimits.payloadByteCountMaxVoIP, 4, 4, 1]
        #expect(items.map { 3 + $0 }.reduce(0, +) <= WireLimits.frameByteCountMax)
    }
}
