// SPDX-License-Identifier: Apache-2.0

/// Writes consecutive frames into memory that the caller owns.
///
/// This is the fast path: it allocates nothing, counts no references, and checks the free space once per frame. A frame
/// is written completely or not at all.
///
/// The items of command 2 are in the order 3, 1, 2, 4, 5.
@safe
public struct FrameEncoder: ~Copyable {
    @usableFromInline let start: UnsafeMutableRawPointer
    @usableFromInline let end: UnsafeMutableRawPointer
    @usableFromInline var cursor: UnsafeMutableRawPointer

    @usableFromInline var storedFrameCount: Int

    /// The number of frames written.
    @inlinable public var frameCount: Int { self.storedFrameCount }

    /// Creates an encoder.
    ///
    /// - Parameter memory: the memory to fill; it must stay valid as long as the encoder is used.
    @inlinable
    public init?(writingInto memory: UnsafeMutableRawBufferPointer) {
        guard let base = memory.baseAddress else { return nil }
        unsafe self.start = base
        unsafe self.cursor = base
        unsafe self.end = base + memory.count
        self.storedFrameCount = 0
    }

    /// The number of bytes written.
    @inlinable public var byteCount: Int { unsafe self.cursor - self.start }

    /// The number of free bytes.
    @inlinable public var byteCountFree: Int { unsafe self.end - self.cursor }

    /// The number of bytes of a frame.
    ///
    /// - Parameters:
    ///   - tokenByteCount: bytes of the token.
    ///   - payloadByteCount: bytes of the payload.
    ///   - hasExpiry: whether command 2 has item 4.
    ///   - hasPriority: whether command 2 has item 5.
    ///   - command: which format.
    /// - Returns: bytes from the command to the end of the payload or of the last item.
    @inlinable
    public static func byteCount(
        tokenByteCount: Int,
        payloadByteCount: Int,
        hasExpiry: Bool,
        hasPriority: Bool,
        command: Command
    ) -> Int {
        switch command {
        case .simple: 5 + tokenByteCount + payloadByteCount
        case .enhanced: 13 + tokenByteCount + payloadByteCount
        case .items: 18 + tokenByteCount + payloadByteCount + (hasExpiry ? 7 : 0) + (hasPriority ? 4 : 0)
        }
    }

    /// Writes one frame.
    ///
    /// - Parameters:
    ///   - token: the recipient.
    ///   - payload: 1 to 65,535 bytes; a longer payload is a programming error.
    ///   - expiry: seconds since 1970 (UTC), 0 for not stored, `nil` for as long as the service stores any.
    ///   - priority: 10, 5, or `nil` to omit it.
    ///   - identifier: the identifier that an error response refers to.
    ///   - command: the format; values that it has no field for are omitted.
    /// - Returns: whether the frame fit; if not, nothing was written.
    @inlinable
    public mutating func append(
        token: borrowing DeviceToken,
        payload: UnsafeRawBufferPointer,
        expiry: UInt32?,
        priority: UInt8? = nil,
        identifier: UInt32,
        command: Command = .enhanced
    ) -> Bool {
        let tokenCount = token.byteCount
        let count = FrameEncoder.byteCount(
            tokenByteCount: tokenCount,
            payloadByteCount: payload.count,
            hasExpiry: expiry != nil,
            hasPriority: priority != nil,
            command: command
        )
        precondition(payload.count <= UInt16.max, "A payload's length must fit its field of two bytes.")
        guard count <= self.byteCountFree else { return false }
        var target = unsafe self.cursor
        unsafe target.storeBytes(of: command.rawValue, as: UInt8.self)
        unsafe target += 1
        switch command {
        case .simple: break
        case .enhanced:
            unsafe FrameEncoder.store(identifier, at: &target)
            unsafe FrameEncoder.store(expiry ?? NotificationFrame.keptAsLongAsPossible, at: &target)
        case .items:
            unsafe FrameEncoder.store(UInt32(truncatingIfNeeded: count - 5), at: &target)
            unsafe FrameEncoder.store(item: .identifier, byteCount: 4, at: &target)
            unsafe FrameEncoder.store(identifier, at: &target)
            unsafe FrameEncoder.store(item: .deviceToken, at: &target)
        }
        unsafe FrameEncoder.store(UInt16(truncatingIfNeeded: tokenCount), at: &target)
        unsafe FrameEncoder.store(token, at: &target)
        if command == .items { unsafe FrameEncoder.store(item: .payload, at: &target) }
        unsafe FrameEncoder.store(UInt16(truncatingIfNeeded: payload.count), at: &target)
        if let source = payload.baseAddress {
            unsafe target.copyMemory(from: source, byteCount: payload.count)
            unsafe target += payload.count
        }
        if command == .items { unsafe FrameEncoder.store(expiry: expiry, priority: priority, at: &target) }
        unsafe self.cursor = target
        self.storedFrameCount &+= 1
        return true
    }

    /// Copies frames that another encoder wrote, with new identifiers.
    ///
    /// - Parameters:
    ///   - frames: complete consecutive frames.
    ///   - identifier: the new identifier of the first frame; the following frames count up from it.
    /// - Returns: whether the frames fit; if not, nothing was copied.
    public mutating func append(frames: UnsafeRawBufferPointer, numberedFrom identifier: UInt32) -> Bool {
        guard frames.count <= self.byteCountFree else { return false }
        guard let source = frames.baseAddress else { return true }
        unsafe self.cursor.copyMemory(from: source, byteCount: frames.count)
        let copied = unsafe UnsafeMutableRawBufferPointer(start: self.cursor, count: frames.count)
        self.storedFrameCount += unsafe FrameScanner.number(copied, from: identifier)
        unsafe self.cursor += frames.count
        return true
    }

    @inlinable
    static func store(_ value: some FixedWidthInteger, at target: inout UnsafeMutableRawPointer) {
        unsafe target.storeBytes(of: value.bigEndian, as: type(of: value).self)
        unsafe target += value.bitWidth / 8
    }

    @inlinable
    static func store(item: NotificationFrame.Item, at target: inout UnsafeMutableRawPointer) {
        unsafe FrameEncoder.store(item.rawValue, at: &target)
    }

    @inlinable
    static func store(item: NotificationFrame.Item, byteCount: UInt16, at target: inout UnsafeMutableRawPointer) {
        unsafe FrameEncoder.store(item.rawValue, at: &target)
        unsafe FrameEncoder.store(byteCount, at: &target)
    }

    /// A token of the usual length is copied as four words, which compile to plain moves.
    @inlinable
    static func store(_ token: borrowing DeviceToken, at target: inout UnsafeMutableRawPointer) {
        let count = token.byteCount
        if count == WireLimits.tokenByteCountUsual {
            unsafe target.storeBytes(of: token.storage.head.0, as: UInt64.self)
            unsafe target.storeBytes(of: token.storage.head.1, toByteOffset: 8, as: UInt64.self)
            unsafe target.storeBytes(of: token.storage.head.2, toByteOffset: 16, as: UInt64.self)
            unsafe target.storeBytes(of: token.storage.head.3, toByteOffset: 24, as: UInt64.self)
        } else {
            unsafe FrameEncoder.copy(token, to: target)
        }
        unsafe target += count
    }

    @inline(never) @usableFromInline
    static func copy(_ token: borrowing DeviceToken, to target: UnsafeMutableRawPointer) {
        unsafe token.withUnsafeBytes { bytes in
            guard let source = bytes.baseAddress else { return }
            unsafe target.copyMemory(from: source, byteCount: bytes.count)
        }
    }

    @inlinable
    static func store(expiry: UInt32?, priority: UInt8?, at target: inout UnsafeMutableRawPointer) {
        if let expiry {
            unsafe FrameEncoder.store(item: .expiry, byteCount: 4, at: &target)
            unsafe FrameEncoder.store(expiry, at: &target)
        }
        if let priority {
            unsafe FrameEncoder.store(item: .priority, byteCount: 1, at: &target)
            unsafe FrameEncoder.store(priority, at: &target)
        }
    }
}
