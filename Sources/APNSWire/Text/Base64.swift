// SPDX-License-Identifier: Apache-2.0

/// Base64 in both of its alphabets.
///
/// - SeeAlso: RFC 4648, 4 and 5.
package enum Base64 {
    private static let common = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
    private static let forAddresses = Array(Self.common.dropLast(2) + "-_".utf8)

    /// The value of a character of either alphabet, 0 to 63; `nil` for any other.
    static func value(_ character: UInt8) -> UInt32? {
        switch character {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"): UInt32(character - UInt8(ascii: "A"))
        case UInt8(ascii: "a")...UInt8(ascii: "z"): UInt32(character - UInt8(ascii: "a")) + 26
        case UInt8(ascii: "0")...UInt8(ascii: "9"): UInt32(character - UInt8(ascii: "0")) + 52
        case UInt8(ascii: "+"), UInt8(ascii: "-"): 62
        case UInt8(ascii: "/"), UInt8(ascii: "_"): 63
        default: nil
        }
    }

    /// Whether a text is base64, in either alphabet, with padding or without; it may be empty.
    package static func isText(_ text: some StringProtocol) -> Bool {
        let paddingCount = text.utf8.reversed().prefix { $0 == UInt8(ascii: "=") }.count
        let count = text.utf8.count - paddingCount
        guard paddingCount == 0 || paddingCount <= 2 && text.utf8.count.isMultiple(of: 4), count % 4 != 1 else {
            return false
        }
        return text.utf8.prefix(count).allSatisfy { self.value($0) != nil }
    }

    /// Encodes bytes in the standard alphabet, with padding.
    package static func text(_ bytes: some Sequence<UInt8>) -> String {
        var text = self.characters(of: bytes, in: self.common)
        while !text.count.isMultiple(of: 4) { text.append(UInt8(ascii: "=")) }
        return String(decoding: text, as: UTF8.self)
    }

    /// Encodes bytes in the URL-safe alphabet, without padding.
    package static func addressText(_ bytes: some Sequence<UInt8>) -> String {
        String(decoding: self.characters(of: bytes, in: self.forAddresses), as: UTF8.self)
    }

    /// Decodes the URL-safe alphabet.
    ///
    /// Returns `nil` for any other text, including padded text.
    package static func bytes(addressText text: some StringProtocol) -> [UInt8]? {
        guard text.utf8.count % 4 != 1, !text.utf8.contains(where: { "+/".utf8.contains($0) }) else { return nil }
        var bytes: [UInt8] = []
        var bits: UInt32 = 0
        var bitCount: UInt32 = 0
        for character in text.utf8 {
            guard let value = self.value(character) else { return nil }
            bits = bits << 6 | value
            bitCount += 6
            if bitCount >= 8 {
                bitCount -= 8
                bytes.append(UInt8(truncatingIfNeeded: bits >> bitCount))
            }
        }
        return bytes
    }

    private static func characters(of bytes: some Sequence<UInt8>, in alphabet: [UInt8]) -> [UInt8] {
        var characters: [UInt8] = []
        var bits: UInt32 = 0
        var bitCount: UInt32 = 0
        for byte in bytes {
            bits = bits << 8 | UInt32(byte)
            bitCount += 8
            while bitCount >= 6 {
                bitCount -= 6
                characters.append(alphabet[Int(bits >> bitCount & 63)])
            }
        }
        if bitCount > 0 { characters.append(alphabet[Int(bits << (6 - bitCount) & 63)]) }
        return characters
    }
}
