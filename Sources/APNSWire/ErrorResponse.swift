// SPDX-License-Identifier: Apache-2.0

public import NIOCore

/// The gateway's only message: what was wrong with one notification, or that the gateway shuts down.
///
/// | bytes | field      | value                                         |
/// |--------|------------|-----------------------------------------------|
/// | 1      | command    | always 8                                      |
/// | 1      | status     | see ``Status-swift.struct``                   |
/// | 4      | identifier | as the notification had it, big-endian        |
///
/// It is sent at most once per connection, which then closes.
///
/// - SeeAlso: Binary Provider API, "error-response packet".
public struct ErrorResponse: Hashable, Sendable {
    /// The first byte of every error response.
    public static let command: UInt8 = 8

    /// What was wrong.
    public var status: Status

    /// The offending notification, or with ``Status-swift.struct/shutdown`` the last one that was forwarded to its
    /// device; 0 if the gateway does not know it.
    public var identifier: UInt32

    /// Creates a response.
    ///
    /// - Parameters:
    ///   - status: what was wrong.
    ///   - identifier: the notification that it is about.
    public init(status: Status, identifier: UInt32) {
        self.status = status
        self.identifier = identifier
    }

    /// Reads one response; `nil`, with `buffer` unchanged, if fewer than six bytes are available.
    ///
    /// - Parameter buffer: bytes from the gateway; six are consumed.
    /// - Throws: ``WireError/errorResponseCommand(_:)`` as soon as the first byte is not 8.
    public init?(parsing buffer: inout ByteBuffer) throws(WireError) {
        guard let command = buffer.getInteger(at: buffer.readerIndex, as: UInt8.self) else { return nil }
        guard command == ErrorResponse.command else { throw .errorResponseCommand(command) }
        guard let (_, status, identifier) = buffer.readMultipleIntegers(as: (UInt8, UInt8, UInt32).self) else {
            return nil
        }
        self.init(status: Status(rawValue: status), identifier: identifier)
    }

    /// Reads one response from the front of the bytes; `nil`, with them unchanged, if fewer than six are available.
    ///
    /// - Parameter bytes: bytes from the gateway; six are consumed.
    /// - Throws: ``WireError/errorResponseCommand(_:)`` as soon as the first byte is not 8.
    public init?(parsing bytes: inout ArraySlice<UInt8>) throws(WireError) {
        var buffer = ByteBuffer(bytes: bytes.prefix(WireLimits.errorResponseByteCount))
        try self.init(parsing: &buffer)
        bytes.removeFirst(WireLimits.errorResponseByteCount)
    }

    /// Reads the six bytes of a response.
    ///
    /// - Parameter bytes: exactly the bytes of the response.
    /// - Throws: ``WireError/errorResponseCommand(_:)``, ``WireError/incomplete(byteCount:)`` for fewer bytes,
    ///   ``WireError/trailingBytes(offset:)`` for more.
    public init(_ bytes: some Collection<UInt8>) throws(WireError) {
        self = try WholeValue.read(bytes) { (bytes) throws(WireError) in try ErrorResponse(parsing: &bytes) }
    }

    /// The six bytes.
    public var bytes: [UInt8] {
        var buffer = ByteBuffer()
        self.write(into: &buffer)
        return Array(buffer.readableBytesView)
    }

    /// Writes the six bytes.
    ///
    /// - Parameter buffer: the buffer to append to.
    public func write(into buffer: inout ByteBuffer) {
        buffer.writeMultipleIntegers(ErrorResponse.command, self.status.rawValue, self.identifier)
    }
}

extension ErrorResponse {
    /// The status code of an error response; undocumented codes are kept as received.
    public struct Status: RawRepresentable, Hashable, Sendable {
        /// The code on the wire.
        public var rawValue: UInt8

        /// Creates a status from any code, documented or not.
        ///
        /// - Parameter rawValue: the code on the wire.
        @inlinable
        public init(rawValue: UInt8) { self.rawValue = rawValue }

        /// 0: no errors encountered.
        ///
        /// Documented, but never observed.
        public static let noErrors = Status(rawValue: 0)
        /// 1: processing error.
        ///
        /// Usually temporary.
        public static let processingError = Status(rawValue: 1)
        /// 2: missing device token.
        ///
        /// Also the answer to a probe.
        public static let missingDeviceToken = Status(rawValue: 2)
        /// 3: missing topic.
        public static let missingTopic = Status(rawValue: 3)
        /// 4: missing payload.
        public static let missingPayload = Status(rawValue: 4)
        /// 5: invalid token size.
        public static let invalidTokenSize = Status(rawValue: 5)
        /// 6: invalid topic size.
        public static let invalidTopicSize = Status(rawValue: 6)
        /// 7: invalid payload size.
        public static let invalidPayloadSize = Status(rawValue: 7)
        /// 8: invalid token.
        ///
        /// Often a token of the other environment or of another app.
        public static let invalidToken = Status(rawValue: 8)
        /// 10: shutdown.
        ///
        /// The identifier is that of the last notification that was sent.
        public static let shutdown = Status(rawValue: 10)
        /// 128: protocol error; the message could not be parsed.
        public static let protocolError = Status(rawValue: 128)
        /// 255: none of these, unknown.
        public static let unknown = Status(rawValue: 255)
    }
}

extension ErrorResponse.Status {
    /// The name of the code, as in `invalid token`; `nil` for an undocumented code.
    public var name: String? { self.staticName?.description }

    /// ``name`` without an allocation.
    package var staticName: StaticString? {
        switch self {
        case .noErrors: "no errors"
        case .processingError: "processing error"
        case .missingDeviceToken: "missing device token"
        case .missingTopic: "missing topic"
        case .missingPayload: "missing payload"
        case .invalidTokenSize: "invalid token size"
        case .invalidTopicSize: "invalid topic size"
        case .invalidPayloadSize: "invalid payload size"
        case .invalidToken: "invalid token"
        case .shutdown: "shutdown"
        case .protocolError: "protocol error"
        case .unknown: "unknown"
        default: nil
        }
    }
}

extension ErrorResponse.Status {
    /// What the code says about a notification, for logs that have no better explanation.
    package var meaning: String {
        switch self {
        case .noErrors: "nothing is wrong"
        case .processingError: "the notification could not be processed"
        case .missingDeviceToken: "the notification has no device token"
        case .missingTopic: "the topic is missing or not permitted"
        case .missingPayload: "the notification has no payload"
        case .invalidTokenSize: "the device token has an invalid length"
        case .invalidTopicSize: "the topic has an invalid length"
        case .invalidPayloadSize: "the payload is too long"
        case .invalidToken: "the device token is not valid for this app and environment"
        case .shutdown: "the listener shuts down, or the service is not available"
        case .protocolError: "the message could not be parsed"
        case .unknown: "the service gave no reason"
        default: "undocumented status"
        }
    }
}

extension ErrorResponse.Status: CustomStringConvertible {
    /// The code and its name.
    public var description: String { "\(self.rawValue) (\(self.name ?? "undocumented"))" }
}

extension ErrorResponse.Status: Codable {}

extension ErrorResponse: Codable {}

extension ErrorResponse: CustomStringConvertible {
    /// The identifier, and the status with its name.
    public var description: String { "identifier \(self.identifier): status \(self.status)" }
}
