// SPDX-License-Identifier: Apache-2.0

/// Why bytes are not a token, a frame, an error response or a feedback tuple.
///
/// No case contains a token or a payload. If a frame's identifier is known, the case contains it.
///
/// Later versions may add cases.
@nonexhaustive
public enum WireError: Error, Hashable, Sendable {
    /// A token of this many bytes; 1 to 100 are valid.
    case tokenByteCount(Int)
    /// An unexpected character in the text of a token, at this offset in bytes.
    case tokenText(position: Int)
    /// The text of a token has this odd number of hexadecimal digits.
    case tokenOddDigitCount(Int)
    /// A payload of this many bytes; 1 to `limit` are valid.
    case payloadByteCount(Int, limit: Int)
    /// A message begins with this byte, which is not a command.
    case unknownCommand(UInt8)
    /// The frame announces a token longer than the limit.
    case tokenTooLong(announced: Int, limit: Int, identifier: UInt32?)
    /// The frame has no token and announces a payload longer than the limit.
    case tokenMissing(identifier: UInt32?)
    /// The frame announces a payload longer than the limit.
    case payloadTooLong(announced: Int, limit: Int, identifier: UInt32?)
    /// A command-2 frame announces more bytes of items than the limit.
    case frameTooLong(announced: UInt32, limit: Int)
    /// An item of a command-2 frame extends past the end of the frame.
    case itemOverrunsFrame(item: UInt8?, identifier: UInt32?)
    /// A command-2 frame has the same item twice.
    case itemRepeated(item: UInt8, identifier: UInt32?)
    /// An item of fixed length has another length.
    case itemWidth(item: UInt8, announced: Int, identifier: UInt32?)
    /// A command-2 frame has an item that the guide does not define; only in strict parsing.
    case itemUnknown(item: UInt8, identifier: UInt32?)
    /// An error response begins with this byte instead of 8.
    case errorResponseCommand(UInt8)
    /// A feedback tuple announces a token of this many bytes; 1 to 100 are valid.
    case feedbackTokenByteCount(Int)
    /// The list of topics in a certificate is malformed.
    case certificateTopics
    /// The value is incomplete: only this many bytes are available.
    case incomplete(byteCount: Int)
    /// There are more bytes after the value, from this offset.
    case trailingBytes(offset: Int)
}

extension WireError {
    /// The status that the gateway sends to the provider for this error; `nil` if it closes the connection without an
    /// error response.
    ///
    /// - SeeAlso: Binary Provider API, table of status codes.
    public var status: ErrorResponse.Status? {
        switch self {
        case .tokenByteCount, .tokenTooLong: .invalidTokenSize
        case .tokenMissing: .missingDeviceToken
        case .payloadByteCount(0, limit: _): .missingPayload
        case .payloadByteCount, .payloadTooLong: .invalidPayloadSize
        case .frameTooLong, .itemOverrunsFrame, .itemRepeated, .itemWidth, .itemUnknown: .protocolError
        case .tokenText, .tokenOddDigitCount: .invalidToken
        case .unknownCommand, .errorResponseCommand, .feedbackTokenByteCount, .certificateTopics, .incomplete,
            .trailingBytes:
            nil
        }
    }

    /// The identifier of the faulty message, if it is known.
    public var identifier: UInt32? {
        switch self {
        case .tokenTooLong(_, _, let identifier), .tokenMissing(let identifier), .payloadTooLong(_, _, let identifier),
            .itemOverrunsFrame(_, let identifier), .itemRepeated(_, let identifier), .itemWidth(_, _, let identifier),
            .itemUnknown(_, let identifier):
            identifier
        case .tokenByteCount, .tokenText, .tokenOddDigitCount, .payloadByteCount, .unknownCommand, .frameTooLong,
            .errorResponseCommand, .feedbackTokenByteCount, .certificateTopics, .incomplete, .trailingBytes:
            nil
        }
    }
}

extension WireError: CustomStringConvertible {
    /// A readable description.
    public var description: String {
        switch self {
        case .tokenByteCount(let count):
            "the device token has \(count) bytes, expected 1 to \(WireLimits.tokenByteCountMax)"
        case .tokenText(let position):
            "invalid device token: unexpected character at position \(position + 1)"
        case .tokenOddDigitCount(let count):
            "the device token has \(count) hexadecimal digits, expected an even number"
        case .payloadByteCount(let count, let limit): "the payload has \(count) bytes, expected 1 to \(limit)"
        case .unknownCommand(let command): "unknown command \(command), expected 0, 1 or 2"
        case .tokenTooLong(let announced, let limit, _):
            "a frame announces a device token of \(announced) bytes, the limit is \(limit)"
        case .tokenMissing: "a frame has no device token"
        case .payloadTooLong(let announced, let limit, _):
            "a frame announces a payload of \(announced) bytes, the limit is \(limit)"
        case .frameTooLong(let announced, let limit):
            "a command-2 frame announces \(announced) bytes of items, the limit is \(limit)"
        case .itemOverrunsFrame(let item, _):
            "item \(item.map(String.init) ?? "header") of a command-2 frame extends past the end of the frame"
        case .itemRepeated(let item, _): "item \(item) is repeated in a command-2 frame"
        case .itemWidth(let item, let announced, _):
            "item \(item) of a command-2 frame has an invalid length of \(announced) bytes"
        case .itemUnknown(let item, _): "a command-2 frame has the unknown item \(item)"
        case .errorResponseCommand(let command): "invalid error response: it begins with \(command), expected 8"
        case .feedbackTokenByteCount(let count):
            "a feedback tuple announces a device token of \(count) bytes, expected 1 to \(WireLimits.tokenByteCountMax)"
        case .certificateTopics: "the certificate's list of topics is malformed"
        case .incomplete(let count): "incomplete message: more than the \(count) available bytes are expected"
        case .trailingBytes(let offset): "unexpected bytes after the end of the value at byte \(offset)"
        }
    }
}
