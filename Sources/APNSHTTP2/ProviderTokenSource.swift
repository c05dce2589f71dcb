// SPDX-License-Identifier: Apache-2.0

import NIOConcurrencyHelpers
import OpenSSLTLS

/// The provider token of all connections of a client.
final class ProviderTokenSource: Sendable {
    /// A token as it stands in a header, and its time.
    struct Current {
        var authorization: String
        var issuedAt: Int64
    }

    private struct State {
        var schedule = ProviderTokenSchedule()
        var current: Current?
        var previous: Current?
    }

    private let key: ProviderTokenKey
    private let now: @Sendable () -> Int64
    private let state = NIOLockedValueBox(State())

    /// - Parameters:
    ///   - key: signs the tokens.
    ///   - now: the time in seconds since 1970.
    init(key: ProviderTokenKey, now: @escaping @Sendable () -> Int64) {
        self.key = key
        self.now = now
    }

    /// The token for a request that goes out now.
    ///
    /// - Throws: where OpenSSL cannot sign.
    func current() throws(TLSError) -> Current {
        let now = self.now()
        let result = self.state.withLockedValue { state -> Result<Current, TLSError> in
            if case .keep = state.schedule.step(at: now), let current = state.current { return .success(current) }
            do throws(TLSError) {
                let made = Current(authorization: "bearer \(try self.key.token(issuedAt: now))", issuedAt: now)
                state.previous = state.current
                state.current = made
                return .success(made)
            } catch {
                return .failure(error)
            }
        }
        return try result.get()
    }

    /// The service refused a renewal.
    ///
    /// - Returns: whether there is a token to try again with.
    func renewalRefused(issuedAt: Int64) -> Bool {
        let now = self.now()
        return self.state.withLockedValue { state in
            // Requests that were under way with the refused token all say so; the first one has done what is to do.
            guard state.current?.issuedAt == issuedAt else { return state.current != nil }
            guard state.schedule.renewalRefused(at: now) != nil, let previous = state.previous else { return false }
            state.current = previous
            state.previous = nil
            return true
        }
    }

    /// The service said that a token has expired.
    ///
    /// - Returns: whether another try is worth while.
    func expired(issuedAt: Int64) -> Bool {
        let now = self.now()
        return self.state.withLockedValue { $0.schedule.expired(issuedAt: issuedAt, at: now) }
    }
}
