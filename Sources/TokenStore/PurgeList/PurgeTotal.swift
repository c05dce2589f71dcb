// SPDX-License-Identifier: Apache-2.0

/// The number of some rows, and the sum of their checksums.
///
/// It detects rows that are missing, repeated, or in an earlier state, which match their own checksums.
struct PurgeTotal: Equatable {
    private(set) var count: Int64 = 0
    private(set) var sum: UInt64 = 0

    init() {}

    /// A stored total.
    init(count: Int64, sum: Int64) {
        self.count = count
        self.sum = UInt64(bitPattern: sum)
    }

    mutating func add(_ checksum: UInt64) {
        self.count &+= 1
        self.sum &+= checksum
    }

    mutating func remove(_ checksum: UInt64) {
        self.count &-= 1
        self.sum &-= checksum
    }
}
