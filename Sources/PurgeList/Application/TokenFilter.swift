// SPDX-License-Identifier: Apache-2.0

/// A Bloom filter: says of most tokens that they are not on the list, without looking there.
///
/// It takes the same little memory for a list of any length; past a certain one, it only saves fewer looks.
struct TokenFilter {
    /// Bits for each entry, with which one token in two hundred is looked up in vain.
    private static var entryBitCount: Int { 12 }
    private static var probeCount: Int { 4 }
    /// 16 MiB, enough for 11 million entries.
    private static var bitCountMax: Int { 1 << 27 }

    private var words: [UInt64]
    private let mask: UInt64

    init(entryCount: Int) {
        var bitCount = 1 << 10
        while bitCount < entryCount.multipliedReportingOverflow(by: Self.entryBitCount).partialValue,
            bitCount < Self.bitCountMax
        { bitCount *= 2 }
        self.words = [UInt64](repeating: 0, count: bitCount / 64)
        self.mask = UInt64(bitCount - 1)
    }

    mutating func insert(_ token: UnsafeRawBufferPointer) {
        var (position, step) = Self.hash(token)
        for _ in 0..<Self.probeCount {
            let bit = position & self.mask
            self.words[Int(bit >> 6)] |= 1 << (bit & 63)
            position &+= step
        }
    }

    func mayContain(_ token: UnsafeRawBufferPointer) -> Bool {
        var (position, step) = Self.hash(token)
        for _ in 0..<Self.probeCount {
            let bit = position & self.mask
            guard self.words[Int(bit >> 6)] & 1 << (bit & 63) != 0 else { return false }
            position &+= step
        }
        return true
    }

    private static func hash(_ token: UnsafeRawBufferPointer) -> (position: UInt64, step: UInt64) {
        var hash = UInt64(token.count)
        var index = 0
        while index + 8 <= token.count {
            hash = self.mixed(hash ^ token.loadUnaligned(fromByteOffset: index, as: UInt64.self))
            index += 8
        }
        while index < token.count {
            hash = self.mixed(hash ^ UInt64(token[index]))
            index += 1
        }
        return (hash, self.mixed(hash) | 1)
    }

    private static func mixed(_ value: UInt64) -> UInt64 {
        let product = value.multipliedFullWidth(by: 0x9E37_79B9_7F4A_7C15)
        return product.high ^ product.low &+ 0xD1B5_4A32_D192_ED03
    }
}
