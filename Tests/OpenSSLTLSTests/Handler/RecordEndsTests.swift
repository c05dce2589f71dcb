// SPDX-License-Identifier: Apache-2.0

import Testing

@testable import OpenSSLTLS

@Suite struct RecordEndsTests {
    @Test func `only complete records count`() {
        var ends = RecordEnds()
        #expect(ends.plaintextByteCount(inFirst: 100) == 0)
        // The handshake, two records, an alert.
        for (ciphertext, plaintext) in [(50, 0), (30, 10), (40, 20), (7, 0)] {
            ends.append(ciphertextByteCount: ciphertext, plaintextByteCount: plaintext)
        }
        let counts = [0, 79, 80, 119, 120, 127, 1000].map { ends.plaintextByteCount(inFirst: $0) }
        #expect(counts == [0, 0, 10, 10, 30, 30, 30])
    }

    @Test func `what is not remembered any more is unknown`() {
        var ends = RecordEnds()
        for _ in 0...RecordEnds.countMax { ends.append(ciphertextByteCount: 30, plaintextByteCount: 1) }
        #expect(ends.plaintextByteCount(inFirst: 59) == nil)
        #expect(ends.plaintextByteCount(inFirst: 60) == 2)
        #expect(ends.plaintextByteCount(inFirst: .max) == RecordEnds.countMax + 1)
    }
}
