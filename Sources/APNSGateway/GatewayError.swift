// SPDX-License-Identifier: Apache-2.0

/// Why a store of the gateway cannot be used.
@nonexhaustive
public enum GatewayError: Error, Hashable, Sendable {
    /// The database of what the feedback service has to tell cannot be used.
    case feedback(path: String, detail: String)
}

extension GatewayError: CustomStringConvertible {
    /// A sentence for people.
    public var description: String {
        switch self {
        case .feedback(let path, let detail): "the feedback database \(path) cannot be used: \(detail)"
        }
    }
}
