// SPDX-License-Identifier: Apache-2.0

import APNSWire
import APNSJSON
import OpenSSLTLS

/// Validates the provider tokens of all connections of a server.
///
/// - SeeAlso: "Establishing a token-based connection to APNs"; RFC 7515, 4; RFC 7519, 4.1.
final class ProviderTokenValidator: Sendable {
    /// What a connection has used so far.
    struct Memory: Equatable {
        var keyID: String?
        var teamID: String?
        /// The last valid header, its times and its signature, so that it is not verified each time.
        var passed: String?
        var times = Times()
        var signature: ES256SignatureFormat?
    }

    /// The times of a token, in seconds since 1970.
    struct Times: Equatable {
        var issuedAt: Int64 = 0
        /// `nbf`, the first second at which the token is valid.
        var notBefore: Int64?
        /// `exp`, the first second at which the token is no longer valid.
        var expiresAt: Int64?
    }

    /// The result of a validation.
    struct Result {
        /// Why the token is refused; `nil` if it is valid.
        var refusal: PushRefusal?
        /// The format of the signature; `nil` if it was not verified.
        var signature: ES256SignatureFormat?
    }

    /// The claims of a token with a valid signature.
    private struct Claims {
        var keyID: String
        var key: HTTP2ListenerConfiguration.TokenKey
        var teamID: String
        var times: Times
    }

    /// How far in the future, in seconds, a token may be issued, to allow for clock skew.
    private static let skewMax: Int64 = 60

    /// The age in seconds at which a token is no longer accepted.
    private static let ageMax: Int64 = 60 * 60

    private let keys: [String: HTTP2ListenerConfiguration.TokenKey]
    private let environment: PushEnvironment?
    private let requiresRawSignature: Bool
    private let renewalIntervalMin: Int64?
    private let renewals: ProviderTokenRenewals

    init(_ configuration: HTTP2ListenerConfiguration) {
        self.keys = configuration.tokenKeys
        self.environment = configuration.environment
        self.requiresRawSignature = configuration.requiresRawSignature
        self.renewalIntervalMin = configuration.tokenRenewalIntervalMin?.components.seconds
        self.renewals = configuration.tokenRenewals
    }

    /// Validates the value of an authorization header.
    func validate(_ authorization: String?, _ memory: inout Memory, now: Int64) -> Result {
        if let authorization, memory.passed == authorization {
            return Result(refusal: Self.refusal(of: memory.times, now), signature: memory.signature)
        }
        var result = Result()
        do throws(PushRefusal) {
            let claims = try self.verified(try Self.token(authorization), &result.signature)
            try self.check(claims, memory, now: now)
            memory = Memory(
                keyID: claims.keyID,
                teamID: claims.teamID,
                passed: authorization,
                times: claims.times,
                signature: result.signature
            )
        } catch {
            result.refusal = error
        }
        return result
    }

    /// Returns the token in a header.
    private static func token(_ authorization: String?) throws(PushRefusal) -> Substring {
        guard let authorization else { throw PushRefusal(.missingProviderToken, "there is no authorization header") }
        let words = authorization.split(separator: " ", maxSplits: 1)
        guard words.count == 2, words[0].lowercased() == "bearer" else {
            throw PushRefusal(.missingProviderToken, "authorization is not the word bearer and a token")
        }
        return words[1]
    }

    /// Checks claims whose signature is valid.
    private func check(_ claims: Claims, _ memory: Memory, now: Int64) throws(PushRefusal) {
        guard claims.key.teamID == claims.teamID else {
            throw PushRefusal(.invalidProviderToken, "iss: not the team of the key")
        }
        // A connection is bound to one team, and to keys that are related to its first one.
        guard memory.teamID ?? claims.teamID == claims.teamID else {
            throw PushRefusal(.invalidProviderToken, "iss: not the team of the connection's first token")
        }
        if let first = memory.keyID.flatMap({ self.keys[$0] }), !claims.key.isRelated(to: first) {
            throw PushRefusal(.unrelatedKeyIdInToken, "kid: not related to the connection's first key")
        }
        if let environment, let own = claims.key.environment, own != environment {
            throw PushRefusal(.badEnvironmentKeyIdInToken, "kid: the key is for the other environment")
        }
        if let refusal = Self.refusal(of: claims.times, now) { throw refusal }
        let age = self.renewals.record(
            claims.keyID,
            issuedAt: claims.times.issuedAt,
            interval: self.renewalIntervalMin,
            now: now
        )
        if let age, let renewalIntervalMin {
            throw PushRefusal(
                .tooManyProviderTokenUpdates,
                "iat: the key's last token is \(age) s old, and may be renewed after \(renewalIntervalMin) s"
            )
        }
    }

    private static func refusal(of times: Times, _ now: Int64) -> PushRefusal? {
        // The additions use the clock and not the token's own times, which may be any numbers and overflow.
        let latest = now + Self.skewMax
        for (name, time) in [("iat", times.issuedAt), ("nbf", times.notBefore)] as [(String, Int64?)] {
            guard let time, time > latest else { continue }
            return PushRefusal(.invalidProviderToken, "\(name): \(Self.seconds(from: now, to: time)) s in the future")
        }
        let oldest = now - Self.ageMax
        if times.issuedAt < oldest {
            let excess = Self.seconds(from: times.issuedAt, to: oldest)
            return PushRefusal(.expiredProviderToken, "iat: too old by \(excess) s")
        }
        if let end = times.expiresAt, end <= now {
            return PushRefusal(.expiredProviderToken, "exp: passed \(Self.seconds(from: end, to: now)) s ago")
        }
        return nil
    }

    private static func seconds(from start: Int64, to end: Int64) -> String {
        let (difference, isOverflow) = end.subtractingReportingOverflow(start)
        return isOverflow ? "more than \(Int64.max)" : "\(difference)"
    }

    /// Returns the claims of a token whose signature is valid.
    private func verified(
        _ token: Substring,
        _ format: inout ES256SignatureFormat?
    ) throws(PushRefusal) -> Claims {
        let parts = token.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 3 else { throw Self.invalid("the token does not have three parts") }
        let head = try Self.fields(parts[0], "header")
        guard head.string("alg") == "ES256" else { throw Self.invalid("alg: not ES256") }
        guard let keyID = head.string("kid") else { throw Self.invalid("kid: missing") }
        guard let key = self.keys[keyID] else { throw Self.invalid("kid: unknown key") }
        guard let signature = Base64.bytes(addressText: parts[2]) else {
            throw Self.invalid("signature: not base64url without padding")
        }
        format = key.key.format(of: signature, signing: Array("\(parts[0]).\(parts[1])".utf8))
        switch format {
        case nil: throw Self.invalid("signature: does not match the key and the text")
        case .der? where self.requiresRawSignature: throw Self.invalid("signature: DER, expected 64 bytes")
        case .raw?, .der?: break
        }
        let body = try Self.fields(parts[1], "claims")
        guard let teamID = body.string("iss") else { throw Self.invalid("iss: missing or not a string") }
        guard let issuedAt: Int64 = body.integer("iat") else { throw Self.invalid("iat: \(Self.notATime)") }
        let times = Times(
            issuedAt: issuedAt,
            notBefore: try Self.time("nbf", body),
            expiresAt: try Self.time("exp", body)
        )
        return Claims(keyID: keyID, key: key, teamID: teamID, times: times)
    }

    private static let notATime = "missing or not a whole number of seconds"

    /// Returns an optional time; one of another kind is invalid, as RFC 7519 requires a number.
    private static func time(_ name: String, _ body: JSONFields) throws(PushRefusal) -> Int64? {
        guard body.contains(name) else { return nil }
        guard let time: Int64 = body.integer(name) else { throw Self.invalid("\(name): not a whole number of seconds") }
        return time
    }

    private static func invalid(_ detail: String) -> PushRefusal { PushRefusal(.invalidProviderToken, detail) }

    private static func fields(_ part: Substring, _ name: String) throws(PushRefusal) -> JSONFields {
        guard let bytes = Base64.bytes(addressText: part), let fields = JSONFields(bytes) else {
            throw Self.invalid("\(name): not a JSON object in base64url without padding")
        }
        // RFC 7515, 4, and RFC 7519, 4: implementations differ in which of the two counts.
        guard fields.repeatedName == nil else { throw Self.invalid("\(name): a key occurs twice") }
        return fields
    }
}
