// SPDX-License-Identifier: Apache-2.0

import Glibc

/// The name of a topic or source, told from others by its bytes, as the file and other databases do.
///
/// To `String`, an "é" of one scalar and one of two are the same.
struct PurgeName: Hashable {
    let text: String

    init(_ text: String) { self.text = text }

    static func == (left: PurgeName, right: PurgeName) -> Bool {
        // Compared for each entry that is recorded, so not one byte after the other.
        let isSame = unsafe left.text.utf8.withContiguousStorageIfAvailable { one in
            unsafe right.text.utf8.withContiguousStorageIfAvailable { other in
                unsafe UnsafeRawBufferPointer(one).hasSameBytes(as: UnsafeRawBufferPointer(other))
            }
        }
        return (isSame ?? nil) ?? left.text.utf8.elementsEqual(right.text.utf8)
    }

    func hash(into hasher: inout Hasher) {
        for byte in self.text.utf8 { hasher.combine(byte) }
        hasher.combine(UInt8.max)
    }
}

extension UnsafeRawBufferPointer {
    fileprivate func hasSameBytes(as other: UnsafeRawBufferPointer) -> Bool {
        guard self.count == other.count else { return false }
        guard let start = self.baseAddress, let otherStart = other.baseAddress else { return true }
        return unsafe memcmp(start, otherStart, self.count) == 0
    }
}
