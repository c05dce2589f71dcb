// SPDX-License-Identifier: Apache-2.0

/// Why a gateway cannot start.
package enum GatewayFailure: Error, Hashable, Sendable {
    /// The configuration cannot be read. The text names the file and the reason.
    case unreadable(String)
    /// The configuration, or a file that it names, is invalid. The text names the file and the reason.
    case configuration(String)
    /// A line of the configuration is invalid, for the reason that the text names.
    case line(path: String, Int, String)
    /// Another gateway uses the database or folder at this path.
    case inUse(path: String)
}

extension GatewayFailure: CustomStringConvertible {
    /// A message for people.
    package var description: String {
        switch self {
        case .unreadable(let text), .configuration(let text): text
        case .line(let path, let line, let text): "\(path), line \(line): \(text)"
        case .inUse(let path): "\(path) is in use by another gateway; start this one after the other has ended"
        }
    }
}
