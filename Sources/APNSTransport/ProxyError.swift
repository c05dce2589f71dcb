// SPDX-License-Identifier: Apache-2.0

/// Why a proxy did not open the way.
package enum ProxyError: Error, Hashable, Sendable {
    /// The text says what it answered.
    case refused(String)
    /// It wants a user name and a password, or others.
    case authenticationRequired
}
