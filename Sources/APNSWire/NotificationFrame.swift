// SPDX-License-Identifier: Apache-2.0

public import NIOCore

/// A message as the gateway reads it: a notification in one of the three commands, or something that claims to be one.
///
/// Token and payload may be missing, since that is for the gateway to judge and to report (a probe is such a frame).
///
/// Command 0 and command 1; command 0 has neither identifier nor expiry:
///
/// | bytes | field          | value                                          |
/// |--------|----------------|------------------------------------------------|
/// | 1      | command        | 0 or 1                                         |
/// | 4      | identifier     | opaque, echoed in the error response           |
/// | 4      | expiry         | seconds since 1970 (UTC); 0: not kept          |
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
    /// Which format it came in.
    public var command: Command

    /// What an error response will name it by; `nil` in command 0, and in command 2 without item 3.
    public var identifier: UInt32?

    /// Seconds since 1970 (UTC), 0 for not kept; `nil` in command 0, and in command 2 without item 4.
    public var expiry: UInt32?

    /// `nil` but in command 2 with item 5.
    public var priority: UInt8?

    /// Whom it is for; `nil` where the token is missing or empty.
    public var token: DeviceToken?

    /// The payload, empty where it is missing.
    public var payload: ByteBuffer

    /// Reads one frame, or `nil` with `buffer` untouched until all its bytes are there.
    ///
    /// - Parameters:
    ///   - buffer: bytes from a provider, split anywhere; one frame is taken.
    ///   - limits: what may be announced; checked before the announced bytes arrive.
    /// - Throws: ``WireError`` for a length over its limit, an unknown command, or items that do not fit their frame.
    public init?(parsing buffer: inout ByteBuffer, limits: FrameLimits = FrameLimits()) throws(WireError) {
        guard let first = buffer.getInteger(at: buffer.readerIndex, as: UInt8.self) else { return nil }
        guard let command = Command(rawValue: first) else { throw .unknownCommand(first) }
        switch command {
        case .simple, .enhanced:
            try self.init(parsing: &buffer, command: command, limits: limits)
        case .items:
            guard let announced = buffer.getInteger(at: buffer.readerIndex + 1, as: UInt32.self) else { return nil }
            guard announced <= limits.frameByteCountMax else {
                throw .frameTooLong(announced: announced, limit: limits.frameByteCountMax)
            }
            guard let items = buffer.getSlice(at: buffer.readerIndex + 5, length: Int(announced)) else { return nil }
            try self.init(items: items, limits: limits)
            buffer.moveReaderIndex(forwardBy: 5 + Int(announced))
        }
    }

    private init?(parsing buffer: inout ByteBuffer, command: Command, limits: FrameLimits) throws(WireError) {
        var position = buffer.readerIndex + 1
        self.command = command
        if command == .enhanced {
            guard
                let (identifier, expiry) = buffer.getMultipleIntegers(at: position, as: (UInt32, UInt32).self)
            else { return nil }
            self.identifier = identifier
            self.expiry = expiry
            position += 8
        }
        guard let tokenLength = buffer.getInteger(at: position, as: UInt16.self).map(Int.init) else { return nil }
        guard tokenLength <= limits.tokenByteCountMax else {
            throw .tokenTooLong(announced: tokenLength, limit: limits.tokenByteCountMax, identifier: self.identifier)
        }
        let tokenPosition = position + 2
        position = tokenPosition + tokenLength
        guard let payloadLength = buffer.getInteger(at: position, as: UInt16.self).map(Int.init) else { return nil }
        guard payloadLength <= limits.payloadByteCountMax else {
            guard tokenLength > 0 else { throw .tokenMissing(identifier: self.identifier) }
            throw .payloadTooLong(
                announced: payloadLength,
                limit: limits.payloadByteCountMax,
                identifier: self.identifier
            )
        }
        guard let payload = buffer.getSlice(at: position + 2, length: payloadLength) else { return nil }
        self.payload = payload
        if tokenLength > 0 {
            self.token = try unsafe buffer.withUnsafeReadableBytes { readable throws(WireError) in
                let start = tokenPosition - buffer.readerIndex
                let bytes = unsafe readable[start..<(start + tokenLength)]
                return try unsafe DeviceToken(bytes: UnsafeRawBufferPointer(rebasing: bytes))
            }
        }
        buffer.moveReaderIndex(to: position + 2 + payloadLength)
    }
}

// MARK: - Command 2

extension NotificationFrame {
    /// The numbers of the items of a command-2 frame.
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

        /// The only legal width of its data in bytes, where there is only one.
        var byteCount: Int? {
            switch self {
            case .deviceToken, .payload: nil
            case .identifier, .expiry: 4
            case .priority: 1
            }
        }
    }

    /// Reads the items of a whole frame.
    ///
    /// The identifier is found first, so that every error can name it.
    private init(items: ByteBuffer, limits: FrameLimits) throws(WireError) {
        self.command = .items
        self.payload = ByteBuffer()
        let identifier = NotificationFrame.identifier(in: items)
        self.identifier = identifier
        var seen: UInt8 = 0
        var rest = items
        while rest.readableBytes > 0 {
            let number = rest.getInteger(at: rest.readerIndex, as: UInt8.self)
            guard let (number, length) = rest.readMultipleIntegers(as: (UInt8, UInt16).self),
                var data = rest.readSlice(length: Int(length))
            else { throw .itemOverrunsFrame(item: number, identifier: identifier) }
            guard let item = Item(rawValue: number) else {
                guard limits.allowsUnknownItems else { throw .itemUnknown(item: number, identifier: identifier) }
                continue
            }
            guard seen & 1 << number == 0 else { throw .itemRepeated(item: number, identifier: identifier) }
            seen |= 1 << number
            try self.take(item, &data, limits: limits)
        }
    }

    private mutating func take(_ item: Item, _ data: inout ByteBuffer, limits: FrameLimits) throws(WireError) {
        let count = data.readableBytes
        if let width = item.byteCount, width != count {
            throw .itemWidth(item: item.rawValue, announced: count, identifier: self.identifier)
        }
        switch item {
        case .deviceToken:
            guard count <= limits.tokenByteCountMax else {
                throw .tokenTooLong(announced: count, limit: limits.tokenByteCountMax, identifier: self.identifier)
            }
            self.token = count == 0 ? nil : try DeviceToken(bytes: data.readableBytesView)
        case .payload:
            guard count <= limits.payloadByteCountMax else {
                throw .payloadTooLong(announced: count, limit: limits.payloadByteCountMax, identifier: self.identifier)
            }
            self.payload = data
        case .identifier: self.identifier = data.readInteger()
        case .expiry: self.expiry = data.readInteger()
        case .priority: self.priority = data.readInteger()
        }
    }

    /// The identifier among the items, as far as they can be walked.
    private static func identifier(in items: ByteBuffer) -> UInt32? {
        var rest = items
        while let (number, length) = rest.readMultipleIntegers(as: (UInt8, UInt16).self),
            var data = rest.readSlice(length: Int(length))
        {
            if number == Item.identifier.rawValue, length == 4 { return data.readInteger() }
        }
        return nil
    }
}

// MARK: - Values

extension NotificationFrame {
    /// Makes a frame from its parts, faulty ones too.
    ///
    /// - Parameters:
    ///   - command: which format; one that has no room for a value does not carry it.
    ///   - identifier: what an error response will name it by.
    ///   - expiry: seconds since 1970 (UTC), 0 for not kept.
    ///   - priority: 10 or 5 by the guide.
    ///   - token: whom it is for; `nil` for none.
    ///   - payload: JSON text; may be empty.
    public init(
        command: Command,
        identifier: UInt32? = nil,
        expiry: UInt32? = nil,
        priority: UInt8? = nil,
        token: DeviceToken?,
        payload: ByteBuffer
    ) {
        self.command = command
        self.identifier = identifier
        self.expiry = expiry
        self.priority = priority
        self.token = token
        self.payload = payload
    }

    /// A probe: a frame without token and payload, to which the gateway answers with status 2 and this identifier as
    /// soon as it has taken everything before it.
    ///
    /// - Parameters:
    ///   - command: 1 or 2; command 0 has no identifier to answer to.
    ///   - identifier: the next identifier of the connection.
    /// - Returns: the frame.
    public static func probe(command: Command, identifier: UInt32) -> NotificationFrame {
        let priority: UInt8? = command == .items ? 10 : nil
        return NotificationFrame(
            command: command == .simple ? .enhanced : command,
            identifier: identifier,
            expiry: 0,
            priority: priority,
            token: nil,
            payload: ByteBuffer()
        )
    }

    /// Whether it is a probe: no token and no payload.
    public var isProbe: Bool { self.token == nil && self.payload.readableBytes == 0 }

    /// Writes the frame.
    ///
    /// Items come in the order 3, 1, 2, 4, 5, so that an error in one of them can name the identifier; one without a
    /// value is left out, but for token and payload.
    ///
    /// - Parameter buffer: is appended to.
    /// - Throws: ``WireError/payloadByteCount(_:limit:)`` for more bytes than the length field can say.
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
            buffer.writeMultipleIntegers(self.identifier ?? 0, self.expiry ?? Notification.keptAsLongAsPossible)
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
    /// Lengths only; token and payload are private data.
    public var description: String {
        "command-\(self.command.rawValue) frame, token of \(self.token?.byteCount ?? 0) bytes, "
            + "payload of \(self.payload.readableBytes) bytes"
    }

    /// Nothing of token and payload.
    public var customMirror: Mirror {
        Mirror(self, children: ["command": self.command, "payloadByteCount": self.payload.readableBytes])
    }
}
