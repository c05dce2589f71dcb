// SPDX-License-Identifier: Apache-2.0

/// The kind of a JSON value, determined by its first byte.
///
/// - SeeAlso: RFC 8259, section 3.
@frozen
public enum JSONKind: UInt8, Hashable, Sendable, CaseIterable {
    /// `{…}`
    case object
    /// `[…]`
    case array
    /// `"…"`
    case string
    /// `-1.5e3`
    case number
    /// `true` or `false`
    case boolean
    /// `null`
    case null
}

extension JSONKind: CustomStringConvertible {
    /// The kind with its article, as in "a string".
    public var description: String {
        switch self {
        case .object: "an object"
        case .array: "an array"
        case .string: "a string"
        case .number: "a number"
        case .boolean: "a boolean"
        case .null: "null"
        }
    }
}

/// A set of kinds that a key may have.
@frozen
public struct JSONKinds: OptionSet, Hashable, Sendable {
    /// One bit for each ``JSONKind``, at the position of its raw value.
    public let rawValue: UInt8

    /// Creates a set from bits.
    @inlinable
    public init(rawValue: UInt8) {
        self.rawValue = rawValue
    }

    /// Creates a set of one kind.
    @inlinable
    public init(_ kind: JSONKind) {
        self.rawValue = 1 << kind.rawValue
    }

    /// Objects.
    public static let object = Self(rawValue: 1 << 0)
    /// Arrays.
    public static let array = Self(rawValue: 1 << 1)
    /// Strings.
    public static let string = Self(rawValue: 1 << 2)
    /// Numbers.
    public static let number = Self(rawValue: 1 << 3)
    /// The literals `true` and `false`.
    public static let boolean = Self(rawValue: 1 << 4)
    /// The literal `null`.
    public static let null = Self(rawValue: 1 << 5)
    /// Every kind.
    public static let any = Self(rawValue: 0x3F)
}

extension JSONKinds: CustomStringConvertible {
    /// The kinds with their articles, as in "a string or an object".
    public var description: String {
        JSONKind.allCases.filter { self.contains(Self($0)) }.map(\.description).joined(separator: " or ")
    }
}
