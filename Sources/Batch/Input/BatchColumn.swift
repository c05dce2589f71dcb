// SPDX-License-Identifier: Apache-2.0

/// A part of a notification in batch input: a key of a JSON line or a column of CSV.
package enum BatchColumn: UInt8, Hashable, Sendable, CaseIterable {
    /// The device token; required.
    case token
    /// The payload; required unless all notifications share one.
    case payload
    /// When the service may give up: seconds since 1970, 0, or a duration that begins with `+`.
    case expiry
    /// 10 or 5.
    case priority
    /// Identifies the result: any JSON value, and in CSV any text.
    case id
    /// The text of the alert; only in CSV, in place of a payload.
    case alert
    /// The number on the icon; only in CSV, in place of a payload.
    case badge
    /// The name of the sound; only in CSV, in place of a payload.
    case sound

    /// The name in the input.
    package var name: StaticString {
        switch self {
        case .token: "token"
        case .payload: "payload"
        case .expiry: "expiry"
        case .priority: "priority"
        case .id: "id"
        case .alert: "alert"
        case .badge: "badge"
        case .sound: "sound"
        }
    }

    /// Whether it is a part of the payload, which only CSV has as a column; in JSON lines, it is a key of `aps`.
    var isPayloadPart: Bool { self.rawValue >= Self.alert.rawValue }

    /// The keys of a JSON line.
    static let keys = Self.allCases.filter { !$0.isPayloadPart }

    /// Finds the column of a name, in upper or lower case.
    init?(_ bytes: UnsafeRawBufferPointer) {
        let column: Self
        // Each name has a different length, or a different beginning.
        switch bytes.count {
        case 2: column = .id
        case 5:
            switch unsafe bytes[0] | 0x20 {
            case UInt8(ascii: "t"): column = .token
            case UInt8(ascii: "a"): column = .alert
            case UInt8(ascii: "b"): column = .badge
            default: column = .sound
            }
        case 6: column = .expiry
        case 7: column = .payload
        case 8: column = .priority
        default: return nil
        }
        let name = column.name
        // This bit is the only difference between a letter of ASCII in upper and in lower case.
        for index in 0..<bytes.count where unsafe bytes[index] | 0x20 != name.utf8Start[index] { return nil }
        self = column
    }
}

extension BatchColumn: InputColumn {
    package var columnName: String { self.name.description }

    package init?(columnName: UnsafeRawBufferPointer) { unsafe self.init(columnName) }
}

extension BatchColumn: CustomStringConvertible {
    /// The name in the input.
    package var description: String {
        self.name.description
    }
}
