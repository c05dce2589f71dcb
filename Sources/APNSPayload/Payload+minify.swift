// SPDX-License-Identifier: Apache-2.0

extension Payload {
    /// Writes a payload without the white space between its tokens into the caller's memory.
    ///
    /// What is inside of strings stays as it is. Bytes that are no JSON come out in an unspecified shorter form, so
    /// check first.
    ///
    /// - Parameters:
    ///   - bytes: a payload that passed ``check(_:rules:)-(UnsafeRawBufferPointer,_)``.
    ///   - target: where it goes; it must not overlap `bytes`. ``PayloadMeasure/minifiedByteCount`` bytes suffice.
    /// - Returns: the count of bytes written, or `nil` when `target` is too small; its content is then unspecified.
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

    /// Copies from behind an opening quote to the closing one, that included; `false` when `target` is too small.
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
            // What follows a backslash is never the end.
            let count = byte == UInt8(ascii: "\\") && input + 1 < bytes.count ? 2 : 1
            guard count <= target.count - output else { return false }
            for place in 0..<count { unsafe target[output + place] = bytes[input + place] }
            input += count
            output += count
            if byte == UInt8(ascii: "\"") { return true }
        }
    }

    /// Copies eight bytes at a time up to the next quote or backslash, or as long as both sides have eight.
    ///
    /// What a word brings from behind that place is written over by what comes next.
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
