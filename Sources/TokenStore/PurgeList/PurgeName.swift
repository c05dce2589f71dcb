// SPDX-License-Identifier: Apache-2.0

import Glibc

/// The name of a topic or source, compared by bytes, as in the file and other databases.
///
/// `String` considers canonically equivalent texts equal, such as both forms of "é".
struct PurgeName: Hashable {
    let text: String

    init(_ text: String) { self.text = text }

    static func == (left: PurgeName, right: PurgeName) -> Bool {
        // Compared for each recorded entry, so not byte by byte.
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
