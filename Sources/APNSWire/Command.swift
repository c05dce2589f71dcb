// SPDX-License-Identifier: Apache-2.0

/// The first byte of a message to the gateway: which of the three formats follows.
///
/// - SeeAlso: Binary Provider API; Legacy Notification Format.
public enum Command: UInt8, CaseIterable, Hashable, Sendable {
    /// 0: token and payload only. A faulty message gets the connection cut without a word.
    case simple = 0
    /// 1: identifier, expiry, token, payload.
    case enhanced = 1
    /// 2: a frame of items in any order.
    case items = 2
}
