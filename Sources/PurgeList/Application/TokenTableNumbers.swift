// SPDX-License-Identifier: Apache-2.0

/// Numbers of rows in ascending order, packed as the gaps between them: a byte or two for most.
struct TokenTableNumbers {
    private var bytes: [UInt8] = []
    private var last: Int64 = 0
    /// Whether there was room for all.
    private(set) var isWhole = true
    private let byteCountMax: Int

    init(byteCountMax: Int = TokenTableLimits.numbersByteCountMax) { self.byteCountMax = byteCountMax }

    /// Notes the number of a row, which is larger than the last one.
    mutating func append(_ number: Int64) {
        guard self.isWhole else { return }
        guard self.bytes.count < self.byteCountMax else {
            self.isWhole = false
            self.bytes = []
            return
        }
        var gap = UInt64(bitPattern: number &- self.last)
        while gap >= 0x80 {
            self.bytes.append(UInt8(truncatingIfNeeded: gap) | 0x80)
            gap >>= 7
        }
        self.bytes.append(UInt8(gap))
        self.last = number
    }
}

extension TokenTableNumbers: Sequence {
    struct Iterator: IteratorProtocol {
        fileprivate let bytes: [UInt8]
        private var index = 0
        private var last: Int64 = 0

        fileprivate init(_ bytes: [UInt8]) { self.bytes = bytes }

        mutating func next() -> Int64? {
            guard self.index < self.bytes.count else { return nil }
            var gap: UInt64 = 0
            var shift: UInt64 = 0
            while true {
                let byte = self.bytes[self.index]
                self.index += 1
                gap |= UInt64(byte & 0x7F) << shift
                guard byte >= 0x80 else { break }
                shift += 7
            }
            self.last &+= Int64(bitPattern: gap)
            return self.last
        }
    }

    func makeIterator() -> Iterator { Iterator(self.bytes) }
}
