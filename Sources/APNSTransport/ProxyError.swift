// SPDX-License-Identifier: Apache-2.0

/// Why a proxy did not open the way.
package enum ProxyError: Error, Hashable, Sendable {
    /// The text says what it answered.
    case refused(String)
    /// It wants a user name and a password, or others.
    case authenticationRequired
}

extension ProxyError: CustomStringConvertible {
    /// What happened, and what to do.
    package var description: String {
        switch self {
        case .refused(let text): "the proxy did not open the way: \(text)"
        case .authenticationRequired: "the proxy wants a user name and a password, or others."
        }
    }
}
