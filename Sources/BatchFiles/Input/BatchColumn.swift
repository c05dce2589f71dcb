// SPDX-License-Identifier: Apache-2.0

/// What batch input may say of a notification: a key of a JSON line, a column of CSV.
package enum BatchColumn: UInt8, Hashable, Sendable, CaseIterable {
    /// The device token; each notification needs one.
    case token
    /// The payload; each notification needs one, unless all share one.
    case payload
    /// When the service may give up: seconds since 1970, 0, or a span that begins with `+`.
    case expiry
    /// 10 or 5.
    case priority
    /// What the result is told apart by; any JSON value, and in CSV any text.
    case id

    /// The name in the input.
    package var name: StaticString {
        switch self {
        case .token: "token"
        case .payload: "payload"
        case .expiry: "expiry"
        case .priority: "priority"
        case .id: "id"
        }
    }

    /// Finds the column of a name; upper and lower case differ.
    init?(_ bytes: UnsafeRawBufferPointer) {
        let column: Self
        // No two names are of one length.
        switch bytes.count {
        case 2: column = .id
        case 5: column = .token
        case 6: column = .expiry
        case 7: column = .payload
        case 8: column = .priority
        default: return nil
        }
        let name = column.name
        for index in 0..<bytes.count where unsafe bytes[index] != name.utf8Start[index] { return nil }
        self = column
    }
}

extension BatchColumn: CustomStringConvertible {
    /// The name in the input.
    package var description: String {
        self.name.description
    }
}
