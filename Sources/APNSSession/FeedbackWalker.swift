// SPDX-License-Identifier: Apache-2.0

import APNSWire

/// Finds where tuples begin in octets that are split anywhere, without keeping them.
struct FeedbackWalker: Sendable {
    /// The octets before a token: four of time and two of length.
    private static let headerOctetCount = 6

    /// Whole tuples.
    private(set) var tupleCount: UInt64 = 0
    private(set) var octetCount: UInt64 = 0
    /// Octets since the last whole tuple.
    private(set) var partialOctetCount = 0

    /// The last two octets of the header, as far as they are known.
    private var tokenOctetCount = 0

    /// The offset of the first octet of the tuple that has begun or comes next.
    var tupleOffset: UInt64 { self.octetCount - UInt64(self.partialOctetCount) }

    /// Takes octets.
    ///
    /// - Returns: the length of a token that cannot be, which ends the walk, or `nil`.
    mutating func walk(_ octets: UnsafeRawBufferPointer) -> Int? {
        var index = 0
        while index < octets.count {
            if self.partialOctetCount < Self.headerOctetCount {
                let octet = unsafe Int(octets[index])
                index += 1
                self.octetCount += 1
                self.partialOctetCount += 1
                if self.partialOctetCount < Self.headerOctetCount - 1 { continue }
                if self.partialOctetCount < Self.headerOctetCount {
                    self.tokenOctetCount = octet << 8
                    continue
                }
                self.tokenOctetCount |= octet
                guard (1...WireLimits.tokenOctetCountMax).contains(self.tokenOctetCount) else {
                    return self.tokenOctetCount
                }
                continue
            }
            let left = Self.headerOctetCount + self.tokenOctetCount - self.partialOctetCount
            let taken = min(left, octets.count - index)
            index += taken
            self.octetCount += UInt64(taken)
            self.partialOctetCount += taken
            if taken == left {
                self.tupleCount += 1
                self.partialOctetCount = 0
            }
        }
        return nil
    }

    /// Counts octets that are not looked at.
    mutating func skip(octetCount: Int) { self.octetCount += UInt64(octetCount) }
}
