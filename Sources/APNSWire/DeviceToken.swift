// SPDX-License-Identifier: Apache-2.0

/// The name of one app on one device, as the service gave it to the app: 1 to 100 opaque octets.
///
/// The octets are held in place, so that copying a token and writing it to a frame touches no reference count.
/// Neither the description nor the debug description shows them.
///
/// - SeeAlso: Binary Provider API, item 1 "device token"; ``WireLimits/tokenOctetCountMax``.
public struct DeviceToken: Sendable {
    @usableFromInline var storage: InlineArray<100, UInt8>
    @usableFromInline var storedCount: UInt8

    /// The number of octets, 1 to 100.
    @inlinable public var octetCount: Int { Int(self.storedCount) }

    /// Takes the octets of a token as they stand on the wire.
    ///
    /// - Parameter octets: 1 to 100 octets.
    /// - Throws: ``WireError/tokenOctetCount(_:)`` for any other number of octets.
    @inlinable
    public init(octets: UnsafeRawBufferPointer) throws(WireError) {
        guard octets.count >= 1 && octets.count <= WireLimits.tokenOctetCountMax else {
            throw .tokenOctetCount(octets.count)
        }
        self.storage = InlineArray(repeating: 0)
        self.storedCount = UInt8(truncatingIfNeeded: octets.count)
        var target = self.storage.mutableSpan
        unsafe target.withUnsafeMutableBytes { unsafe $0.copyMemory(from: octets) }
    }

    /// Takes the octets of a token from any collection of octets.
    ///
    /// - Parameter octets: 1 to 100 octets.
    /// - Throws: ``WireError/tokenOctetCount(_:)`` for any other number of octets.
    public init(octets: some Collection<UInt8>) throws(WireError) {
        guard octets.count >= 1 && octets.count <= WireLimits.tokenOctetCountMax else {
            throw .tokenOctetCount(octets.count)
        }
        self.storage = InlineArray(repeating: 0)
        self.storedCount = UInt8(truncatingIfNeeded: octets.count)
        for (index, octet) in octets.enumerated() { self.storage[index] = octet }
    }

    /// Reads a token from its text: hexadecimal digits of either case, with spaces between them or not,
    /// inside angle brackets or not, as in `<8baa53ca 210f...>`.
    ///
    /// - Parameter text: UTF-8 text of a token; 2 to 200 hexadecimal digits.
    /// - Throws: ``WireError/tokenText(position:)`` for a character that has no place in a token,
    ///   ``WireError/tokenOddDigitCount(_:)`` for half an octet, ``WireError/tokenOctetCount(_:)`` for too few or too many.
    @inlinable
    public init(text: UnsafeRawBufferPointer) throws(WireError) {
        self.storage = InlineArray(repeating: 0)
        self.storedCount = 0
        if text.count == 2 * WireLimits.tokenOctetCountUsual, unsafe self.decodeUsual(text) { return }
        try unsafe self.decodeAnySpelling(text)
    }

    /// Reads a token from its text, as ``init(text:)`` for octets does.
    ///
    /// - Parameter text: hexadecimal digits in any usual spelling.
    /// - Throws: ``WireError/tokenText(position:)``, ``WireError/tokenOddDigitCount(_:)`` or ``WireError/tokenOctetCount(_:)``.
    public init(_ text: some StringProtocol) throws(WireError) {
        let octets = Array(text.utf8)
        let result: Result<DeviceToken, WireError> = unsafe octets.withUnsafeBytes { raw in
            do throws(WireError) { return .success(try unsafe DeviceToken(text: raw)) } catch { return .failure(error) }
        }
        self = try result.get()
    }

    /// Lends the octets.
    ///
    /// - Parameter body: is given the octets, which must not leave it.
    /// - Returns: what `body` returns.
    /// - Throws: what `body` throws.
    @inlinable
    public borrowing func withUnsafeBytes<Value, Failure: Error>(
        _ body: (UnsafeRawBufferPointer) throws(Failure) -> Value
    ) throws(Failure) -> Value {
        let count = Int(self.storedCount)
        return try unsafe self.storage.span.withUnsafeBytes { (whole) throws(Failure) in
            try unsafe body(UnsafeRawBufferPointer(rebasing: whole[..<count]))
        }
    }

    /// The octets in an array.
    public var octets: [UInt8] { unsafe self.withUnsafeBytes { unsafe Array($0) } }

    /// The usual spelling: two lower-case hexadecimal digits an octet, nothing between them.
    ///
    /// A device token is private data: this is for stores, requests and results, never for logs.
    public var hexadecimal: String {
        unsafe String(unsafeUninitializedCapacity: 2 * self.octetCount) { target in
            unsafe self.withUnsafeBytes { octets in
                for index in 0..<octets.count {
                    let octet = unsafe octets[index]
                    unsafe target.initializeElement(at: 2 * index, to: HexadecimalDigit.character(octet >> 4))
                    unsafe target.initializeElement(at: 2 * index + 1, to: HexadecimalDigit.character(octet & 15))
                }
            }
            return 2 * self.octetCount
        }
    }

    /// The quick way for 64 digits with nothing between them; false where there is anything else.
    @inlinable
    mutating func decodeUsual(_ text: UnsafeRawBufferPointer) -> Bool {
        guard let source = text.baseAddress else { return false }
        var target = self.storage.mutableSpan
        let faults: UInt8 = unsafe target.withUnsafeMutableBytes { target in
            var faults: UInt8 = 0
            for index in 0..<WireLimits.tokenOctetCountUsual {
                let pair = unsafe source.loadUnaligned(fromByteOffset: 2 * index, as: UInt16.self).littleEndian
                let high = HexadecimalDigit.value(UInt8(truncatingIfNeeded: pair))
                let low = HexadecimalDigit.value(UInt8(truncatingIfNeeded: pair >> 8))
                faults |= high | low
                unsafe target[index] = high << 4 | low & 15
            }
            return faults
        }
        guard faults < 16 else { return false }
        self.storedCount = UInt8(WireLimits.tokenOctetCountUsual)
        return true
    }

    @usableFromInline
    mutating func decodeAnySpelling(_ text: UnsafeRawBufferPointer) throws(WireError) {
        var digitCount = 0
        var inside = false
        var closed = false
        for position in 0..<text.count {
            let character = unsafe text[position]
            let value = HexadecimalDigit.value(character)
            switch character {
            case UInt8(ascii: " "), UInt8(ascii: "\t"): continue
            case UInt8(ascii: "<") where !inside && digitCount == 0: inside = true
            case UInt8(ascii: ">") where inside && !closed: closed = true
            case _ where value < 16 && !closed:
                if digitCount < 2 * WireLimits.tokenOctetCountMax {
                    let octet = self.storage[digitCount / 2]
                    self.storage[digitCount / 2] = digitCount.isMultiple(of: 2) ? value << 4 : octet | value
                }
                digitCount += 1
            default: throw .tokenText(position: position)
            }
        }
        guard inside == closed else { throw .tokenText(position: text.count) }
        guard digitCount.isMultiple(of: 2) else { throw .tokenOddDigitCount(digitCount) }
        guard digitCount >= 2 && digitCount <= 2 * WireLimits.tokenOctetCountMax else {
            throw .tokenOctetCount(digitCount / 2)
        }
        self.storedCount = UInt8(digitCount / 2)
    }
}

extension DeviceToken: Hashable {
    /// Whether both hold the same octets.
    @inlinable
    public static func == (left: DeviceToken, right: DeviceToken) -> Bool {
        guard left.storedCount == right.storedCount else { return false }
        for index in 0..<left.octetCount where left.storage[index] != right.storage[index] { return false }
        return true
    }

    /// Feeds the octets to the hasher.
    @inlinable
    public func hash(into hasher: inout Hasher) {
        unsafe self.withUnsafeBytes { unsafe hasher.combine(bytes: $0) }
    }
}

extension DeviceToken: CustomStringConvertible, CustomDebugStringConvertible {
    /// The length only; a token is private data.
    public var description: String { "device token of \(self.octetCount) octets" }

    /// The length only; a token is private data.
    public var debugDescription: String { self.description }
}

extension DeviceToken: CustomReflectable {
    /// Nothing of the octets, so that `dump` and test reports do not show them.
    public var customMirror: Mirror { Mirror(self, children: ["octetCount": self.octetCount]) }
}
