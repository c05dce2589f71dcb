// SPDX-License-Identifier: Apache-2.0

/// Why a gateway does not start.
package enum GatewayFailure: Error, Hashable, Sendable {
    /// The configuration cannot be read; the text says which file and why.
    case unreadable(String)
    /// The configuration, or a file that it names, cannot be used; the text says which and why.
    case configuration(String)
    /// The operators' address cannot be listened on; the text says which and why.
    case unavailable(String)
    /// Another gateway uses the database at this path, or still settles what it took.
    case databaseInUse(path: String)
}

extension GatewayFailure: CustomStringConvertible {
    /// A sentence for people.
    package var description: String {
        switch self {
        case .unreadable(let text), .configuration(let text), .unavailable(let text): text
        case .databaseInUse(let path):
            "another gateway uses \(path), or still settles what it took; start this one when it has ended"
        }
    }
}
