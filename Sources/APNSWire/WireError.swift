// SPDX-License-Identifier: Apache-2.0

/// What keeps bytes from being a token, a frame, an error response or a feedback tuple.
///
/// No case carries a token or a payload. Where a frame's identifier was already known, the case carries it.
///
/// There may be more in later versions.
@nonexhaustive
public enum WireError: Error, Hashable, Sendable {
    /// A token of this many bytes, where 1 to 100 are legal.
    case tokenByteCount(Int)
    /// A character that has no place in the text of a token, at this offset in bytes from 0.
    case tokenText(position: Int)
    /// The text of a token holds this odd number of hexadecimal digits.
    case tokenOddDigitCount(Int)
    /// A payload of this many bytes, where 1 to `limit` are legal.
    case payloadByteCount(Int, limit: Int)
    /// A message begins with this byte, which is no command.
    case unknownCommand(UInt8)
    /// The frame announces a token longer than the limit.
    case tokenTooLong(announced: Int, limit: Int, identifier: UInt32?)
    /// The frame has no token and announces a payload longer than the limit.
    case tokenMissing(identifier: UInt32?)
    /// The frame announces a payload longer than the limit.
    case payloadTooLong(announced: Int, limit: Int, identifier: UInt32?)
    /// A command-2 frame announces more bytes of items than the limit.
    case frameTooLong(announced: UInt32, limit: Int)
    /// An item of a command-2 frame is cut off by the frame's end.
    case itemOverrunsFrame(item: UInt8?, identifier: UInt32?)
    /// A command-2 frame has the same item twice.
    case itemRepeated(item: UInt8, identifier: UInt32?)
    /// An item of fixed width has another width.
    case itemWidth(item: UInt8, announced: Int, identifier: UInt32?)
    /// A command-2 frame has an item that the guide does not name; only in strict reading.
    case itemUnknown(item: UInt8, identifier: UInt32?)
    /// An error response begins with this byte instead of 8.
    case errorResponseCommand(UInt8)
    /// A feedback tuple announces a token of this many bytes, where 1 to 100 are legal.
    case feedbackTokenByteCount(Int)
    /// The topics in a certificate are not encoded as they should be.
    case certificateTopics
    /// The bytes end before the value that they begin; so many there are.
    case incomplete(byteCount: Int)
    /// Behind a whole value there is more, from this offset in bytes on.
    case trailingBytes(offset: Int)
}

extension WireError {
    /// What the gateway tells the provider about a message with this fault; `nil` where it closes without a word.
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

    /// The identifier of the message with this fault, where it was known.
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
    /// A sentence for people.
    public var description: String {
        switch self {
        case .tokenByteCount(let count):
            "the device token has \(count) bytes; 1 to \(WireLimits.tokenByteCountMax) are legal"
        case .tokenText(let position):
            "character \(position + 1) of the device token is no hexadecimal digit, space or bracket in its place"
        case .tokenOddDigitCount(let count):
            "the device token has \(count) hexadecimal digits; two make a byte, so one is missing"
        case .payloadByteCount(let count, let limit): "the payload has \(count) bytes; 1 to \(limit) are legal"
        case .unknownCommand(let command): "a message begins with \(command), which is no command (0, 1 or 2)"
        case .tokenTooLong(let announced, let limit, _):
            "a frame announces a device token of \(announced) bytes; at most \(limit) are legal"
        case .tokenMissing: "a frame has no device token"
        case .payloadTooLong(let announced, let limit, _):
            "a frame announces a payload of \(announced) bytes; at most \(limit) are legal"
        case .frameTooLong(let announced, let limit):
            "a command-2 frame announces \(announced) bytes of items; at most \(limit) are read"
        case .itemOverrunsFrame(let item, _):
            "item \(item.map(String.init) ?? "header") of a command-2 frame goes past the frame's end"
        case .itemRepeated(let item, _): "item \(item) stands twice in a command-2 frame"
        case .itemWidth(let item, let announced, _): "item \(item) of a command-2 frame has \(announced) bytes"
        case .itemUnknown(let item, _): "a command-2 frame has an item \(item), which the protocol does not know"
        case .errorResponseCommand(let command): "an error response begins with \(command) instead of 8"
        case .feedbackTokenByteCount(let count):
            "a feedback tuple announces a device token of \(count) bytes; "
                + "1 to \(WireLimits.tokenByteCountMax) are legal"
        case .certificateTopics: "the certificate's list of topics is not encoded as Apple's are"
        case .incomplete(let count): "the bytes end too early: there are \(count), and more are announced or due"
        case .trailingBytes(let offset): "there are bytes too many: the value ends before byte \(offset)"
        }
    }
}
