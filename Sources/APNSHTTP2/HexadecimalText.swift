// SPDX-License-Identifier: Apache-2.0

import APNSWire

/// Lower-case hexadecimal digits, written where they belong: a string for each request costs more than its header.
enum HexadecimalText {
    /// Writes the two digits of a byte.
    static func write(_ byte: UInt8, to target: UnsafeMutableRawBufferPointer, at position: Int) {
        unsafe target[position] = self.digit(byte >> 4)
        unsafe target[position + 1] = self.digit(byte & 15)
    }

    private static func digit(_ value: UInt8) -> UInt8 {
        value < 10 ? UInt8(ascii: "0") &+ value : UInt8(ascii: "a") &- 10 &+ value
    }
}

extension [UInt8] {
    mutating func appendHexadecimal(_ token: DeviceToken) {
        unsafe self.append(byteCount: 2 * token.byteCount) { target in
            unsafe token.withUnsafeBytes { bytes in
                for unsafe(index, byte) in unsafe bytes.enumerated() {
                    unsafe HexadecimalText.write(byte, to: target, at: 2 * index)
                }
            }
        }
    }

    mutating func appendText(of identifier: PushIdentifier) {
        unsafe self.append(byteCount: PushIdentifier.characterCount) { unsafe identifier.writeText(to: $0) }
    }

    private mutating func append(byteCount: Int, _ fill: (UnsafeMutableRawBufferPointer) -> Void) {
        let start = self.count
        self.append(contentsOf: repeatElement(0, count: byteCount))
        unsafe self.withUnsafeMutableBytes { unsafe fill(UnsafeMutableRawBufferPointer(rebasing: $0[start...])) }
    }
}
