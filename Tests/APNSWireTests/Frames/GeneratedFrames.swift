// SPDX-License-Identifier: Apache-2.0

import APNSWire
import NIOCore
import TestSupport

extension SplitMix64 {
    mutating func bytes(_ count: Int) -> [UInt8] { (0..<count).map { _ in UInt8.random(in: 0...255, using: &self) } }

    mutating func token() throws -> DeviceToken {
        let count = Bool.random(using: &self) ? 32 : Int.random(in: 1...100, using: &self)
        return try DeviceToken(bytes: self.bytes(count))
    }

    /// Any frame that its command can encode, sometimes without token or payload.
    mutating func frame() throws -> NotificationFrame {
        let command = Command.allCases.randomElement(using: &self) ?? .enhanced
        let token = Int.random(in: 0..<10, using: &self) == 0 ? nil : try self.token()
        let payload = ByteBuffer(bytes: self.bytes(Int.random(in: 0...300, using: &self)))
        let any32 = { (random: inout SplitMix64) in UInt32.random(in: 0...UInt32.max, using: &random) }
        switch command {
        case .simple: return NotificationFrame(token: token, payload: payload, command: command)
        case .enhanced:
            return NotificationFrame(
                token: token,
                payload: payload,
                expiry: any32(&self),
                identifier: any32(&self),
                command: command
            )
        case .items:
            return NotificationFrame(
                token: token,
                payload: payload,
                expiry: Bool.random(using: &self) ? any32(&self) : nil,
                priority: Bool.random(using: &self) ? UInt8.random(in: 0...255, using: &self) : nil,
                identifier: Bool.random(using: &self) ? any32(&self) : nil,
                command: command
            )
        }
    }
}
