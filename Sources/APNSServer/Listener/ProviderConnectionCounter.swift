// SPDX-License-Identifier: Apache-2.0

import NIOConcurrencyHelpers

/// Limits the number of connections of each provider.
final class ProviderConnectionCounter: Sendable {
    private let counts = NIOLockedValueBox<[String: Int]>([:])

    /// The maximum number of connections per provider.
    let countMax: Int

    init(countMax: Int) { self.countMax = countMax }

    /// Counts a connection of a provider, by the fingerprint of its certificate, if the limit permits.
    ///
    /// Returns whether it was counted. If so, the caller calls ``release(_:)`` later.
    func acquire(_ fingerprint: String) -> Bool {
        self.counts.withLockedValue { counts in
            guard counts[fingerprint, default: 0] < self.countMax else { return false }
            counts[fingerprint, default: 0] += 1
            return true
        }
    }

    /// Removes a closed connection.
    func release(_ fingerprint: String) {
        self.counts.withLockedValue { counts in
            guard let count = counts[fingerprint] else { return }
            counts[fingerprint] = count > 1 ? count - 1 : nil
        }
    }
}
