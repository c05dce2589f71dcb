// SPDX-License-Identifier: Apache-2.0

/// Where the parts of a message lie within the octets of a stream: all that a gateway must know of it before it hands
/// it on, read without copying anything.
///
/// It accepts and refuses exactly what ``NotificationFrame/init(parsing:limits:)`` does.
public struct FrameLayout: Hashable, Sendable {
    /// Which format it came in.
    public var command: Command
    /// What an error response will name it by; `nil` where it has none.
    public var identifier: UInt32?
    /// Seconds since 1970 (UTC), 0 for not kept; `nil` where it has none.
    public var expiry: UInt32?
    /// `nil` but in command 2 with item 5.
    public var priority: UInt8?
    /// Octets before the token, from the message's first.
    public var tokenOffset = 0
    /// Octets of the token; 0 where it is missing or empty.
    public var tokenOctetCount = 0
    /// Octets before the payload, from the message's first.
    public var payloadOffset = 0
    /// Octets of the payload; 0 where it is missing or empty.
    public var payloadOctetCount = 0
    /// Octets of the whole message.
    public var octetCount = 0

    /// The layout of nothing, for a place that others are to take.
    ///
    /// - Parameter command: which format.
    @inlinable
    public init(command: Command) { self.command = command }

    /// Reads where the parts of a message lie, or `nil` until all its octets are there.
    ///
    /// - Parameters:
    ///   - octets: octets from a provider; the message begins with the first.
    ///   - limits: what may be announced; checked before the announced octets arrive.
    /// - Throws: ``WireError`` for a length over its limit, an unknown command, or items that do not fit their frame.
    public init?(parsing octets: UnsafeRawBufferPointer, limits: borrowing FrameLimits) throws(WireError) {
        self.init(command: .simple)
        guard try unsafe self.read(octets, limits: limits) else { return nil }
    }

    /// Reads where the parts of another message lie, in place of those before.
    ///
    /// - Parameters:
    ///   - octets: octets from a provider; the message begins with the first.
    ///   - limits: what may be announced; checked before the announced octets arrive.
    /// - Returns: whether all its octets are there; if not, the layout is of nothing.
    /// - Throws: ``WireError`` for a length over its limit, an unknown command, or items that do not fit their frame.
    public mutating func read(
        _ octets: UnsafeRawBufferPointer,
        limits: borrowing FrameLimits
    ) throws(WireError) -> Bool {
        guard let first = unsafe octets.first else { return false }
        guard let command = Command(rawValue: first) else { throw .unknownCommand(first) }
        self.command = command
        self.priority = nil
        switch command {
        case .simple:
            (self.identifier, self.expiry) = (nil, nil)
            return try unsafe self.readParts(of: octets, at: 1, limits: limits)
        case .enhanced:
            guard octets.count >= 9 else { return false }
            self.identifier = unsafe Self.integer(in: octets, at: 1)
            self.expiry = unsafe Self.integer(in: octets, at: 5)
            return try unsafe self.readParts(of: octets, at: 9, limits: limits)
        case .items:
            (self.expiry, self.tokenOctetCount, self.payloadOctetCount) = (nil, 0, 0)
            (self.tokenOffset, self.payloadOffset) = (0, 0)
            return try unsafe self.readItems(of: octets, limits: limits)
        }
    }

    /// Reads token and payload of command 0 or 1.
    private mutating func readParts(
        of octets: UnsafeRawBufferPointer,
        at offset: Int,
        limits: borrowing FrameLimits
    ) throws(WireError) -> Bool {
        guard octets.count >= offset + 2 else { return false }
        let tokenCount = Int(unsafe Self.integer(in: octets, at: offset) as UInt16)
        guard tokenCount <= limits.tokenOctetCountMax else {
            throw .tokenTooLong(announced: tokenCount, limit: limits.tokenOctetCountMax, identifier: self.identifier)
        }
        let payloadLengthOffset = offset + 2 + tokenCount
        guard octets.count >= payloadLengthOffset + 2 else { return false }
        let payloadCount = Int(unsafe Self.integer(in: octets, at: payloadLengthOffset) as UInt16)
        guard payloadCount <= limits.payloadOctetCountMax else {
            guard tokenCount > 0 else { throw .tokenMissing(identifier: self.identifier) }
            throw .payloadTooLong(
                announced: payloadCount,
                limit: limits.payloadOctetCountMax,
                identifier: self.identifier
            )
        }
        guard octets.count >= payloadLengthOffset + 2 + payloadCount else { return false }
        guard tokenCount <= WireLimits.tokenOctetCountMax else { throw .tokenOctetCount(tokenCount) }
        self.tokenOffset = offset + 2
        self.tokenOctetCount = tokenCount
        self.payloadOffset = payloadLengthOffset + 2
        self.payloadOctetCount = payloadCount
        self.octetCount = payloadLengthOffset + 2 + payloadCount
        return true
    }

    private static func integer<Integer: FixedWidthInteger>(
        in octets: UnsafeRawBufferPointer,
        at offset: Int
    ) -> Integer {
        Integer(bigEndian: unsafe octets.loadUnaligned(fromByteOffset: offset, as: Integer.self))
    }
}

// MARK: - Command 2

extension FrameLayout {
    private mutating func readItems(
        of octets: UnsafeRawBufferPointer,
        limits: borrowing FrameLimits
    ) throws(WireError) -> Bool {
        guard octets.count >= 5 else { return false }
        let announced: UInt32 = unsafe Self.integer(in: octets, at: 1)
        guard announced <= limits.frameOctetCountMax else {
            throw .frameTooLong(announced: announced, limit: limits.frameOctetCountMax)
        }
        let end = 5 + Int(announced)
        guard octets.count >= end else { return false }
        self.octetCount = end
        self.identifier = unsafe Self.identifier(in: octets, end: end)
        var seen: UInt8 = 0
        var offset = 5
        while offset < end {
            let number = unsafe octets[offset]
            let data = offset + 3
            guard data <= end else { throw .itemOverrunsFrame(item: number, identifier: self.identifier) }
            let count = Int(unsafe Self.integer(in: octets, at: offset + 1) as UInt16)
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
            try unsafe self.take(item, of: octets, at: data, count: count, limits: limits)
        }
        return true
    }

    private mutating func take(
        _ item: NotificationFrame.Item,
        of octets: UnsafeRawBufferPointer,
        at offset: Int,
        count: Int,
        limits: borrowing FrameLimits
    ) throws(WireError) {
        if let width = item.octetCount, width != count {
            throw .itemWidth(item: item.rawValue, announced: count, identifier: self.identifier)
        }
        switch item {
        case .deviceToken:
            guard count <= limits.tokenOctetCountMax else {
                throw .tokenTooLong(announced: count, limit: limits.tokenOctetCountMax, identifier: self.identifier)
            }
            guard count <= WireLimits.tokenOctetCountMax else { throw .tokenOctetCount(count) }
            (self.tokenOffset, self.tokenOctetCount) = (offset, count)
        case .payload:
            guard count <= limits.payloadOctetCountMax else {
                throw .payloadTooLong(announced: count, limit: limits.payloadOctetCountMax, identifier: self.identifier)
            }
            (self.payloadOffset, self.payloadOctetCount) = (offset, count)
        case .identifier: break
        case .expiry: self.expiry = unsafe Self.integer(in: octets, at: offset)
        case .priority: self.priority = unsafe octets[offset]
        }
    }

    /// The identifier among the items, as far as they can be walked, so that every error can name it.
    private static func identifier(in octets: UnsafeRawBufferPointer, end: Int) -> UInt32? {
        var offset = 5
        while offset + 3 <= end {
            let count = Int(unsafe Self.integer(in: octets, at: offset + 1) as UInt16)
            guard offset + 3 + count <= end else { return nil }
            if unsafe octets[offset] == NotificationFrame.Item.identifier.rawValue, count == 4 {
                return unsafe Self.integer(in: octets, at: offset + 3)
            }
            offset += 3 + count
        }
        return nil
    }
}
