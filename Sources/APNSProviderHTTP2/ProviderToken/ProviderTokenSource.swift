// SPDX-License-Identifier: Apache-2.0

import APNSProvider
public import APNSWire
import NIOConcurrencyHelpers
import OpenSSLTLS

/// The provider token of a key, renewed when necessary.
///
/// The service refuses tokens of a key that are renewed in less than 20 minutes, so all clients of a process that sign
/// with the same key should share one source. Tokens are dated to the beginning of fixed periods of 50 minutes, which
/// depend on the key, so processes and hosts with the same key and a correct clock renew at the same times.
///
/// - SeeAlso: "Establishing a token-based connection to APNs".
public final class ProviderTokenSource: Sendable {
    /// The value of the header, and the time of issue of its token.
    struct Current {
        var authorization: String
        var issuedAt: Int64
    }

    private struct State {
        var schedule: ProviderTokenSchedule
        var current: Current?
        var previous: Current?
        var refused: Current?
    }

    /// The key that signs the tokens.
    public let key: ProviderTokenKey

    private let now: @Sendable () -> Int64
    private let state: NIOLockedValueBox<State>

    /// Creates a source without a token.
    ///
    /// - Parameters:
    ///   - key: the key that signs the tokens.
    ///   - now: returns the time; by default the system's time.
    public convenience init(key: ProviderTokenKey, now: (@Sendable () -> Timestamp)? = nil) {
        self.init(key: key) { (now?() ?? .now).secondsSince1970 }
    }

    /// Creates a source without a token, with a clock in seconds since 1970 (UTC).
    package init(key: ProviderTokenKey, seconds: @escaping @Sendable () -> Int64) {
        self.key = key
        self.now = seconds
        self.state = NIOLockedValueBox(State(schedule: ProviderTokenSchedule(phase: Self.phase(of: key.keyID))))
    }

    /// When the periods of a key begin; different keys have different times.
    private static func phase(of keyID: String) -> Int64 {
        keyID.utf8.reduce(0) { ($0 * 31 + Int64($1)) % ProviderTokenSchedule.renewalAge }
    }

    /// Creates a source without a token, with the key of a .p8 file.
    ///
    /// - Throws: `ProviderError` of kind `tls` for a file that cannot be read, of kind `configuration` for invalid
    ///   identifiers.
    convenience init(p8 path: String, keyID: String, teamID: String) throws(ProviderError) {
        let key: ES256PrivateKey
        do { key = try ES256PrivateKey(contentsOf: path) } catch { throw .tls(error) }
        self.init(key: try ProviderTokenKey(key: key, keyID: keyID, teamID: teamID))
    }

    /// The token for a request that is sent now.
    ///
    /// - Throws: an error if OpenSSL cannot sign.
    func current() throws(TLSError) -> Current {
        let now = self.now()
        let result = self.state.withLockedValue { state -> Result<Current, TLSError> in
            do throws(TLSError) {
                return .success(try self.step(&state, at: now))
            } catch {
                return .failure(error)
            }
        }
        return try result.get()
    }

    private func step(_ state: inout State, at now: Int64) throws(TLSError) -> Current {
        switch (state.schedule.step(at: now), state.current, state.refused) {
        case (.keep, let current?, _): return current
        case (.useRefused, _, let refused?):
            state.current = refused
            state.refused = nil
            return refused
        case (let step, _, _):
            let time = if case .renew(let issuedAt) = step { issuedAt } else { now }
            let made = Current(authorization: "bearer \(try self.key.token(issuedAt: time))", issuedAt: time)
            (state.previous, state.current, state.refused) = (state.current, made, nil)
            return made
        }
    }

    /// The service refused a renewed token.
    ///
    /// Returns whether there is a token for another attempt.
    func renewalRefused(issuedAt: Int64) -> Bool {
        let now = self.now()
        return self.state.withLockedValue { state in
            // All requests in flight with the refused token get this answer; the first one has handled it.
            guard state.current?.issuedAt == issuedAt else { return state.current != nil }
            guard state.schedule.renewalRefused(at: now) != nil, let previous = state.previous else { return false }
            (state.previous, state.current, state.refused) = (nil, previous, state.current)
            return true
        }
    }

    /// The service reported that a token has expired.
    ///
    /// Returns whether to make another attempt.
    func expired(issuedAt: Int64) -> Bool {
        let now = self.now()
        return self.state.withLockedValue { $0.schedule.expired(issuedAt: issuedAt, at: now) }
    }
}

extension ProviderTokenSource: CustomStringConvertible, CustomReflectable {
    /// The identifiers of the key, in one line; no token.
    public var description: String { "provider tokens by \(self.key)" }

    /// Empty, so that `dump` prints only the ``description``.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}
