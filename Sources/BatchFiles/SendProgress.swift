// SPDX-License-Identifier: Apache-2.0

/// How far a batch is.
package struct SendProgress: Sendable {
    package var readByteCount: UInt64
    package var sentCount: UInt64
    package var hasReadAll: Bool
    package var outcomeCounts: OutcomeCounts

    package init(readByteCount: UInt64, sentCount: UInt64, hasReadAll: Bool, outcomeCounts: OutcomeCounts) {
        self.readByteCount = readByteCount
        self.sentCount = sentCount
        self.hasReadAll = hasReadAll
        self.outcomeCounts = outcomeCounts
    }
}
