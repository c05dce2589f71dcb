// SPDX-License-Identifier: Apache-2.0

/// How far a batch is.
struct SendProgress: Sendable {
    var readOctetCount: UInt64
    var sentCount: UInt64
    var hasReadAll: Bool
    var tally: SendTally
}
