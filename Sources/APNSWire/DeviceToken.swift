// SPDX-License-Identifier: Apache-2.0

/// The address of one app on one device, as the service issued it to the app: 1 to 100 opaque bytes.
///
/// The bytes are stored inline, so copying a token or writing it to a frame does not touch a reference count. Neither
/// the description nor the debug description shows them.
///
/// - SeeAlso: Binary Provider API, item 1 "device token"; ``WireLimits/tokenByteCountMax``.
public struct DeviceToken: Sendable {
    /// The bytes in memory order: a usual token fits the first four words, which are loaded and stored without a call;
    /// the rest follows.
    @usableFromInline
    struct Storage: Sendable {
        @usableFromInline var head: (UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0)
        @usableFromInline var tail = InlineArray<68, UInt8>(repeating: 0)

        @inlinable
        init() {}
    }

    @usableFromInline var storage: Storage
    @usableFromInline var storedCount: UInt8

    /// The number of bytes, 1 to 100.
    @inlinable public var byteCount: Int { Int(self.storedCount) }

    /// Creates a token from the bytes of its wire format.
    ///
    /// - Parameter bytes: 1 to 100 bytes.
    /// - Throws: ``WireError/tokenByteCount(_:)`` for any other number of bytes.
    @inlinable
    public init(bytes: UnsafeRawBufferPointer) throws(WireError) {
        guard bytes.count >= 1 && bytes.count <= WireLimits.tokenByteCountMax else {
            throw .tokenByteCount(bytes.count)
        }
        self.storage = Storage()
        self.storedCount = UInt8(truncatingIfNeeded: bytes.count)
        unsafe Swift.withUnsafeMutableBytes(of: &self.storage) { unsafe $0.copyMemory(from: bytes) }
    }

    /// Creates a token from any collection of bytes.
    ///
    /// - Parameter bytes: 1 to 100 bytes.
    /// - Throws: ``WireError/tokenByteCount(_:)`` for any other number of bytes.
    public init(bytes: some Collection<UInt8>) throws(WireError) {
        guard bytes.count >= 1 && bytes.count <= WireLimits.tokenByteCountMax else {
            throw .tokenByteCount(bytes.count)
        }
        self.storage = Storage()
        self.storedCount = UInt8(truncatingIfNeeded: bytes.count)
        unsafe Swift.withUnsafeMutableBytes(of: &self.storage) { unsafe $0.copyBytes(from: bytes) }
    }

    /// Parses a token: hexadecimal digits of either case, with or without spaces between them, with or without angle
    /// brackets around them, as in `<8baa53ca 210f...>`.
    ///
    /// - Parameter text: UTF-8 text of a token; 2 to 200 hexadecimal digits.
    /// - Throws: ``WireError/tokenText(position:)`` for an unexpected character, ``WireError/tokenOddDigitCount(_:)``
    ///   for half a byte, ``WireError/tokenByteCount(_:)`` for too few or too many bytes.
    @inlinable
    public init(text: UnsafeRawBufferPointer) throws(WireError) {
        self.storage = Storage()
        self.storedCount = 0
        if unsafe DeviceTokenText.decodeUsual(text, into: &self) { return }
        try unsafe self.decodeUnusual(text)
    }

    /// Parses a token in the same format as ``init(text:)``.
    ///
    /// - Parameter text: hexadecimal digits in any usual spelling.
    /// - Throws: ``WireError/tokenText(position:)``, ``WireError/tokenOddDigitCount(_:)`` or
    ///   ``WireError/tokenByteCount(_:)``.
    public init(_ text: some StringProtocol) throws(WireError) {
        let bytes = Array(text.utf8)
        let result: Result<DeviceToken, WireError> = unsafe bytes.withUnsafeBytes { raw in
            do throws(WireError) { return .success(try unsafe DeviceToken(text: raw)) } catch { return .failure(error) }
        }
        self = try result.get()
    }

    /// Calls a closure with the bytes.
    ///
    /// - Parameter body: the closure, which must not let the bytes escape.
    /// - Returns: what `body` returns.
    /// - Throws: what `body` throws.
    @inlinable
    public borrowing func withUnsafeBytes<Value, Failure: Error>(
        _ body: (UnsafeRawBufferPointer) throws(Failure) -> Value
    ) throws(Failure) -> Value {
        let count = Int(self.storedCount)
        return try unsafe Swift.withUnsafeBytes(of: self.storage) { (whole) throws(Failure) in
            try unsafe body(UnsafeRawBufferPointer(rebasing: whole[..<count]))
        }
    }

    /// The bytes in an array.
    public var bytes: [UInt8] { unsafe self.withUnsafeBytes { unsafe Array($0) } }

    /// The usual spelling: two lower-case hexadecimal digits a byte, nothing between them.
    ///
    /// A device token is private data: use this in stores, requests and results, never in logs.
    public var hexadecimal: String { unsafe self.withUnsafeBytes { unsafe Hexadecimal.text($0) } }

    @usableFromInline
    mutating func decodeUnusual(_ text: UnsafeRawBufferPointer) throws(WireError) {
        let (digitCount, _) = try unsafe Swift.withUnsafeMutableBytes(of: &self.storage) { target throws(WireError) in
            try unsafe DeviceTokenText.decodeDigits(text, allowsLineBreaks: false, into: target)
        }
        guard digitCount.isMultiple(of: 2) else { throw .tokenOddDigitCount(digitCount) }
        guard digitCount >= 2 && digitCount <= 2 * WireLimits.tokenByteCountMax else {
            throw .tokenByteCount(digitCount / 2)
        }
        self.storedCount = UInt8(digitCount / 2)
    }
}

extension DeviceToken: Hashable {
    /// Whether both have the same bytes.
    @inlinable
    public static func == (left: DeviceToken, right: DeviceToken) -> Bool {
        // Unused bytes are zero in both.
        guard left.storedCount == right.storedCount, left.storage.head == right.storage.head else { return false }
        for index in 0..<max(0, left.byteCount - WireLimits.tokenByteCountUsual)
        where left.storage.tail[index] != right.storage.tail[index] { return false }
        return true
    }

    /// Feeds the bytes to the hasher.
    @inlinable
    public func hash(into hasher: inout Hasher) {
        unsafe self.withUnsafeBytes { unsafe hasher.combine(bytes: $0) }
    }
}

extension DeviceToken: CustomStringConvertible, CustomDebugStringConvertible {
    /// The length only; a token is private data.
    public var description: String { "device token of \(self.byteCount) bytes" }

    /// The length only; a token is private data.
    public var debugDescription: String { self.description }
}

extension DeviceToken: CustomReflectable {
    /// Contains none of the bytes, so that `dump` and test reports do not show them.
    public var customMirror: Mirror { Mirror(self, children: ["byteCount": self.byteCount]) }
}

extension DeviceToken: Codable {
    /// Parses a token in any format that ``init(_:)`` accepts.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        let text = try container.decode(String.self)
        do throws(WireError) { try self.init(text) } catch {
            // The error describes the problem without the text.
            throw DecodingError.dataCorruptedError(in: container, debugDescription: "\(error)")
        }
    }

    /// Encodes ``hexadecimal``.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(self.hexadecimal)
    }
}
