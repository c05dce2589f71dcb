// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import APNSWire

/// Numbered notifications, some of which every service rejects.
enum Row {
    /// The bytes of a token that is rejected for its length.
    private static let badByteCount = 5

    static func isBad(_ number: Int) -> Bool { number % 11 == 10 }

    static func notification(_ number: Int) throws -> PushNotification {
        var bytes = [UInt8](repeating: 0xAB, count: self.isBad(number) ? self.badByteCount : 32)
        withUnsafeBytes(of: UInt32(number).bigEndian) { bytes.replaceSubrange(0..<4, with: $0) }
        let text = String(repeating: "x", count: number % 97)
        return PushNotification(token: try DeviceToken(bytes: bytes), payload: #"{"aps":{"alert":"\#(text)"}}"#)
    }

    /// The number of a token; `nil` if it is a bad one.
    static func number(_ token: DeviceToken) -> Int? {
        token.withUnsafeBytes { bytes in
            bytes.count == 32 ? Int(bytes.prefix(4).reduce(UInt32(0)) { $0 << 8 | UInt32($1) }) : nil
        }
    }
}
