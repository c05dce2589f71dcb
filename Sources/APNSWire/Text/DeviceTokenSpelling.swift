// SPDX-License-Identifier: Apache-2.0

/// How a device token is written in a table or a file.
///
/// There may be more in later versions.
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
    /// Hexadecimal digits inside angle brackets, as Objective-C described data.
    case bracketed
    /// Base64 of either alphabet, with or without padding.
    case base64
    /// The bytes themselves.
    case blob
    /// A text spelling whose bytes are kept as a BLOB.
    case textBlob

    /// The spelling in the words of a report.
    public var name: String {
        switch self {
        case .hexadecimal: "hex"
        case .upperHexadecimal: "HEX"
        case .mixedHexadecimal: "hex of both cases"
        case .spaced: "spaced hex"
        case .bracketed: "<hex>"
        case .base64: "base64"
        case .blob: "BLOB"
        case .textBlob: "text in a BLOB"
        }
    }
}
