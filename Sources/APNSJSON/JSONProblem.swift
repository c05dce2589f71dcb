// SPDX-License-Identifier: Apache-2.0

/// Why bytes are not JSON, without their place or content.
///
/// Later versions may add cases.
///
/// - SeeAlso: RFC 8259.
@nonexhaustive
public enum JSONProblem: UInt8, Hashable, Sendable, CaseIterable {
    /// There are no bytes other than white space.
    case empty
    /// The bytes end inside the value.
    case unexpectedEnd
    /// The bytes begin with U+FEFF, which JSON forbids.
    case byteOrderMark
    /// A NUL byte is outside a string.
    case nul
    /// A value is missing.
    case missingValue
    /// A key is missing.
    case missingKey
    /// The colon after a key is missing.
    case missingColon
    /// A comma or closing brace is missing after a member of an object.
    case missingCommaOrBrace
    /// A comma or closing bracket is missing after an element of an array.
    case missingCommaOrBracket
    /// A comma is followed by the end of its object or array.
    case trailingComma
    /// A string has no closing quote.
    case unterminatedString
    /// A character below U+0020 is not escaped in a string.
    case controlCharacter
    /// A backslash does not begin a valid escape.
    case invalidEscape
    /// An escape is one half of a surrogate pair without the other half.
    case loneSurrogate
    /// The bytes of a string are not UTF-8: overlong, a surrogate, above U+10FFFF, truncated, or never valid.
    case invalidUTF8
    /// A number has a leading zero.
    case leadingZero
    /// A number lacks a digit.
    case missingDigit
    /// A word that is not a literal.
    case invalidLiteral
    /// Objects and arrays are nested deeper than 64 levels.
    case tooDeep
    /// The value is followed by other content.
    case trailingContent
}

extension JSONProblem: CustomStringConvertible {
    /// What is wrong, as part of a sentence.
    public var description: String {
        switch self {
        case .empty: "no JSON value found"
        case .unexpectedEnd: "unexpected end of the JSON"
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
        case .invalidEscape: "invalid escape in a string"
        case .loneSurrogate: "unpaired surrogate in a string"
        case .invalidUTF8: "invalid UTF-8 in a string"
        case .leadingZero: "leading zero in a number"
        case .missingDigit: "expected a digit in a number"
        case .invalidLiteral: "expected true, false or null"
        case .tooDeep: "objects and arrays are nested deeper than \(JSONScanner.depthMax) levels"
        case .trailingContent: "unexpected content after the end of the JSON"
        }
    }
}
