// SPDX-License-Identifier: Apache-2.0

/// The identifier of one request: a UUID, the value of `apns-id`.
///
/// Its text is canonical: lower-case hexadecimal digits in groups of 8, 4, 4, 4 and 12.
///
/// - SeeAlso: RFC 9562.
public struct PushIdentifier: Hashable, Sendable {
    package let high: UInt64
    package let low: UInt64

    /// Creates a random identifier (version 4) from a generator, so that tests can predict it.
    ///
    /// - Parameter generator: the generator; it is called twice.
    public init(using generator: inout some RandomNumberGenerator) {
        self.init(high: generator.next(), low: generator.next())
    }

    /// Creates an identifier from 122 random bits; the other bits are set to the version and variant.
    package init(high: UInt64, low: UInt64) {
        self.high = high & ~0xF000 | 0x4000
        self.low = low & ~(3 << 62) | 2 << 62
    }

    /// Parses a UUID with letters of either case; `nil` for any other text.
    ///
    /// - Parameter text: 36 characters.
    public init?(_ text: some StringProtocol) {
        let characters = Array(text.utf8)
        guard characters.count == Self.characterCount else { return nil }
        var words: (UInt64, UInt64) = (0, 0)
        for (index, character) in characters.enumerated() {
            if Self.dashes.contains(index) {
                guard character == UInt8(ascii: "-") else { return nil }
                continue
            }
            let digit = Hexadecimal.value(character)
            guard digit < 16 else { return nil }
            if index < Self.middle {
                words.0 = words.0 << 4 | UInt64(digit)
            } else {
                words.1 = words.1 << 4 | UInt64(digit)
            }
        }
        self.high = words.0
        self.low = words.1
    }

    /// The length of its text.
    package static let characterCount = 36
    /// Where the second half begins: after 16 digits and two dashes, at the third.
    private static let middle = 18
    private static let dashes: Set<Int> = [8, 13, 18, 23]
}

extension PushIdentifier: Codable {
    /// Decodes the text of a UUID.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        guard let identifier = Self(try container.decode(String.self)) else {
            throw DecodingError.dataCorruptedError(in: container, debugDescription: "not a UUID")
        }
        self = identifier
    }

    /// Encodes the canonical text.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(self.description)
    }
}

extension PushIdentifier: LosslessStringConvertible {
    /// The canonical text.
    public var description: String {
        unsafe String(unsafeUninitializedCapacity: Self.characterCount) { target in
            unsafe self.writeText(to: UnsafeMutableRawBufferPointer(target))
            return Self.characterCount
        }
    }

    /// Calls `body` with the canonical text.
    package func withText<Value>(_ body: (UnsafeRawBufferPointer) -> Value) -> Value {
        unsafe withUnsafeTemporaryAllocation(byteCount: Self.characterCount, alignment: 8) { target in
            unsafe self.writeText(to: target)
            return unsafe body(UnsafeRawBufferPointer(target))
        }
    }

    /// Writes the canonical text.
    func writeText(to target: UnsafeMutableRawBufferPointer) {
        func store(_ digits: UInt64, at position: Int) {
            unsafe target.storeBytes(of: digits.littleEndian, toByteOffset: position, as: UInt64.self)
        }
        let (first, second) = (Hexadecimal.digits(of: self.high >> 32), Hexadecimal.digits(of: self.high))
        let (third, fourth) = (Hexadecimal.digits(of: self.low >> 32), Hexadecimal.digits(of: self.low))
        // Each overwrites the last four digits of the one before, which belong behind a dash.
        store(first, at: 0)
        store(second, at: 9)
        store(second >> 32, at: 14)
        store(third, at: 19)
        store(third >> 32, at: 24)
        store(fourth, at: 28)
        let dash = UInt8(ascii: "-")
        unsafe (target[8], target[13], target[18], target[23]) = (dash, dash, dash, dash)
    }
}

extension [UInt8] {
    /// Overwrites the bytes at a position with the text of an identifier.
    package mutating func setText(of identifier: PushIdentifier, at position: Int) {
        precondition(position + PushIdentifier.characterCount <= self.count)
        unsafe self.withUnsafeMutableBytes {
            unsafe identifier.writeText(to: UnsafeMutableRawBufferPointer(rebasing: $0[position...]))
        }
    }
}
