// SPDX-License-Identifier: Apache-2.0

import APNSServer
import Testing

@Suite struct TokenWordsTests {
    /// Tokens of tests often count up in a few of their bytes.
    @Test(arguments: 0..<31)
    func `tokens that count up in any two bytes differ in the lowest bits of their hashes`(place: Int) {
        let (tokenCount, slotCount) = (2048, 8192 as UInt64)
        var slots: Set<UInt64> = []
        for number in 0..<tokenCount {
            var bytes = [UInt8](repeating: 0xCC, count: 32)
            (bytes[place], bytes[place + 1]) = (UInt8(number >> 8), UInt8(number & 0xFF))
            slots.insert(unsafe bytes.withUnsafeBytes { TokenWords($0).mixed(7) } % slotCount)
        }
        // Random numbers have about 1,812 different ones.
        #expect(slots.count > 1200)
    }
}
