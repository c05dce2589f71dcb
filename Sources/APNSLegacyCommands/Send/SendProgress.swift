// SPDX-License-Identifier: Apache-2.0

/// How far a batch is.
struct SendProgress: Sendable {
    var readByteCount: UInt64
    var sentCount: UInt64
    var hasReadAll: Bool
    var tally: OutcomeCounts
}
