// SPDX-License-Identifier: Apache-2.0

extension JSONScanner {
    /// Writes what a scanned string means, as UTF-8, into the caller's memory.
    ///
    /// - Parameters:
    ///   - string: a string that this scanner has passed.
    ///   - target: where the bytes go; ``JSONString/byteCount`` bytes always suffice.
    /// - Returns: the count of bytes written, or `nil` when `target` is too small.
    package func decode(_ string: JSONString, into target: UnsafeMutableRawBufferPointer) -> Int? {
        var output = 0
        var index = 0
        let bytes = unsafe self.bytes(of: string)
        while index < bytes.count {
            var scalar = unsafe UInt32(bytes[index])
            var byteCount = 1
            var isEscaped = false
            if scalar == 0x5C, let (value, count) = unsafe Self.escape(bytes[index...]) {
                scalar = value
                byteCount = count
                isEscaped = true
            }
            index += byteCount
            // A byte that is not escaped goes out as it is, also when it is a part of a longer character.
            let width = isEscaped ? Self.byteCountUTF8(scalar) : 1
            guard output + width <= target.count else { return nil }
            if width == 1 {
                unsafe target[output] = UInt8(truncatingIfNeeded: scalar)
            } else {
                for place in 0..<width {
                    let bits = UInt8(truncatingIfNeeded: scalar >> (6 * UInt32(width - 1 - place)))
                    let lead = UInt8(truncatingIfNeeded: 0xF00 >> width)
                    unsafe target[output + place] = place == 0 ? lead | bits : 0x80 | bits & 0x3F
                }
            }
            output += width
        }
        return output
    }

    /// Reads the escape at the beginning of some bytes that were checked before.
    private static func escape(_ bytes: Slice<UnsafeRawBufferPointer>) -> (scalar: UInt32, byteCount: Int)? {
        let first = unsafe bytes.startIndex
        guard unsafe bytes.count >= 2 else { return nil }
        switch unsafe bytes[first + 1] {
        case UInt8(ascii: "b"): return (0x08, 2)
        case UInt8(ascii: "f"): return (0x0C, 2)
        case UInt8(ascii: "n"): return (0x0A, 2)
        case UInt8(ascii: "r"): return (0x0D, 2)
        case UInt8(ascii: "t"): return (0x09, 2)
        case UInt8(ascii: "u"):
            guard let unit = unsafe self.unit(bytes, at: first + 2) else { return nil }
            guard 0xD800...0xDBFF ~= unit, let low = unsafe self.unit(bytes, at: first + 8) else { return (unit, 6) }
            return (0x10000 + (unit & 0x3FF) << 10 + low & 0x3FF, 12)
        case let byte: return (UInt32(byte), 2)
        }
    }

    private static func unit(_ bytes: Slice<UnsafeRawBufferPointer>, at index: Int) -> UInt32? {
        guard unsafe index + 4 <= bytes.endIndex else { return nil }
        var unit: UInt32 = 0
        for place in index..<(index + 4) {
            guard let digit = unsafe Self.hexValue(bytes[place]) else { return nil }
            unit = unit << 4 | UInt32(digit)
        }
        return unit
    }

    private static func byteCountUTF8(_ scalar: UInt32) -> Int {
        switch scalar {
        case ..<0x80: 1
        case ..<0x800: 2
        case ..<0x10000: 3
        default: 4
        }
    }
}
