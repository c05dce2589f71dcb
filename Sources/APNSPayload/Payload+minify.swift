// SPDX-License-Identifier: Apache-2.0

extension Payload {
    /// Writes a payload without the white space between its tokens into the caller's memory.
    ///
    /// The contents of strings are unchanged. For bytes that are not JSON, the result is unspecified, so check them
    /// first.
    ///
    /// - Parameters:
    ///   - bytes: a payload that passed ``check(_:rules:)-(UnsafeRawBufferPointer,_)``.
    ///   - target: the memory for the result; it must not overlap `bytes`. ``PayloadMeasure/minifiedByteCount`` bytes
    ///     are enough.
    /// - Returns: the number of bytes written, or `nil` if `target` is too small; its content is then unspecified.
    public static func minify(
        _ bytes: UnsafeRawBufferPointer,
        into target: UnsafeMutableRawBufferPointer
    ) -> Int? {
        var input = 0
        var output = 0
        while input < bytes.count {
            let byte = unsafe bytes[input]
            input += 1
            guard byte != 0x20, byte != 0x0A, byte != 0x0D, byte != 0x09 else { continue }
            guard output < target.count else { return nil }
            unsafe target[output] = byte
            output += 1
            guard byte == UInt8(ascii: "\"") else { continue }
            guard unsafe self.copyRestOfString(bytes, &input, into: target, &output) else { return nil }
        }
        return output
    }

    /// Copies a string after its opening quote, including the closing one; `false` if `target` is too small.
    @inline(__always)
    private static func copyRestOfString(
        _ bytes: UnsafeRawBufferPointer,
        _ input: inout Int,
        into target: UnsafeMutableRawBufferPointer,
        _ output: inout Int
    ) -> Bool {
        while true {
            unsafe self.copyPlainWords(bytes, &input, into: target, &output)
            guard input < bytes.count else { return true }
            let byte = unsafe bytes[input]
            // The byte after a backslash never ends the string.
            let count = byte == UInt8(ascii: "\\") && input + 1 < bytes.count ? 2 : 1
            guard count <= target.count - output else { return false }
            for place in 0..<count { unsafe target[output + place] = bytes[input + place] }
            input += count
            output += count
            if byte == UInt8(ascii: "\"") { return true }
        }
    }

    /// Copies eight bytes at a time up to the next quote or backslash, as long as both sides have eight.
    ///
    /// The bytes of a word after that position are overwritten next.
    @inline(__always)
    private static func copyPlainWords(
        _ bytes: UnsafeRawBufferPointer,
        _ input: inout Int,
        into target: UnsafeMutableRawBufferPointer,
        _ output: inout Int
    ) {
        let ones: UInt64 = 0x0101_0101_0101_0101
        while input + 8 <= bytes.count, output + 8 <= target.count {
            let word = unsafe bytes.loadUnaligned(fromByteOffset: input, as: UInt64.self)
            unsafe target.storeBytes(of: word, toByteOffset: output, as: UInt64.self)
            let quotes = UInt64(littleEndian: word) ^ (ones &* UInt64(UInt8(ascii: "\"")))
            let backslashes = UInt64(littleEndian: word) ^ (ones &* UInt64(UInt8(ascii: "\\")))
            let found = ((quotes &- ones) & ~quotes | (backslashes &- ones) & ~backslashes) & (ones &* 0x80)
            guard found == 0 else {
                input += found.trailingZeroBitCount / 8
                output += found.trailingZeroBitCount / 8
                return
            }
            input += 8
            output += 8
        }
    }
}
