// SPDX-License-Identifier: Apache-2.0

import NIOConcurrencyHelpers

/// When the keys of a service were last used with a new token.
package final class ProviderTokenRenewals: Sendable {
    /// The time of each key's newest token, in seconds since 1970.
    private let newest = NIOLockedValueBox<[String: Int64]>([:])

    package init() {}

    /// Forgets all tokens, so that the next one of each key is not a renewal.
    package func reset() { self.newest.withLockedValue { $0 = [:] } }

    /// Records the token of a key; the previous token stays valid.
    ///
    /// Returns how long ago the newest token was issued if that is too recent for this one; otherwise `nil`.
    func record(_ key: String, issuedAt: Int64, interval: Int64?, now: Int64) -> Int64? {
        guard let interval else { return nil }
        return self.newest.withLockedValue { newest in
            if let last = newest[key] {
                guard issuedAt > last else { return nil }
                if now - last < interval { return now - last }
            }
            newest[key] = issuedAt
            return nil
        }
    }
}
