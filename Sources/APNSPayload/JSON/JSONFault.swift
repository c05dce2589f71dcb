// SPDX-License-Identifier: Apache-2.0

/// What keeps some bytes from being JSON, without the place and without a word of what they say.
///
/// There may be more in later versions.
///
/// - SeeAlso: RFC 8259.
@nonexhaustive
public enum JSONFault: UInt8, Hashable, Sendable, CaseIterable {
    /// There is nothing, or nothing but white space.
    case empty
    /// The bytes end inside the value.
    case unexpectedEnd
    /// The bytes begin with U+FEFF, which JSON forbids to add.
    case byteOrderMark
    /// A NUL byte stands outside of a string.
    case nul
    /// No value begins where one must.
    case missingValue
    /// No key begins where one must.
    case missingKey
    /// No colon follows a key.
    case missingColon
    /// Neither a comma nor a closing brace follows a member of an object.
    case missingCommaOrBrace
    /// Neither a comma nor a closing bracket follows an element of an array.
    case missingCommaOrBracket
    /// A comma is followed by the end of its object or array.
    case trailingComma
    /// A string has no closing quote.
    case unterminatedString
    /// A character below U+0020 stands in a string without an escape.
    case controlCharacter
    /// A backslash begins none of the escapes of JSON.
    case invalidEscape
    /// An escape names one half of a surrogate pair, and the other half is missing.
    case loneSurrogate
    /// The bytes in a string are no UTF-8: overlong, a surrogate, beyond U+10FFFF, cut short, or never legal.
    case invalidUTF8
    /// A number has a zero before its other digits.
    case leadingZero
    /// A number lacks a digit.
    case missingDigit
    /// A word begins like a literal and is none.
    case invalidLiteral
    /// Objects and arrays are nested beyond ``PayloadRules/depthMax``.
    case tooDeep
    /// Something follows the value.
    case trailingContent
}

extension JSONFault: CustomStringConvertible {
    /// What is wrong, in a few words.
    public var description: String {
        switch self {
        case .empty: "no JSON value"
        case .unexpectedEnd: "unexpected end of JSON"
        case .byteOrderMark: "unexpected byte order mark"
        case .nul: "NUL byte outside a string"
        case .missingValue: "expected a value"
        case .missingKey: "expected a key in double quotes"
        case .missingColon: "expected a colon after the key"
        case .missingCommaOrBrace: "expected a comma or a closing brace"
        case .missingCommaOrBracket: "expected a comma or a closing bracket"
        case .trailingComma: "trailing comma"
        case .unterminatedString: "unterminated string"
        case .controlCharacter: "unescaped control character in a string"
        case .invalidEscape: "invalid escape sequence in a string"
        case .loneSurrogate: "unpaired surrogate in a string"
        case .invalidUTF8: "invalid UTF-8 in a string"
        case .leadingZero: "number with a leading zero"
        case .missingDigit: "number with a missing digit"
        case .invalidLiteral: "invalid literal: expected true, false or null"
        case .tooDeep: "objects and arrays are nested more than \(PayloadRules.depthMax) levels deep"
        case .trailingContent: "unexpected text after the end of the JSON value"
        }
    }
}
