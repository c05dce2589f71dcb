// SPDX-License-Identifier: Apache-2.0

import APNSPayload
import APNSWire
import NIOConcurrencyHelpers
import OpenSSLTLS

/// Validates the provider tokens of all connections of a server.
///
/// - SeeAlso: "Establishing a token-based connection to APNs".
final class ProviderTokenValidator: Sendable {
    /// What a connection has used so far.
    struct Memory: Equatable {
        var keyIdentifier: String?
        var teamIdentifier: String?
        /// The last valid header and its time, so that it is not verified each time.
        var passed: String?
        var issuedAt: Int64 = 0
    }

    /// The claims of a token with a valid signature.
    private struct Claims {
        var keyIdentifier: String
        var teamIdentifier: String
        var issuedAt: Int64
    }

    /// How far in the future, in seconds, a token may be issued, to allow for clock skew.
    private static let skewMax: Int64 = 60

    /// The age in seconds at which a token is no longer accepted.
    private static let ageMax: Int64 = 60 * 60

    private let keys: [String: PushServerConfiguration.TokenKey]
    private let environment: Environment?
    private let renewalIntervalMin: Int64?
    /// The time of each key's newest token.
    private let newest = NIOLockedValueBox<[String: Int64]>([:])

    init(_ configuration: PushServerConfiguration) {
        self.keys = configuration.tokenKeys
        self.environment = configuration.environment
        self.renewalIntervalMin = configuration.tokenRenewalIntervalMin?.components.seconds
    }

    /// Validates the value of an authorization header.
    ///
    /// - Returns: the error, or `nil`.
    func problem(_ authorization: String?, _ memory: inout Memory, now: Int64) -> PushReason? {
        guard let authorization else { return .missingProviderToken }
        if memory.passed == authorization { return self.ageProblem(memory.issuedAt, now) }
        let words = authorization.split(separator: " ", maxSplits: 1)
        guard words.count == 2, words[0].lowercased() == "bearer" else { return .missingProviderToken }
        guard let claims = self.verified(words[1]) else { return .invalidProviderToken }
        let (key, team) = (claims.keyIdentifier, claims.teamIdentifier)
        guard self.keys[key]?.teamIdentifier == team else { return .invalidProviderToken }
        // A connection is bound to one team, and to the first key that it uses.
        guard memory.teamIdentifier ?? team == team else { return .invalidProviderToken }
        guard memory.keyIdentifier ?? key == key else { return .unrelatedKeyIdInToken }
        guard self.isAllowed(key) else { return .badEnvironmentKeyIdInToken }
        if let problem = self.ageProblem(claims.issuedAt, now) { return problem }
        if self.isRenewedTooSoon(key, issuedAt: claims.issuedAt, now) { return .tooManyProviderTokenUpdates }
        memory = Memory(
            keyIdentifier: key,
            teamIdentifier: team,
            passed: authorization,
            issuedAt: claims.issuedAt
        )
        return nil
    }

    /// Whether a key may be used in the configured environment.
    private func isAllowed(_ key: String) -> Bool {
        guard let environment = self.environment, let own = self.keys[key]?.environment else { return true }
        return own == environment
    }

    private func ageProblem(_ issuedAt: Int64, _ now: Int64) -> PushReason? {
        // The addition uses the clock and not the token's own time, which may be any number and overflow.
        if issuedAt > now + Self.skewMax { return .invalidProviderToken }
        return issuedAt < now - Self.ageMax ? .expiredProviderToken : nil
    }

    /// Returns the claims of a token whose signature is valid; otherwise `nil`.
    private func verified(_ token: Substring) -> Claims? {
        let parts = token.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 3, let head = Self.fields(parts[0]), head.string("alg") == "ES256",
            let keyIdentifier = head.string("kid"), let key = self.keys[keyIdentifier]?.key,
            let body = Self.fields(parts[1]), let teamIdentifier = body.string("iss"),
            let issuedAt: Int64 = body.integer("iat"), let signature = Base64.bytes(addressText: parts[2]),
            key.verifies(signature, of: Array("\(parts[0]).\(parts[1])".utf8))
        else { return nil }
        return Claims(keyIdentifier: keyIdentifier, teamIdentifier: teamIdentifier, issuedAt: issuedAt)
    }

    private static func fields(_ part: Substring) -> JSONFields? {
        Base64.bytes(addressText: part).flatMap { JSONFields($0) }
    }

    /// Whether a key's token was renewed before the interval had passed; the previous token stays valid.
    private func isRenewedTooSoon(_ key: String, issuedAt: Int64, _ now: Int64) -> Bool {
        guard let interval = self.renewalIntervalMin else { return false }
        return self.newest.withLockedValue { newest in
            if let last = newest[key] {
                guard issuedAt > last else { return false }
                if now - last < interval { return true }
            }
            newest[key] = issuedAt
            return false
        }
    }
}
