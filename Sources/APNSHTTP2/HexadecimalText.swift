// SPDX-License-Identifier: Apache-2.0

import APNSWire

/// Lower-case hexadecimal digits, written where they belong: a string for each request costs more than its header.
enum HexadecimalText {
    /// Writes the two digits of a byte.
    static func write(_ byte: UInt8, to target: UnsafeMutableRawBufferPointer, at position: Int) {
        target[position] = self.digit(byte >> 4)
        target[position + 1] = self.digit(byte & 15)
    }

    private static func digit(_ value: UInt8) -> UInt8 {
        value < 10 ? UInt8(ascii: "0") &+ value : UInt8(ascii: "a") &- 10 &+ value
    }
}

extension [UInt8] {
    mutating func appendHexadecimal(_ token: DeviceToken) {
        self.append(byteCount: 2 * token.byteCount) { target in
            token.withUnsafeBytes { bytes in
                for (index, byte) in bytes.enumerated() { HexadecimalText.write(byte, to: target, at: 2 * index) }
            }
        }
    }

    mutating func appendText(of identifier: PushIdentifier) {
        self.append(byteCount: PushIdentifier.characterCount) { identifier.writeText(to: $0) }
    }

    private mutating func append(byteCount: Int, _ fill: (UnsafeMutableRawBufferPointer) -> Void) {
        let start = self.count
        self.append(contentsOf: repeatElement(0, count: byteCount))
        self.withUnsafeMutableBytes { fill(UnsafeMutableRawBufferPointer(rebasing: $0[start...])) }
    }
}
