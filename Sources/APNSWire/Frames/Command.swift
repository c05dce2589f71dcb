// SPDX-License-Identifier: Apache-2.0

/// The first byte of a message to the gateway: which of the three formats follows.
///
/// - SeeAlso: Binary Provider API; Legacy Notification Format.
@frozen
public enum Command: UInt8, CaseIterable, Hashable, Sendable {
    /// 0: token and payload only. A faulty message gets the connection cut without a word.
    case simple = 0
    /// 1: identifier, expiry, token, payload.
    case enhanced = 1
    /// 2: a frame of items in any order.
    case items = 2

    /// Bytes before the length of the token, from the frame's first, as ``FrameEncoder`` writes frames; in those of
    /// others, the items of command 2 come in any order.
    var tokenLengthOffset: Int {
        switch self {
        case .simple: 1
        case .enhanced: 9
        case .items: 13
        }
    }

    /// Bytes before the identifier, as ``FrameEncoder`` writes frames; `nil` where there is none.
    var identifierOffset: Int? {
        switch self {
        case .simple: nil
        case .enhanced: 1
        case .items: 8
        }
    }
}
