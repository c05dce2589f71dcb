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

    /// Reads one frame from the front of some bytes, or `nil` with them untouched until all of it is there.
    ///
    /// - Parameters:
    ///   - bytes: bytes from a provider, split anywhere; those of the frame are taken.
    ///   - limits: what may be announced.
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
    ///   - bytes: a whole frame and nothing else.
    ///   - limits: what may be announced.
    /// - Throws: ``WireError`` for a length over its limit, an unknown command, or items that do not fit their frame;
    ///   ``WireError/incomplete(byteCount:)`` for fewer bytes, ``WireError/trailingBytes(offset:)`` for more.
    public init(_ bytes: some Collection<UInt8>, limits: FrameLimits = FrameLimits()) throws(WireError) {
        self = try WholeValue.read(bytes) { (bytes) throws(WireError) in
            try NotificationFrame(parsing: &bytes, limits: limits)
        }
    }

    /// Takes the parts out of the bytes behind a buffer's reader index.
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
    /// The numbers of the items of a command-2 frame.
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

        /// The only legal width of its data in bytes, where there is only one.
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
    /// Makes a frame from its parts, faulty ones too.
    ///
    /// - Parameters:
    ///   - token: whom it is for; `nil` for none.
    ///   - payload: JSON text; may be empty.
    ///   - expiry: seconds since 1970 (UTC), 0 for not kept.
    ///   - priority: 10 or 5 by the guide.
    ///   - identifier: what an error response will name it by.
    ///   - command: which format; one that has no room for a value does not carry it.
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

    /// The expiry that command 1, which has no way to leave it out, says for none: 2038-01-19.
    public static let keptAsLongAsPossible: UInt32 = 0x7FFF_FFFF

    /// Frames a notification.
    ///
    /// The frame has what its command has room for, as a gateway will read it: without a priority but in command 2,
    /// and in command 1 always with an expiry, for ``PushExpiry/none`` ``keptAsLongAsPossible``.
    ///
    /// - Parameters:
    ///   - notification: what is to be delivered.
    ///   - identifier: what an error response will name it by; without one, command 1 says 0.
    ///   - command: which format; ``Command/enhanced`` by default.
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
            self.priority = notification.priority
        }
    }

    /// The notification in the frame; `nil` where it has no token.
    public var notification: PushNotification? {
        self.token.map {
            PushNotification(
                token: $0,
                payload: self.payload,
                expiry: PushExpiry(wireValue: self.expiry),
                priority: self.priority
            )
        }
    }

    /// The payload in an array, empty where it is missing.
    public var payloadBytes: [UInt8] { Array(self.payload.readableBytesView) }

    /// A probe: a frame without token and payload, to which the gateway answers with status 2 and this identifier as
    /// soon as it has taken everything before it.
    ///
    /// - Parameters:
    ///   - identifier: the next identifier of the connection.
    ///   - command: 1 or 2; command 0 has no identifier to answer to.
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

    /// Whether it is a probe: no token and no payload.
    public var isProbe: Bool { self.token == nil && self.payload.readableBytes == 0 }

    /// The bytes of the frame, as ``write(into:)`` writes them.
    ///
    /// - Throws: ``WireError/payloadByteCount(_:limit:)`` for a payload of more bytes than the length field can say.
    public var bytes: [UInt8] {
        get throws(WireError) {
            var buffer = ByteBuffer()
            try self.write(into: &buffer)
            return Array(buffer.readableBytesView)
        }
    }

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
