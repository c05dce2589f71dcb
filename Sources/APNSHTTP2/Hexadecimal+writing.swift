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
    mutating func appendHexadecimal(_ token: DeviceToken) {
        unsafe self.append(byteCount: 2 * token.byteCount) { target in
            unsafe token.withUnsafeBytes { bytes in
                for index in 0..<bytes.count {
                    unsafe Hexadecimal.write(bytes[index], to: target, at: 2 * index)
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
