// SPDX-License-Identifier: Apache-2.0

/// What an import may say of a token: a key of a JSON line, a column of CSV.
enum PurgeColumn: String, CaseIterable {
    case token
    case topic
    case environment
    /// The newest failure, as seconds since 1970 or ISO 8601.
    case failedAt
    case firstSeen
    case source
    /// The reason in the answer of the HTTP/2 service.
    case reason
    /// The time in that answer, in milliseconds since 1970, or in seconds from fakes of the service.
    case timestamp
    /// What became of a notification, in the results of `send`.
    case outcome
    /// The gateway's status in those results.
    case status

    /// The columns by their names without regard to case and `_`.
    private static let folded = Dictionary(uniqueKeysWithValues: Self.allCases.map { ($0.rawValue.lowercased(), $0) })

    /// Finds the column of a name, as exports spell it; `nil` for one that counts for nothing.
    init?(name: String) {
        switch name {
        case "failed_at": self = .failedAt
        case "first_seen": self = .firstSeen
        default: self.init(rawValue: name)
        }
    }

    /// Finds the column of a name in another spelling, such as `FailedAt`, where none has the usual one.
    init?(likeName name: String) {
        guard let column = Self.folded[name.lowercased().filter { $0 != "_" }] else { return nil }
        self = column
    }
}
