// SPDX-License-Identifier: Apache-2.0

/// A field of an imported entry: a key of a JSON line or a column of CSV.
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
    /// The time in that response, in milliseconds since 1970; some other implementations of the service use seconds.
    case timestamp
    /// The outcome of a notification, in the results of `send`.
    case outcome
    /// The gateway's status in those results.
    case status
    /// The payload of a notification; a line with one may be of a batch to send.
    case payload

    /// The columns by their names in lower case, without `_`.
    private static let folded = Dictionary(uniqueKeysWithValues: Self.allCases.map { ($0.rawValue.lowercased(), $0) })

    /// Finds a column by the name that exports use; `nil` for a column that is ignored.
    init?(name: String) {
        switch name {
        case "failed_at": self = .failedAt
        case "first_seen": self = .firstSeen
        default: self.init(rawValue: name)
        }
    }

    /// Finds a column by another spelling of its name, such as `FailedAt`, if no column has the usual name.
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
