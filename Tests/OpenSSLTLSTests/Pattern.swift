// SPDX-License-Identifier: Apache-2.0

import TestSupport

/// A long sequence of octets in which a displaced piece shows.
enum Pattern {
    // A prime, so that no power of two fits into it.
    private static let period = 1_000_003

    private static let table: [UInt8] = {
        var random = SplitMix64(seed: 42)
        var octets: [UInt8] = []
        octets.reserveCapacity(Self.period + 8)
        while octets.count < Self.period {
            withUnsafeBytes(of: random.next()) { octets.append(contentsOf: $0) }
        }
        return Array(octets.prefix(Self.period))
    }()

    static func octets(from start: Int = 0, count: Int) -> [UInt8] {
        var octets: [UInt8] = []
        octets.reserveCapacity(count)
        var position = start % Self.period
        while octets.count < count {
            let piece = Self.table[position..<min(Self.period, position + count - octets.count)]
            octets.append(contentsOf: piece)
            position = 0
        }
        return octets
    }
}
