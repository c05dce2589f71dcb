// SPDX-License-Identifier: Apache-2.0

import TestSupport

/// A long sequence of bytes that reveals misplaced pieces.
enum Pattern {
    // A prime, so it is not a multiple of a power of two.
    private static let period = 1_000_003

    private static let table: [UInt8] = {
        var random = SplitMix64(seed: 42)
        var bytes: [UInt8] = []
        bytes.reserveCapacity(Self.period + 8)
        while bytes.count < Self.period {
            withUnsafeBytes(of: random.next()) { bytes.append(contentsOf: $0) }
        }
        return Array(bytes.prefix(Self.period))
    }()

    static func bytes(from start: Int = 0, count: Int) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(count)
        var position = start % Self.period
        while bytes.count < count {
            let piece = Self.table[position..<min(Self.period, position + count - bytes.count)]
            bytes.append(contentsOf: piece)
            position = 0
        }
        return bytes
    }
}
