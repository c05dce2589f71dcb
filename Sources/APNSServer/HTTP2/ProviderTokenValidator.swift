// SPDX-License-Identifier: Apache-2.0

import APNSWire
import FoundationEssentials
import NIOConcurrencyHelpers
import OpenSSLTLS

/// Validates provider tokens, for all connections of a server.
///
/// - SeeAlso: "Establishing a token-based connection to APNs".
final class ProviderTokenValidator: Sendable {
    /// What a connection has shown so far.
    struct Memory: Equatable {
        var keyIdentifier: String?
        var teamIdentifier: String?
        /// The last header that passed, and its time, so that it is not verified again and again.
        var passed: String?
        var issuedAt: Int64 = 0
    }

    private struct Header: Decodable {
        var alg: String
        var kid: String
    }

    private struct Claims: Decodable {
        var iss: String
        var iat: Int64
    }

    /// How much later than now a token may have been made, in seconds, by a clock that is ahead.
    private static let skewMax: Int64 = 60

    /// The age at which a token is not taken any more, in seconds.
    private static let ageMax: Int64 = 60 * 60

    private let keys: [String: PushServerConfiguration.TokenKey]
    private let renewalIntervalMin: Int64?
    /// The time of each key's newest token.
    private let newest = NIOLockedValueBox<[String: Int64]>([:])

    init(_ configuration: PushServerConfiguration) {
        self.keys = configuration.tokenKeys
        self.renewalIntervalMin = configuration.tokenRenewalIntervalMin?.components.seconds
    }

    /// Validates the value of an authorization header.
    ///
    /// - Returns: what is wrong with it, or `nil`.
    func problem(_ authorization: String?, _ memory: inout Memory, now: Int64) -> PushReason? {
        guard let authorization else { return .missingProviderToken }
        if memory.passed == authorization { return self.ageProblem(memory.issuedAt, now) }
        let words = authorization.split(separator: " ", maxSplits: 1)
        guard words.count == 2, words[0].lowercased() == "bearer" else { return .missingProviderToken }
        guard let (header, claims) = self.verified(words[1]), let key = self.keys[header.kid] else {
            return .invalidProviderToken
        }
        guard claims.iss == key.teamIdentifier else { return .invalidProviderToken }
        // One team for each connection, and of its keys the first one.
        guard memory.teamIdentifier ?? claims.iss == claims.iss else { return .invalidProviderToken }
        guard memory.keyIdentifier ?? header.kid == header.kid else { return .unrelatedKeyIdInToken }
        if let problem = self.ageProblem(claims.iat, now) { return problem }
        if self.isRenewedTooSoon(header.kid, issuedAt: claims.iat, now) { return .tooManyProviderTokenUpdates }
        memory = Memory(
            keyIdentifier: header.kid,
            teamIdentifier: claims.iss,
            passed: authorization,
            issuedAt: claims.iat
        )
        return nil
    }

    private func ageProblem(_ issuedAt: Int64, _ now: Int64) -> PushReason? {
        // The clock is added to, and the token's own time never, which may be any number.
        if issuedAt > now + Self.skewMax { return .invalidProviderToken }
        return issuedAt < now - Self.ageMax ? .expiredProviderToken : nil
    }

    private func verified(_ token: Substring) -> (Header, Claims)? {
        let parts = token.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 3, let head = Base64.bytes(addressText: parts[0]),
            let body = Base64.bytes(addressText: parts[1]),
            let signature = Base64.bytes(addressText: parts[2]),
            let header = try? JSONDecoder().decode(Header.self, from: Data(head)), header.alg == "ES256",
            let claims = try? JSONDecoder().decode(Claims.self, from: Data(body)),
            let key = self.keys[header.kid]
        else { return nil }
        let signed = Array("\(parts[0]).\(parts[1])".utf8)
        return key.key.verifies(signature, of: signed) ? (header, claims) : nil
    }

    /// Whether a key's token is newer than the last one by less than the interval; the last one stays good.
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
