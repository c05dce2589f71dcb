// SPDX-License-Identifier: Apache-2.0

/// The positions of a message's parts in the bytes of a stream, which a gateway needs before it forwards the message.
///
/// Reading them copies nothing.
///
/// This is the only parser of received frames; ``NotificationFrame`` is built on it.
public struct FrameLayout: Hashable, Sendable {
    /// The format of the message.
    public var command: Command
    /// The identifier that an error response refers to; `nil` if the message has none.
    public var identifier: UInt32?
    /// Seconds since 1970 (UTC), 0 for not stored; `nil` if the message has none.
    public var expiry: UInt32?
    /// Item 5 of command 2, as sent; otherwise `nil`.
    public var priority: UInt8?
    /// Bytes from the start of the message to the token.
    public var tokenOffset = 0
    /// Bytes of the token; 0 if it is missing or empty.
    public var tokenByteCount = 0
    /// Bytes from the start of the message to the payload.
    public var payloadOffset = 0
    /// Bytes of the payload; 0 if it is missing or empty.
    public var payloadByteCount = 0
    /// Bytes of the message.
    public var byteCount = 0

    /// The priority; `nil` for any other value than 10, 5 and 1, which counts as none.
    ///
    /// Some providers send 0 when none is set.
    package var knownPriority: PushPriority? { self.priority.flatMap { PushPriority(rawValue: $0) } }

    /// An empty layout, for use with ``read(_:limits:)``.
    ///
    /// - Parameter command: which format.
    @inlinable
    public init(command: Command) { self.command = command }

    /// Reads the positions of a message's parts; `nil` if the message is incomplete.
    ///
    /// - Parameters:
    ///   - bytes: bytes from a provider; the message begins with the first.
    ///   - limits: the allowed lengths, checked before the announced bytes arrive.
    /// - Throws: ``WireError`` for a length over its limit, an unknown command, or items that do not fit their frame.
    public init?(parsing bytes: UnsafeRawBufferPointer, limits: borrowing FrameLimits) throws(WireError) {
        self.init(command: .simple)
        guard try unsafe self.read(bytes, limits: limits) else { return nil }
    }

    /// Replaces the layout with that of another message.
    ///
    /// - Parameters:
    ///   - bytes: bytes from a provider; the message begins with the first.
    ///   - limits: the allowed lengths, checked before the announced bytes arrive.
    /// - Returns: whether the message is complete; if not, the layout is empty.
    /// - Throws: ``WireError`` for a length over its limit, an unknown command, or items that do not fit their frame.
    public mutating func read(
        _ bytes: UnsafeRawBufferPointer,
        limits: borrowing FrameLimits
    ) throws(WireError) -> Bool {
        guard let first = unsafe bytes.first else { return false }
        guard let command = Command(rawValue: first) else { throw .unknownCommand(first) }
        self.command = command
        self.priority = nil
        switch command {
        case .simple:
            (self.identifier, self.expiry) = (nil, nil)
            return try unsafe self.readParts(of: bytes, at: command.tokenLengthOffset, limits: limits)
        case .enhanced:
            guard bytes.count >= 9 else { return false }
            self.identifier = unsafe bytes.bigEndianInteger(at: 1)
            self.expiry = unsafe bytes.bigEndianInteger(at: 5)
            return try unsafe self.readParts(of: bytes, at: command.tokenLengthOffset, limits: limits)
        case .items:
            (self.expiry, self.tokenByteCount, self.payloadByteCount) = (nil, 0, 0)
            (self.tokenOffset, self.payloadOffset) = (0, 0)
            return try unsafe self.readItems(of: bytes, limits: limits)
        }
    }

    /// Reads the token and payload of command 0 or 1.
    private mutating func readParts(
        of bytes: UnsafeRawBufferPointer,
        at offset: Int,
        limits: borrowing FrameLimits
    ) throws(WireError) -> Bool {
        guard bytes.count >= offset + 2 else { return false }
        let tokenCount = Int(unsafe bytes.bigEndianInteger(at: offset) as UInt16)
        guard tokenCount <= limits.tokenByteCountMax else {
            throw .tokenTooLong(announced: tokenCount, limit: limits.tokenByteCountMax, identifier: self.identifier)
        }
        let payloadLengthOffset = offset + 2 + tokenCount
        guard bytes.count >= payloadLengthOffset + 2 else { return false }
        let payloadCount = Int(unsafe bytes.bigEndianInteger(at: payloadLengthOffset) as UInt16)
        guard payloadCount <= limits.payloadByteCountMax else {
            guard tokenCount > 0 else { throw .tokenMissing(identifier: self.identifier) }
            throw .payloadTooLong(
                announced: payloadCount,
                limit: limits.payloadByteCountMax,
                identifier: self.identifier
            )
        }
        guard bytes.count >= payloadLengthOffset + 2 + payloadCount else { return false }
        guard tokenCount <= WireLimits.tokenByteCountMax else { throw .tokenByteCount(tokenCount) }
        self.tokenOffset = offset + 2
        self.tokenByteCount = tokenCount
        self.payloadOffset = payloadLengthOffset + 2
        self.payloadByteCount = payloadCount
        self.byteCount = payloadLengthOffset + 2 + payloadCount
        return true
    }
}

// MARK: - Command 2

extension FrameLayout {
    private mutating func readItems(
        of bytes: UnsafeRawBufferPointer,
        limits: borrowing FrameLimits
    ) throws(WireError) -> Bool {
        guard bytes.count >= 5 else { return false }
        let announced: UInt32 = unsafe bytes.bigEndianInteger(at: 1)
        guard announced <= limits.frameByteCountMax else {
            throw .frameTooLong(announced: announced, limit: limits.frameByteCountMax)
        }
        let end = 5 + Int(announced)
        guard bytes.count >= end else { return false }
        self.byteCount = end
        self.identifier = unsafe Self.identifier(in: bytes, end: end)
        var seen: UInt8 = 0
        var offset = 5
        while offset < end {
            let number = unsafe bytes[offset]
            let data = offset + 3
            guard data <= end else { throw .itemOverrunsFrame(item: number, identifier: self.identifier) }
            let count = Int(unsafe bytes.bigEndianInteger(at: offset + 1) as UInt16)
            guard data + count <= end else { throw .itemOverrunsFrame(item: number, identifier: self.identifier) }
            offset = data + count
            guard let item = NotificationFrame.Item(rawValue: number) else {
                guard limits.allowsUnknownItems else {
                    throw .itemUnknown(item: number, identifier: self.identifier)
                }
                continue
            }
            guard seen & 1 << number == 0 else { throw .itemRepeated(item: number, identifier: self.identifier) }
            seen |= 1 << number
            try unsafe self.readItem(item, of: bytes, at: data, count: count, limits: limits)
        }
        return true
    }

    private mutating func readItem(
        _ item: NotificationFrame.Item,
        of bytes: UnsafeRawBufferPointer,
        at offset: Int,
        count: Int,
        limits: borrowing FrameLimits
    ) throws(WireError) {
        if let width = item.byteCount, width != count {
            throw .itemWidth(item: item.rawValue, announced: count, identifier: self.identifier)
        }
        switch item {
        case .deviceToken:
            guard count <= limits.tokenByteCountMax else {
                throw .tokenTooLong(announced: count, limit: limits.tokenByteCountMax, identifier: self.identifier)
            }
            guard count <= WireLimits.tokenByteCountMax else { throw .tokenByteCount(count) }
            (self.tokenOffset, self.tokenByteCount) = (offset, count)
        case .payload:
            guard count <= limits.payloadByteCountMax else {
                throw .payloadTooLong(announced: count, limit: limits.payloadByteCountMax, identifier: self.identifier)
            }
            (self.payloadOffset, self.payloadByteCount) = (offset, count)
        case .identifier: break
        case .expiry: self.expiry = unsafe bytes.bigEndianInteger(at: offset)
        case .priority: self.priority = unsafe bytes[offset]
        }
    }

    /// The identifier, from as many items as can be parsed, so that every error can include it.
    private static func identifier(in bytes: UnsafeRawBufferPointer, end: Int) -> UInt32? {
        var offset = 5
        while offset + 3 <= end {
            let count = Int(unsafe bytes.bigEndianInteger(at: offset + 1) as UInt16)
            guard offset + 3 + count <= end else { return nil }
            if unsafe bytes[offset] == NotificationFrame.Item.identifier.rawValue, count == 4 {
                return unsafe bytes.bigEndianInteger(at: offset + 3)
            }
            offset += 3 + count
        }
        return nil
    }
}

extension UnsafeRawBufferPointer {
    /// The integer whose first byte is at an offset.
    func bigEndianInteger<Integer: FixedWidthInteger>(at offset: Int) -> Integer {
        Integer(bigEndian: unsafe self.loadUnaligned(fromByteOffset: offset, as: Integer.self))
    }
}
