// SPDX-License-Identifier: Apache-2.0

/// The first byte of a message to the gateway: which of the three formats follows.
///
/// - SeeAlso: Binary Provider API; Legacy Notification Format.
@frozen
public enum Command: UInt8, CaseIterable, Hashable, Sendable {
    /// 0: token and payload only. The gateway closes the connection after a faulty message without an error response.
    case simple = 0
    /// 1: identifier, expiry, token, payload.
    case enhanced = 1
    /// 2: a frame of items in any order.
    case items = 2

    /// Bytes from the start of a frame to the length of the token, in the item order of ``FrameEncoder``; other senders
    /// may order the items of command 2 differently.
    var tokenLengthOffset: Int {
        switch self {
        case .simple: 1
        case .enhanced: 9
        case .items: 13
        }
    }

    /// Bytes before the identifier, in the item order of ``FrameEncoder``; `nil` for command 0.
    var identifierOffset: Int? {
        switch self {
        case .simple: nil
        case .enhanced: 1
        case .items: 8
        }
    }
}
