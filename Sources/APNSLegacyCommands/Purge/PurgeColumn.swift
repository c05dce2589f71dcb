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
    /// The time in that answer, in milliseconds since 1970.
    case timestamp

    /// Finds the column of a name; `nil` for one that counts for nothing.
    init?(name: String) {
        switch name {
        case "failed_at": self = .failedAt
        case "first_seen": self = .firstSeen
        default: self.init(rawValue: name)
        }
    }
}
