// SPDX-License-Identifier: Apache-2.0

/// A part of an entry of an import: a key of a JSON line, a column of CSV.
package enum PurgeColumn: String, CaseIterable, Sendable {
    case token
    case topic
    case environment
    /// The newest failure, as seconds since 1970 or ISO 8601.
    case failedAt
    case firstSeen
    case source
    /// The reason in the response of the HTTP/2 service.
    case reason
    /// The time in that response, in milliseconds since 1970, or in seconds from imitations of the service.
    case timestamp
    /// The outcome of a notification, in the results of `send`.
    case outcome
    /// The gateway's status in those results.
    case status

    /// The columns by their names in lower case, without `_`.
    private static let folded = Dictionary(uniqueKeysWithValues: Self.allCases.map { ($0.rawValue.lowercased(), $0) })

    /// Finds the column of a name, as exports spell it; `nil` for one that is ignored.
    init?(name: String) {
        switch name {
        case "failed_at": self = .failedAt
        case "first_seen": self = .firstSeen
        default: self.init(rawValue: name)
        }
    }

    /// Finds the column of a name in another spelling, such as `FailedAt`, if no column has the usual one.
    init?(likeName name: String) {
        guard let column = Self.folded[name.lowercased().filter { $0 != "_" }] else { return nil }
        self = column
    }
}

extension PurgeColumn: InputColumn {
    package var columnName: String { self.rawValue }

    package init?(columnName: UnsafeRawBufferPointer) {
        guard let name = unsafe String(validating: columnName, as: UTF8.self),
            let column = Self(name: name) ?? Self(likeName: name)
        else { return nil }
        self = column
    }
}
