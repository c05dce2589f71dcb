// SPDX-License-Identifier: Apache-2.0

public import NIOCore

/// A message as the gateway parses it: a notification in one of the three formats, possibly an invalid one.
///
/// The token and payload may be missing: the gateway decides what that means and reports it (a probe is such a frame).
///
/// Commands 0 and 1; command 0 has neither identifier nor expiry:
///
/// | bytes | field          | value                                          |
/// |--------|----------------|------------------------------------------------|
/// | 1      | command        | 0 or 1                                         |
/// | 4      | identifier     | opaque, echoed in the error response           |
/// | 4      | expiry         | seconds since 1970 (UTC); 0: not stored        |
/// | 2      | token length   | 32 in practice                                 |
/// | n      | token          |                                                |
/// | 2      | payload length |                                                |
/// | n      | payload        | JSON text in UTF-8                             |
///
/// Command 2, in which each item is one byte of item number, two bytes of length, and its data:
///
/// | bytes | field          | value                                          |
/// |--------|----------------|------------------------------------------------|
/// | 1      | command        | 2                                              |
/// | 4      | frame length   | bytes of all items                            |
/// | n      | items          | see ``Item``, in any order                     |
///
/// - SeeAlso: Binary Provider API; Legacy Notification Format.
public struct NotificationFrame: Hashable, Sendable {
    /// The format of the message.
    public var command: Command

    /// The identifier that an error response refers to; `nil` in command 0, and in command 2 without item 3.
    public var identifier: UInt32?

    /// Seconds since 1970 (UTC), 0 for not stored; `nil` in command 0, and in command 2 without item 4.
    public var expiry: UInt32?

    /// Item 5 of command 2; otherwise `nil`.
    public var priority: UInt8?

    /// The recipient; `nil` if the token is missing or empty.
    public var token: DeviceToken?

    /// The payload; empty if it is missing.
    public var payload: ByteBuffer

    /// Reads one frame; `nil`, with `buffer` unchanged, if it is incomplete.
    ///
    /// - Parameters:
    ///   - buffer: bytes from a provider, split anywhere; those of one frame are consumed.
    ///   - limits: the allowed lengths, checked before the announced bytes arrive.
    /// - Throws: ``WireError`` for a length over its limit, an unknown command, or items that do not fit their frame.
    public init?(parsing buffer: inout ByteBuffer, limits: FrameLimits = FrameLimits()) throws(WireError) {
        let found: Result<FrameLayout?, WireError> = unsafe buffer.withUnsafeReadableBytes { bytes in
            do throws(WireError) {
                return .success(try unsafe FrameLayout(parsing: bytes, limits: limits))
            } catch {
                return .failure(error)
            }
        }
        guard let layout = try found.get() else { return nil }
        try self.init(layout, of: buffer)
        buffer.moveReaderIndex(forwardBy: layout.byteCount)
    }

    /// Reads one frame from the front of the bytes; `nil`, with them unchanged, if it is incomplete.
    ///
    /// - Parameters:
    ///   - bytes: bytes from a provider, split anywhere; those of the frame are consumed.
    ///   - limits: the allowed lengths.
    /// - Throws: ``WireError`` for a length over its limit, an unknown command, or items that do not fit their frame.
    public init?(
        parsing bytes: inout ArraySlice<UInt8>,
        limits: FrameLimits = FrameLimits()
    ) throws(WireError) {
        let found: Result<FrameLayout?, WireError> = unsafe bytes.withUnsafeBytes { bytes in
            do throws(WireError) {
                return .success(try unsafe FrameLayout(parsing: bytes, limits: limits))
            } catch {
                return .failure(error)
            }
        }
        guard let layout = try found.get() else { return nil }
        try self.init(layout, of: ByteBuffer(bytes: bytes.prefix(layout.byteCount)))
        bytes.removeFirst(layout.byteCount)
    }

    /// Reads the bytes of one frame.
    ///
    /// - Parameters:
    ///   - bytes: exactly the bytes of the frame.
    ///   - limits: the allowed lengths.
    /// - Throws: ``WireError`` for a length over its limit, an unknown command, or items that do not fit their frame;
    ///   ``WireError/incomplete(byteCount:)`` for fewer bytes, ``WireError/trailingBytes(offset:)`` for more.
    public init(_ bytes: some Collection<UInt8>, limits: FrameLimits = FrameLimits()) throws(WireError) {
        self = try WholeValue.read(bytes) { (bytes) throws(WireError) in
            try NotificationFrame(parsing: &bytes, limits: limits)
        }
    }

    /// Copies the parts from the readable bytes of a buffer.
    private init(_ layout: FrameLayout, of buffer: ByteBuffer) throws(WireError) {
        let start = buffer.readerIndex
        var token: DeviceToken?
        if layout.tokenByteCount > 0,
            let bytes = buffer.viewBytes(at: start + layout.tokenOffset, length: layout.tokenByteCount)
        {
            token = try DeviceToken(bytes: bytes)
        }
        self.init(
            token: token,
            payload: buffer.getSlice(at: start + layout.payloadOffset, length: layout.payloadByteCount) ?? ByteBuffer(),
            expiry: layout.expiry,
            priority: layout.priority,
            identifier: layout.identifier,
            command: layout.command
        )
    }
}

// MARK: - Items of command 2

extension NotificationFrame {
    /// The item numbers of command 2.
    @frozen
    public enum Item: UInt8, CaseIterable, Hashable, Sendable {
        /// 1: the device token; exactly one.
        case deviceToken = 1
        /// 2: the payload; exactly one.
        case payload = 2
        /// 3: the identifier, four bytes.
        case identifier = 3
        /// 4: the expiry, four bytes.
        case expiry = 4
        /// 5: the priority, one byte.
        case priority = 5

        /// The required length of its data in bytes, if it is fixed.
        var byteCount: Int? {
            switch self {
            case .deviceToken, .payload: nil
            case .identifier, .expiry: 4
            case .priority: 1
            }
        }
    }
}

// MARK: - Values

extension NotificationFrame {
    /// Creates a frame from its parts, which may be invalid.
    ///
    /// - Parameters:
    ///   - token: the recipient; `nil` for none.
    ///   - payload: JSON text; may be empty.
    ///   - expiry: seconds since 1970 (UTC), 0 for not stored.
    ///   - priority: 10 or 5 according to the guide.
    ///   - identifier: the identifier that an error response refers to.
    ///   - command: the format; values that it has no field for are omitted.
    public init(
        token: DeviceToken?,
        payload: ByteBuffer,
        expiry: UInt32? = nil,
        priority: UInt8? = nil,
        identifier: UInt32? = nil,
        command: Command
    ) {
        self.command = command
        self.identifier = identifier
        self.expiry = expiry
        self.priority = priority
        self.token = token
        self.payload = payload
    }

    /// The expiry of a command 1 frame without one, since its field is mandatory: 2038-01-19.
    public static let keptAsLongAsPossible: UInt32 = 0x7FFF_FFFF

    /// Creates the frame of a notification.
    ///
    /// The frame contains what its command has fields for, as a gateway reads it: a priority only in command 2, and in
    /// command 1 always an expiry, ``keptAsLongAsPossible`` for ``PushExpiry/none``.
    ///
    /// - Parameters:
    ///   - notification: the notification.
    ///   - identifier: the identifier that an error response refers to; command 1 writes 0 if it is `nil`.
    ///   - command: the format; by default ``Command/enhanced``.
    public init(_ notification: PushNotification, identifier: UInt32? = nil, command: Command = .enhanced) {
        self.init(token: notification.token, payload: notification.payload, command: command)
        switch command {
        case .simple: break
        case .enhanced:
            self.identifier = identifier ?? 0
            self.expiry = notification.expiry.wireValue ?? Self.keptAsLongAsPossible
        case .items:
            self.identifier = identifier
            self.expiry = notification.expiry.wireValue
            self.priority = notification.priority?.rawValue
        }
    }

    /// The notification in the frame; `nil` if it has no token.
    ///
    /// A ``priority`` that the service does not know, such as 0, counts as none.
    public var notification: PushNotification? {
        self.token.map {
            PushNotification(
                token: $0,
                payload: self.payload,
                expiry: PushExpiry(wireValue: self.expiry),
                priority: self.priority.flatMap { PushPriority(rawValue: $0) }
            )
        }
    }

    /// The bytes of the payload; empty if it is missing.
    public var payloadBytes: [UInt8] { Array(self.payload.readableBytesView) }

    /// A probe: a frame without token and payload.
    ///
    /// The gateway answers with status 2 and this identifier after it processed everything before it.
    ///
    /// - Parameters:
    ///   - identifier: the next identifier of the connection.
    ///   - command: 1 or 2; command 0 has no identifier.
    /// - Returns: the frame.
    public static func probe(identifier: UInt32, command: Command) -> NotificationFrame {
        let priority: UInt8? = command == .items ? 10 : nil
        return NotificationFrame(
            token: nil,
            payload: ByteBuffer(),
            expiry: 0,
            priority: priority,
            identifier: identifier,
            command: command == .simple ? .enhanced : command
        )
    }

    /// Whether it is a probe: it has neither token nor payload.
    public var isProbe: Bool { self.token == nil && self.payload.readableBytes == 0 }

    /// The bytes of the frame, as ``write(into:)`` writes them.
    ///
    /// - Throws: ``WireError/payloadByteCount(_:limit:)`` if the payload is too long for its length field.
    public var bytes: [UInt8] {
        get throws(WireError) {
            var buffer = ByteBuffer()
            try self.write(into: &buffer)
            return Array(buffer.readableBytesView)
        }
    }

    /// Writes the frame.
    ///
    /// Items are in the order 3, 1, 2, 4, 5, so that an error in one of them can include the identifier. Items without
    /// a value are omitted, except token and payload.
    ///
    /// - Parameter buffer: the buffer to append to.
    /// - Throws: ``WireError/payloadByteCount(_:limit:)`` if the payload is too long for its length field.
    public func write(into buffer: inout ByteBuffer) throws(WireError) {
        let tokenCount = self.token?.byteCount ?? 0
        let payloadCount = self.payload.readableBytes
        guard payloadCount <= UInt16.max else { throw .payloadByteCount(payloadCount, limit: Int(UInt16.max)) }
        if self.command == .items {
            self.writeItems(into: &buffer, tokenCount: tokenCount)
            return
        }
        buffer.writeInteger(self.command.rawValue)
        if self.command == .enhanced {
            buffer.writeMultipleIntegers(self.identifier ?? 0, self.expiry ?? Self.keptAsLongAsPossible)
        }
        buffer.writeInteger(UInt16(tokenCount))
        self.token?.write(into: &buffer)
        buffer.writeInteger(UInt16(payloadCount))
        buffer.writeImmutableBuffer(self.payload)
    }

    private func writeItems(into buffer: inout ByteBuffer, tokenCount: Int) {
        var count = 6 + tokenCount + self.payload.readableBytes
        if self.identifier != nil { count += 7 }
        if self.expiry != nil { count += 7 }
        if self.priority != nil { count += 4 }
        buffer.writeMultipleIntegers(Command.items.rawValue, UInt32(count))
        if let identifier = self.identifier {
            buffer.writeMultipleIntegers(Item.identifier.rawValue, UInt16(4), identifier)
        }
        buffer.writeMultipleIntegers(Item.deviceToken.rawValue, UInt16(tokenCount))
        self.token?.write(into: &buffer)
        buffer.writeMultipleIntegers(Item.payload.rawValue, UInt16(self.payload.readableBytes))
        buffer.writeImmutableBuffer(self.payload)
        if let expiry = self.expiry { buffer.writeMultipleIntegers(Item.expiry.rawValue, UInt16(4), expiry) }
        if let priority = self.priority { buffer.writeMultipleIntegers(Item.priority.rawValue, UInt16(1), priority) }
    }
}

extension DeviceToken {
    func write(into buffer: inout ByteBuffer) {
        unsafe self.withUnsafeBytes { _ = unsafe buffer.writeBytes($0) }
    }
}

extension NotificationFrame: CustomStringConvertible, CustomReflectable {
    /// Lengths only; the token and payload are private data.
    public var description: String {
        "command-\(self.command.rawValue) frame, token of \(self.token?.byteCount ?? 0) bytes, "
            + "payload of \(self.payload.readableBytes) bytes"
    }

    /// Contains nothing of the token and payload.
    public var customMirror: Mirror {
        Mirror(self, children: ["command": self.command, "payloadByteCount": self.payload.readableBytes])
    }
}
