// SPDX-License-Identifier: Apache-2.0

import APNSWire

extension Hexadecimal {
    /// Writes the two digits of a byte where they belong: a string for each request costs more than its header.
    static func write(_ byte: UInt8, to target: UnsafeMutableRawBufferPointer, at position: Int) {
        unsafe target[position] = self.digit(byte >> 4)
        unsafe target[position + 1] = self.digit(byte & 15)
    }
}

extension [UInt8] {
    /// Writes the digits of a token over what is at a position.
    mutating func setHexadecimal(_ token: DeviceToken, at position: Int) {
        precondition(position + 2 * token.byteCount <= self.count)
        unsafe self.withUnsafeMutableBytes { target in
            unsafe token.withUnsafeBytes { bytes in
                for index in 0..<bytes.count {
                    unsafe Hexadecimal.write(bytes[index], to: target, at: position + 2 * index)
                }
            }
        }
    }

    /// Writes the text of an identifier over what is at a position.
    mutating func setText(of identifier: PushIdentifier, at position: Int) {
        precondition(position + PushIdentifier.characterCount <= self.count)
        unsafe self.withUnsafeMutableBytes {
            unsafe identifier.writeText(to: UnsafeMutableRawBufferPointer(rebasing: $0[position...]))
        }
    }
}
