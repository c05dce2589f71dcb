// SPDX-License-Identifier: Apache-2.0

/// The identifiers of all messages received on a connection, and which of them occurred more than once.
///
/// Providers number from any start, in either byte order, with gaps, and wrap around; some use one identifier for every
/// message. The identifiers are stored as ranges. If there are too many ranges, neighbors are joined, so that an
/// identifier between them counts as received: the answer is then too careful, never wrong.
struct ReceivedIdentifiers {
    /// The maximum number of ranges: 64 KiB.
    static let rangeCountMax = 8192

    /// A set of numbers as ordered ranges with gaps between them.
    private struct Ranges {
        private var ranges: [ClosedRange<UInt32>] = []
        /// The index of the range that was extended last.
        private var recent = 0

        /// The index of the first range that ends at or after a number.
        private func index(of number: UInt32) -> Int {
            var (low, high) = (0, self.ranges.count)
            while low < high {
                let middle = (low + high) / 2
                if self.ranges[middle].upperBound < number { low = middle + 1 } else { high = middle }
            }
            return low
        }

        func contains(_ number: UInt32) -> Bool {
            let index = self.index(of: number)
            return index < self.ranges.count && self.ranges[index].lowerBound <= number
        }

        /// Returns whether the number was absent.
        @inline(__always)
        mutating func insert(_ number: UInt32) -> Bool {
            // The usual case: the successor of the previous number.
            if self.recent < self.ranges.count {
                let range = self.ranges[self.recent]
                let isLast = self.recent + 1 == self.ranges.count
                if range.upperBound < number, range.upperBound + 1 == number,
                    isLast || self.ranges[self.recent + 1].lowerBound > number
                {
                    self.ranges[self.recent] = range.lowerBound...number
                    if !isLast { self.joinNext(to: self.recent) }
                    return true
                }
            }
            return self.insertAnywhere(number)
        }

        private mutating func insertAnywhere(_ number: UInt32) -> Bool {
            var index = self.index(of: number)
            if index < self.ranges.count, self.ranges[index].lowerBound <= number { return false }
            if index > 0, self.ranges[index - 1].upperBound + 1 == number {
                index -= 1
                self.ranges[index] = self.ranges[index].lowerBound...number
            } else {
                self.ranges.insert(number...number, at: index)
            }
            self.recent = index
            self.joinNext(to: index)
            if self.ranges.count > ReceivedIdentifiers.rangeCountMax { self.joinPairs() }
            return true
        }

        /// Joins a range and the next one if nothing is between them.
        private mutating func joinNext(to index: Int) {
            guard index + 1 < self.ranges.count, self.ranges[index].upperBound < .max,
                self.ranges[index].upperBound + 1 == self.ranges[index + 1].lowerBound
            else { return }
            self.ranges[index] = self.ranges[index].lowerBound...self.ranges[index + 1].upperBound
            self.ranges.remove(at: index + 1)
        }

        /// Joins each two neighbors.
        private mutating func joinPairs() {
            self.ranges = stride(from: 0, to: self.ranges.count, by: 2).map { index in
                let end = self.ranges[min(index + 1, self.ranges.count - 1)].upperBound
                return self.ranges[index].lowerBound...end
            }
            self.recent = self.ranges.count
        }
    }

    /// Which numbers occurred, and which more than once.
    private struct Occurrences {
        private var received = Ranges()
        private var repeated = Ranges()

        @inline(__always)
        mutating func insert(_ number: UInt32) {
            if !self.received.insert(number) { _ = self.repeated.insert(number) }
        }

        func hasOne(_ number: UInt32) -> Bool { self.received.contains(number) && !self.repeated.contains(number) }
    }

    private var all = Occurrences()
    private var run = Occurrences()
    private var previous: UInt32?
    /// Whether the provider counts in little-endian byte order, as a C program without `htonl` does; `nil` until two
    /// identifiers are known.
    private var isSwapped: Bool?

    /// Adds the identifier of a message.
    ///
    /// Returns whether the provider begins to count again, from 0 or 1, and so may have forgotten the messages before.
    @inline(__always)
    mutating func insert(_ identifier: UInt32) -> Bool {
        if self.isSwapped == nil { self.chooseByteOrder(identifier) }
        let number = self.number(identifier)
        // The successor of the largest number is 0.
        let isNewRun = number <= 1 && self.previous.map { number < $0 && $0 != .max } ?? false
        if isNewRun { self.run = Occurrences() }
        self.previous = number
        self.all.insert(number)
        self.run.insert(number)
        return isNewRun
    }

    /// Whether exactly one message had this identifier.
    func hasOne(_ identifier: UInt32) -> Bool { self.all.hasOne(self.number(identifier)) }

    /// Whether exactly one message had this identifier since the provider last began to count.
    func hasOneInRun(_ identifier: UInt32) -> Bool { self.run.hasOne(self.number(identifier)) }

    private func number(_ identifier: UInt32) -> UInt32 { self.isSwapped == true ? identifier.byteSwapped : identifier }

    private mutating func chooseByteOrder(_ identifier: UInt32) {
        guard let first = self.previous else { return }
        self.isSwapped = identifier != first &+ 1 && identifier.byteSwapped == first.byteSwapped &+ 1
        guard self.isSwapped == true else { return }
        (self.all, self.run, self.previous) = (Occurrences(), Occurrences(), nil)
        _ = self.insert(first)
    }
}
