// SPDX-License-Identifier: Apache-2.0

/// One hexadecimal digit of a device token's text.
@usableFromInline
enum HexadecimalDigit {
    /// The value of a digit, 0 to 15, or 255 for any other character.
    @inlinable
    static func value(_ character: UInt8) -> UInt8 {
        let digit = character &- UInt8(ascii: "0")
        let letter = (character | 0x20) &- UInt8(ascii: "a")
        return digit < 10 ? digit : letter < 6 ? letter &+ 10 : 255
    }

    /// The lower-case character of a value of 0 to 15.
    @inlinable
    static func character(_ value: UInt8) -> UInt8 {
        value < 10 ? UInt8(ascii: "0") &+ value : UInt8(ascii: "a") &- 10 &+ value
    }
}
