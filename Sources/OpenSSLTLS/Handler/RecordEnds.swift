// SPDX-License-Identifier: Apache-2.0

import NIOCore

/// Where the latest records end, in the ciphertext and in the plaintext of a connection.
struct RecordEnds {
    /// The number of records that are remembered.
    ///
    /// They are more than the system accepts before it has sent them, since a client limits that, and fit into the
    /// processor's cache.
    static let countMax = 1 << 13

    private struct End {
        var ciphertext: Int
        var plaintext: Int
    }

    private var ends = CircularBuffer<End>()
    private var last = End(ciphertext: 0, plaintext: 0)
    private var isTruncated = false

    /// Adds a record, or other ciphertext without plaintext.
    mutating func append(ciphertextByteCount: Int, plaintextByteCount: Int) {
        self.last.ciphertext += ciphertextByteCount
        self.last.plaintext += plaintextByteCount
        guard plaintextByteCount > 0 else { return }
        if self.ends.count == Self.countMax {
            self.ends.removeFirst()
            self.isTruncated = true
        }
        self.ends.append(self.last)
    }

    /// The number of plaintext bytes in all records.
    var plaintextByteCount: Int { self.last.plaintext }

    /// The number of plaintext bytes in records that are complete in the first bytes of the ciphertext; `nil` if these
    /// records are not remembered any more.
    func plaintextByteCount(inFirst ciphertextByteCount: Int) -> Int? {
        var (lower, upper) = (0, self.ends.count)
        while lower < upper {
            let middle = (lower + upper) / 2
            if self.ends[offset: middle].ciphertext <= ciphertextByteCount {
                lower = middle + 1
            } else {
                upper = middle
            }
        }
        guard lower > 0 else { return self.isTruncated ? nil : 0 }
        return self.ends[offset: lower - 1].plaintext
    }
}
