// SPDX-License-Identifier: Apache-2.0

/// Numbers of rows in ascending order, packed as the gaps between them: an octet or two for most.
struct TokenTableNumbers {
    private var octets: [UInt8] = []
    private var last: Int64 = 0
    /// Whether there was room for all.
    private(set) var isWhole = true
    private let octetCountMax: Int

    init(octetCountMax: Int = TokenTableLimits.numbersOctetCountMax) { self.octetCountMax = octetCountMax }

    /// Notes the number of a row, which is larger than the last one.
    mutating func append(_ number: Int64) {
        guard self.isWhole else { return }
        guard self.octets.count < self.octetCountMax else {
            self.isWhole = false
            self.octets = []
            return
        }
        var gap = UInt64(bitPattern: number &- self.last)
        while gap >= 0x80 {
            self.octets.append(UInt8(truncatingIfNeeded: gap) | 0x80)
            gap >>= 7
        }
        self.octets.append(UInt8(gap))
        self.last = number
    }
}

extension TokenTableNumbers: Sequence {
    struct Iterator: IteratorProtocol {
        fileprivate let octets: [UInt8]
        private var index = 0
        private var last: Int64 = 0

        fileprivate init(_ octets: [UInt8]) { self.octets = octets }

        mutating func next() -> Int64? {
            guard self.index < self.octets.count else { return nil }
            var gap: UInt64 = 0
            var shift: UInt64 = 0
            while true {
                let octet = self.octets[self.index]
                self.index += 1
                gap |= UInt64(octet & 0x7F) << shift
                guard octet >= 0x80 else { break }
                shift += 7
            }
            self.last &+= Int64(bitPattern: gap)
            return self.last
        }
    }

    func makeIterator() -> Iterator { Iterator(self.octets) }
}
