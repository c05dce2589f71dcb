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
            if octet == UInt8(ascii: "\"") {
                let octetCount = unsafe self.restOfString(octets, from: input)
                guard octetCount <= target.count - output else { return nil }
                unsafe self.copy(octets, from: input, octetCount: octetCount, to: target, at: output)
                input += octetCount
                output += octetCount
            }
        }
        return output
    }

    /// Counts the octets from behind an opening quote to the closing one, that included.
    private static func restOfString(_ octets: UnsafeRawBufferPointer, from first: Int) -> Int {
        let ones: UInt64 = 0x0101_0101_0101_0101
        var index = first
        while index < octets.count {
            while index + 8 <= octets.count {
                let word = unsafe UInt64(littleEndian: octets.loadUnaligned(fromByteOffset: index, as: UInt64.self))
                let quotes = word ^ (ones &* UInt64(UInt8(ascii: "\"")))
                let backslashes = word ^ (ones &* UInt64(UInt8(ascii: "\\")))
                let found = ((quotes &- ones) & ~quotes | (backslashes &- ones) & ~backslashes) & (ones &* 0x80)
                index += found.trailingZeroBitCount / 8
                if found != 0 { break }
            }
            guard index < octets.count else { break }
            switch unsafe octets[index] {
            case UInt8(ascii: "\""): return index + 1 - first
            case UInt8(ascii: "\\"): index += 2
            default: index += 1
            }
        }
        return octets.count - first
    }

    /// Copies by words, since most strings are shorter than what a call of a library function is worth.
    @inline(__always)
    private static func copy(
        _ source: UnsafeRawBufferPointer,
        from input: Int,
        octetCount: Int,
        to target: UnsafeMutableRawBufferPointer,
        at output: Int
    ) {
        var index = 0
        while index + 8 <= octetCount {
            let word = unsafe source.loadUnaligned(fromByteOffset: input + index, as: UInt64.self)
            unsafe target.storeBytes(of: word, toByteOffset: output + index, as: UInt64.self)
            index += 8
        }
        while index < octetCount {
            unsafe target[output + index] = source[input + index]
            index += 1
        }
    }
}
