// SPDX-License-Identifier: Apache-2.0

extension Payload {
    /// Writes a payload without the white space between its tokens into the caller's memory.
    ///
    /// What is inside of strings stays as it is. Octets that are no JSON come out in an unspecified shorter form, so
    /// check first.
    ///
    /// - Parameters:
    ///   - octets: a payload that passed ``check(_:rules:)-(UnsafeRawBufferPointer,_)``.
    ///   - target: where it goes; it must not overlap `octets`. ``PayloadMeasure/minifiedOctetCount`` octets suffice.
    /// - Returns: the count of octets written, or `nil` when `target` is too small; its content is then unspecified.
    public static func minify(
        _ octets: UnsafeRawBufferPointer,
        into target: UnsafeMutableRawBufferPointer
    ) -> Int? {
        var input = 0
        var output = 0
        while input < octets.count {
            let octet = unsafe octets[input]
            input += 1
            guard octet != 0x20, octet != 0x0A, octet != 0x0D, octet != 0x09 else { continue }
            guard output < target.count else { return nil }
            unsafe target[output] = octet
            output += 1
            guard octet == UInt8(ascii: "\"") else { continue }
            guard unsafe self.copyRestOfString(octets, &input, into: target, &output) else { return nil }
        }
        return output
    }

    /// Copies from behind an opening quote to the closing one, that included; `false` when `target` is too small.
    @inline(__always)
    private static func copyRestOfString(
        _ octets: UnsafeRawBufferPointer,
        _ input: inout Int,
        into target: UnsafeMutableRawBufferPointer,
        _ output: inout Int
    ) -> Bool {
        while true {
            unsafe self.copyPlainWords(octets, &input, into: target, &output)
            guard input < octets.count else { return true }
            let octet = unsafe octets[input]
            // What follows a backslash is never the end.
            let count = octet == UInt8(ascii: "\\") && input + 1 < octets.count ? 2 : 1
            guard count <= target.count - output else { return false }
            for place in 0..<count { unsafe target[output + place] = octets[input + place] }
            input += count
            output += count
            if octet == UInt8(ascii: "\"") { return true }
        }
    }

    /// Copies eight octets at a time up to the next quote or backslash, or as long as both sides have eight.
    ///
    /// What a word brings from behind that place is written over by what comes next.
    @inline(__always)
    private static func copyPlainWords(
        _ octets: UnsafeRawBufferPointer,
        _ input: inout Int,
        into target: UnsafeMutableRawBufferPointer,
        _ output: inout Int
    ) {
        let ones: UInt64 = 0x0101_0101_0101_0101
        while input + 8 <= octets.count, output + 8 <= target.count {
            let word = unsafe octets.loadUnaligned(fromByteOffset: input, as: UInt64.self)
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
