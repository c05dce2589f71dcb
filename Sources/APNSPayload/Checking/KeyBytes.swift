// SPDX-License-Identifier: Apache-2.0

/// The bytes of a key, for comparison with the known keys.
@safe
struct KeyBytes: ~Copyable {
    private let start: UnsafeRawPointer
    let count: Int

    init?(_ bytes: UnsafeRawBufferPointer) {
        guard let start = bytes.baseAddress else { return nil }
        unsafe self.start = start
        self.count = bytes.count
    }

    /// Whether the bytes equal those of a literal.
    ///
    /// Overlapping words cover every length above three without a loop, and one side of each comparison is a constant.
    @inline(__always)
    func equals(_ literal: StaticString) -> Bool {
        let count = literal.utf8CodeUnitCount
        guard self.count == count else { return false }
        let other = unsafe UnsafeRawPointer(literal.utf8Start)
        if count >= 8 {
            var difference = unsafe self.word(0) ^ other.loadUnaligned(as: UInt64.self)
            if count > 16 {
                unsafe difference |= self.word(8) ^ other.loadUnaligned(fromByteOffset: 8, as: UInt64.self)
            }
            unsafe difference |= self.word(count - 8) ^ other.loadUnaligned(fromByteOffset: count - 8, as: UInt64.self)
            return difference == 0
        }
        if count >= 4 {
            var difference = unsafe self.halfWord(0) ^ other.loadUnaligned(as: UInt32.self)
            unsafe difference |=
                self.halfWord(count - 4) ^ other.loadUnaligned(fromByteOffset: count - 4, as: UInt32.self)
            return difference == 0
        }
        for index in 0..<count {
            guard
                unsafe self.start.load(fromByteOffset: index, as: UInt8.self)
                    == other.load(fromByteOffset: index, as: UInt8.self)
            else { return false }
        }
        return true
    }

    @inline(__always)
    private func word(_ offset: Int) -> UInt64 {
        unsafe self.start.loadUnaligned(fromByteOffset: offset, as: UInt64.self)
    }

    @inline(__always)
    private func halfWord(_ offset: Int) -> UInt32 {
        unsafe self.start.loadUnaligned(fromByteOffset: offset, as: UInt32.self)
    }
}
