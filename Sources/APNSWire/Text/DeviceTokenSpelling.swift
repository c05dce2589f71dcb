// SPDX-License-Identifier: Apache-2.0

/// The text format of a device token in a table or a file.
///
/// Later versions may add cases.
@nonexhaustive
public enum DeviceTokenSpelling: Int, Hashable, Sendable, CaseIterable {
    /// Two lower-case hexadecimal digits a byte, or digits without any letter.
    case hexadecimal
    /// The same in upper case.
    case upperHexadecimal
    /// Hexadecimal digits of both cases in one token.
    case mixedHexadecimal
    /// Hexadecimal digits with spaces between them.
    case spaced
    /// Hexadecimal digits inside angle brackets, as in Objective-C's description of data.
    case bracketed
    /// Base64 of either alphabet, with or without padding.
    case base64
    /// The bytes themselves.
    case blob
    /// A text format stored as a BLOB.
    case textBlob

    /// The name of the format in reports.
    public var name: String {
        switch self {
        case .hexadecimal: "hex"
        case .upperHexadecimal: "HEX"
        case .mixedHexadecimal: "mixed-case hex"
        case .spaced: "spaced hex"
        case .bracketed: "<hex>"
        case .base64: "base64"
        case .blob: "BLOB"
        case .textBlob: "text in a BLOB"
        }
    }
}
