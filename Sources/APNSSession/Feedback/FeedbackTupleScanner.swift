// SPDX-License-Identifier: Apache-2.0

import APNSWire

/// Finds the starts of tuples in bytes that are split anywhere, without storing them.
struct FeedbackTupleScanner: Sendable {
    /// The bytes before a token: four for the time and two for the length.
    private static let headerByteCount = 6

    /// Complete tuples.
    private(set) var tupleCount: UInt64 = 0
    private(set) var byteCount: UInt64 = 0
    /// Bytes since the last complete tuple.
    private(set) var partialByteCount = 0

    /// The last two bytes of the header, as far as received.
    private var tokenByteCount = 0

    /// The offset of the current or next tuple.
    var tupleOffset: UInt64 { self.byteCount - UInt64(self.partialByteCount) }

    /// Scans bytes.
    ///
    /// - Returns: an invalid token length, which ends the scan, or `nil`.
    mutating func scan(_ bytes: UnsafeRawBufferPointer) -> Int? {
        var index = 0
        while index < bytes.count {
            if self.partialByteCount < Self.headerByteCount {
                let byte = unsafe Int(bytes[index])
                index += 1
                self.byteCount += 1
                self.partialByteCount += 1
                if self.partialByteCount < Self.headerByteCount - 1 { continue }
                if self.partialByteCount < Self.headerByteCount {
                    self.tokenByteCount = byte << 8
                    continue
                }
                self.tokenByteCount |= byte
                guard (1...WireLimits.tokenByteCountMax).contains(self.tokenByteCount) else {
                    return self.tokenByteCount
                }
                continue
            }
            let left = Self.headerByteCount + self.tokenByteCount - self.partialByteCount
            let taken = min(left, bytes.count - index)
            index += taken
            self.byteCount += UInt64(taken)
            self.partialByteCount += taken
            if taken == left {
                self.tupleCount += 1
                self.partialByteCount = 0
            }
        }
        return nil
    }

    /// Counts bytes without scanning them.
    mutating func skip(byteCount: Int) { self.byteCount += UInt64(byteCount) }
}
