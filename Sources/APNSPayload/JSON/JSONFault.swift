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
    /// What is wrong, in a part of a sentence.
    public var description: String {
        switch self {
        case .empty: "there is no JSON value"
        case .unexpectedEnd: "the JSON ends too early"
        case .byteOrderMark: "there is a byte order mark, which JSON does not allow"
        case .nul: "a NUL byte stands outside of a string"
        case .missingValue: "a value is expected"
        case .missingKey: "a key in double quotes is expected"
        case .missingColon: "a colon is expected after a key"
        case .missingCommaOrBrace: "a comma or a closing brace is expected"
        case .missingCommaOrBracket: "a comma or a closing bracket is expected"
        case .trailingComma: "nothing follows a comma"
        case .unterminatedString: "a string has no closing quote"
        case .controlCharacter: "a control character in a string is not escaped"
        case .invalidEscape: "a backslash begins no escape of JSON"
        case .loneSurrogate: "an escaped surrogate lacks its other half"
        case .invalidUTF8: "a string is not valid UTF-8"
        case .leadingZero: "a number begins with a superfluous zero"
        case .missingDigit: "a number lacks a digit"
        case .invalidLiteral: "a word is none of true, false and null"
        case .tooDeep: "objects and arrays are nested more than \(PayloadRules.depthMax) levels deep"
        case .trailingContent: "something follows the end of the JSON"
        }
    }
}
