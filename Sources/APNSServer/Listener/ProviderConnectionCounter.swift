// SPDX-License-Identifier: Apache-2.0

import NIOConcurrencyHelpers

/// Counts the connections of each provider, so that none has more than its share.
final class ProviderConnectionCounter: Sendable {
    private let counts = NIOLockedValueBox<[String: Int]>([:])

    /// How many connections each may have.
    let countMax: Int

    init(countMax: Int) { self.countMax = countMax }

    /// Takes a connection of a provider, by the fingerprint of its certificate; each that is taken is given back.
    ///
    /// - Returns: whether there was room for it.
    func take(_ fingerprint: String) -> Bool {
        self.counts.withLockedValue { counts in
            guard counts[fingerprint, default: 0] < self.countMax else { return false }
            counts[fingerprint, default: 0] += 1
            return true
        }
    }

    /// Gives a connection back that is no more.
    func giveBack(_ fingerprint: String) {
        self.counts.withLockedValue { counts in
            guard let count = counts[fingerprint] else { return }
            counts[fingerprint] = count > 1 ? count - 1 : nil
        }
    }
}
