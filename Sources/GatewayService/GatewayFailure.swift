// SPDX-License-Identifier: Apache-2.0

/// Why a gateway cannot start.
package enum GatewayFailure: Error, Hashable, Sendable {
    /// The configuration cannot be read. The text names the file and the reason.
    case unreadable(String)
    /// The configuration, or a file that it names, is invalid. The text names the file and the reason.
    case configuration(String)
    /// Another gateway uses the database at this path.
    case databaseInUse(path: String)
}

extension GatewayFailure: CustomStringConvertible {
    /// A message for people.
    package var description: String {
        switch self {
        case .unreadable(let text), .configuration(let text): text
        case .databaseInUse(let path):
            "the database \(path) is in use by another gateway; start this one after the other has ended"
        }
    }
}
