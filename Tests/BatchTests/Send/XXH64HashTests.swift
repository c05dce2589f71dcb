// SPDX-License-Identifier: Apache-2.0

import Testing

@testable import Batch

/// Goal: the hash is that of other programs, however the bytes are divided.
@Suite struct XXH64HashTests {
    private static func hash(_ parts: [ArraySlice<UInt8>]) -> UInt64 {
        var hash = XXH64Hash()
        for part in parts { hash.add(part.span.bytes) }
        return hash.value
    }

    @Test(
        arguments: [
            ("", 0xEF46_DB37_51D8_E999), ("a", 0xD24E_C4F1_A98C_6E5B), ("abc", 0x44BC_2CF5_AD77_0999),
            ("Nobody inspects the spammish repetition", 0xFBCE_A83C_8A37_8BF1),
        ] as [(String, UInt64)]
    )
    func `a text has the hash that other programs compute`(_ text: String, _ hash: UInt64) {
        #expect(Self.hash([Array(text.utf8)[...]]) == hash)
    }

    @Test func `parts have the hash of the whole`() {
        let bytes = (0..<200).map { UInt8(truncatingIfNeeded: $0 * 7) }
        for count in [0, 1, 31, 32, 33, 64, 100, 200] {
            let whole = Self.hash([bytes[..<count]])
            for first in 0...count {
                for second in [first, min(first + 1, count), min(first + 32, count), count] {
                    let parts = [bytes[..<first], bytes[first..<second], bytes[second..<count]]
                    #expect(Self.hash(parts) == whole, "\(count): \(first), \(second)")
                }
            }
        }
    }

    @Test func `every flipped bit, and every two, change the hash`() {
        var hashes: Set<UInt64> = []
        var bytes = (0..<40).map { UInt8($0) }
        hashes.insert(Self.hash([bytes[...]]))
        var count = 1
        for first in 0..<320 {
            bytes[first / 8] ^= 1 << UInt8(first % 8)
            hashes.insert(Self.hash([bytes[...]]))
            count += 1
            for second in 0..<first {
                bytes[second / 8] ^= 1 << UInt8(second % 8)
                hashes.insert(Self.hash([bytes[...]]))
                bytes[second / 8] ^= 1 << UInt8(second % 8)
                count += 1
            }
            bytes[first / 8] ^= 1 << UInt8(first % 8)
        }
        #expect(hashes.count == count)
    }
}
