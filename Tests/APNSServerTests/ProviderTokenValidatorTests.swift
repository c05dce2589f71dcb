// SPDX-License-Identifier: Apache-2.0

import APNSTestKit
import APNSWire
import ListenerFixtures
import OpenSSLTLS
import Testing

@testable import APNSServer

@Suite("The validation of provider tokens")
struct ProviderTokenValidatorTests {
    typealias Memory = ProviderTokenValidator.Memory

    private static let noon: Int64 = 1_750_000_000
    private static let team = "TEAM123456"
    private static let head = #"{"alg":"ES256","kid":"ABC123DEFG"}"#
    private static let signer = Result {
        try ES256PrivateKey(bytes: CertificateAuthority().issueClient(topic: "a", keyKind: .p256).keyPEM)
    }

    private static func configuration(_ key: ES256PublicKey) throws -> HTTP2ListenerConfiguration {
        var configuration = HTTP2ListenerConfiguration(
            identity: try ListenerFixture.gateway.get().identity,
            clientTrust: try ListenerFixture.authority.get().trust
        )
        configuration.tokenKeys = ["ABC123DEFG": .init(key: key, teamID: Self.team)]
        return configuration
    }

    private static func validator(
        _ change: (inout HTTP2ListenerConfiguration) throws -> Void = { _ in }
    ) throws -> ProviderTokenValidator {
        var configuration = try Self.configuration(try Self.signer.get().publicKey)
        try change(&configuration)
        return ProviderTokenValidator(configuration)
    }

    private static func token(_ claims: String, head: String = Self.head) throws -> String {
        let text = [head, claims].map { Base64.addressText($0.utf8) }.joined(separator: ".")
        return "bearer \(text).\(Base64.addressText(try Self.signer.get().signature(of: Array(text.utf8))))"
    }

    private static func claims(_ rest: String) -> String { #"{"iss":"\#(Self.team)",\#(rest)}"# }

    // MARK: Signatures

    /// The key of the tokens below.
    private static let vectorKey = """
        -----BEGIN PUBLIC KEY-----
        MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEGxEbhKCLpwd+UZjIR0xhMAjKTywM
        Grr8dfIpCQehfhSxCo8Gkic3nLMwFfe+u5OQcwgJbfjENKUSPhD2UxEvmg==
        -----END PUBLIC KEY-----
        """

    private static let vectorClaims = "eyJpc3MiOiJURUFNMTIzNDU2IiwiaWF0IjoxNzUwMDAwMDAwfQ"

    /// Tokens that OpenSSL signed with DER signatures, in the forms of three clients.
    private static let vectors: [(name: String, head: String, signature: String)] = [
        (
            "pushy: with typ", "eyJhbGciOiJFUzI1NiIsInR5cCI6IkpXVCIsImtpZCI6IkFCQzEyM0RFRkcifQ",
            "MEQCIH-r9EApNxnU2qVoABD4ZtbgnmZ0sB3DbSba3ajGHS27AiBwlyQLX5z3F2BAR7cINjUfQtJRGB77qwIkrpOtzP1W4w"
        ),
        (
            "apnotic: alg and kid", "eyJhbGciOiJFUzI1NiIsImtpZCI6IkFCQzEyM0RFRkcifQ",
            "MEQCIHexcgkpEkRX_0mqnPEsUXg6J2GfayRu8lveBQZl_KSNAiAW03BELfa0oDyZSxvty8IcJLfyXwzc33sn1I2_voIrhQ"
        ),
        (
            "the sample of Apple's guide: 30 46 02 21", "eyJhbGciOiJFUzI1NiIsImtpZCI6IkFCQzEyM0RFRkcifQ",
            "MEYCIQDpcJeYR5afxR5kVfS3r-xe_i1x81k-nkkFwDQQzfnSSAIhAPQqwoDVxuIR-xpS1LhTh1XLB2nFM6rgy2PMazoAopjL"
        ),
    ]

    @Test(arguments: Self.vectors.indices)
    func `a DER signature is accepted and reported, unless raw ones are required`(_ index: Int) throws {
        let vector = Self.vectors[index]
        let token = "bearer \(vector.head).\(Self.vectorClaims).\(vector.signature)"
        var configuration = try Self.configuration(ES256PublicKey(pem: Array(Self.vectorKey.utf8)))
        var memory = Memory()
        // The second time, the result is cached.
        for _ in 0..<2 {
            let result = ProviderTokenValidator(configuration).validate(token, &memory, now: Self.noon)
            #expect(result.refusal == nil && result.signature == .der, "\(vector.name)")
        }
        configuration.requiresRawSignature = true
        var strict = Memory()
        let result = ProviderTokenValidator(configuration).validate(token, &strict, now: Self.noon)
        #expect(result.refusal == PushRefusal(.invalidProviderToken, "signature: DER, expected 64 bytes"))
        #expect(result.signature == .der && strict == Memory())
    }

    @Test func `a signature of 64 bytes is reported as raw`() throws {
        var memory = Memory()
        let result = try Self.validator { $0.requiresRawSignature = true }
            .validate(try Self.token(Self.claims("\"iat\":1750000000")), &memory, now: Self.noon)
        #expect(result.refusal == nil && result.signature == .raw && memory.signature == .raw)
    }

    // MARK: Reasons

    private static let mistakes: [(head: String, claims: String, refusal: PushRefusal)] = [
        ("[]", "{}", PushRefusal(.invalidProviderToken, "header: not a JSON object in base64url without padding")),
        (#"{"alg":"RS256","kid":"ABC123DEFG"}"#, "{}", PushRefusal(.invalidProviderToken, "alg: not ES256")),
        (#"{"alg":"ES256"}"#, "{}", PushRefusal(.invalidProviderToken, "kid: missing")),
        (#"{"alg":"ES256","kid":"OTHER"}"#, "{}", PushRefusal(.invalidProviderToken, "kid: unknown key")),
        (
            #"{"alg":"ES256","kid":"ABC123DEFG","kid":"ABC123DEFG"}"#, "{}",
            PushRefusal(.invalidProviderToken, "header: a key occurs twice")
        ),
        (Self.head, "{}", PushRefusal(.invalidProviderToken, "iss: missing or not a string")),
        (
            Self.head, Self.claims("\"iat\":\"1750000000000\""),
            PushRefusal(.invalidProviderToken, "iat: missing or not a whole number of seconds")
        ),
        (
            Self.head, #"{"iss":"OTHER12345","iat":1750000000}"#,
            PushRefusal(.invalidProviderToken, "iss: not the team of the key")
        ),
        (
            Self.head, Self.claims("\"iat\":1749996397"),
            PushRefusal(.expiredProviderToken, "iat: too old by 3 s")
        ),
        (
            Self.head, Self.claims("\"iat\":1750000061"),
            PushRefusal(.invalidProviderToken, "iat: 61 s in the future")
        ),
        (
            Self.head, Self.claims("\"iat\":1750000000,\"iat\":1750000000"),
            PushRefusal(.invalidProviderToken, "claims: a key occurs twice")
        ),
        (
            Self.head, Self.claims("\"iat\":1750000000,\"exp\":1749999995"),
            PushRefusal(.expiredProviderToken, "exp: passed 5 s ago")
        ),
        (
            Self.head, Self.claims("\"iat\":1750000000,\"nbf\":1750000070"),
            PushRefusal(.invalidProviderToken, "nbf: 70 s in the future")
        ),
        (
            Self.head, Self.claims("\"iat\":1750000000,\"exp\":\"tomorrow\""),
            PushRefusal(.invalidProviderToken, "exp: not a whole number of seconds")
        ),
    ]

    @Test(arguments: Self.mistakes.indices) func `each mistake is explained`(_ index: Int) throws {
        let (head, claims, refusal) = Self.mistakes[index]
        var memory = Memory()
        let token = try Self.token(claims, head: head)
        #expect(try Self.validator().validate(token, &memory, now: Self.noon).refusal == refusal)
        #expect(memory == Memory())
    }

    @Test func `exp and nbf that allow the token change nothing, and exp also ends a cached token`() throws {
        let validator = try Self.validator()
        let token = try Self.token(Self.claims("\"iat\":1750000000,\"exp\":1750000100,\"nbf\":1750000000"))
        var memory = Memory()
        #expect(validator.validate(token, &memory, now: Self.noon).refusal == nil)
        #expect(validator.validate(token, &memory, now: Self.noon + 99).refusal == nil)
        let late = validator.validate(token, &memory, now: Self.noon + 100).refusal
        #expect(late == PushRefusal(.expiredProviderToken, "exp: passed 0 s ago"))
    }

    @Test func `a forged signature is explained without the token`() throws {
        var memory = Memory()
        let token = try Self.token(Self.claims("\"iat\":1750000000")).dropLast(4) + "AAAA"
        let result = try Self.validator().validate(String(token), &memory, now: Self.noon)
        let expected = PushRefusal(.invalidProviderToken, "signature: does not match the key and the text")
        #expect(result.refusal == expected && result.signature == nil)
    }

    // MARK: Connections and renewals

    @Test func `a related key of the same team and apps is accepted on a connection, another is not`() throws {
        let validator = try Self.validator { configuration in
            let key = try Self.signer.get().publicKey
            configuration.tokenKeys["RELATED123"] = .init(key: key, teamID: Self.team)
            configuration.tokenKeys["OTHERAPP12"] = .init(key: key, teamID: Self.team, topics: ["a"])
        }
        func refusal(_ key: String, _ memory: inout Memory) throws -> PushRefusal? {
            let head = Self.head.replacing("ABC123DEFG", with: key)
            let token = try Self.token(Self.claims("\"iat\":1750000000"), head: head)
            return validator.validate(token, &memory, now: Self.noon).refusal
        }
        var memory = Memory()
        #expect(try refusal("ABC123DEFG", &memory) == nil)
        #expect(try refusal("RELATED123", &memory) == nil)
        #expect(try refusal("ABC123DEFG", &memory) == nil)
        let unrelated = PushRefusal(.unrelatedKeyIdInToken, "kid: not related to the connection's first key")
        #expect(try refusal("OTHERAPP12", &memory) == unrelated)
    }

    @Test func `a reset of the renewal times allows a new token at once`() throws {
        let configuration = try Self.configuration(try Self.signer.get().publicKey)
        var limited = configuration
        limited.tokenRenewalIntervalMin = .seconds(1200)
        let validator = ProviderTokenValidator(limited)
        var memory = Memory()
        func refusal(_ time: Int64) throws -> PushRefusal? {
            validator.validate(try Self.token(Self.claims("\"iat\":\(time)")), &memory, now: Self.noon).refusal
        }
        #expect(try refusal(Self.noon - 300) == nil)
        let early = "iat: the key's last token is 300 s old, and may be renewed after 1200 s"
        #expect(try refusal(Self.noon) == PushRefusal(.tooManyProviderTokenUpdates, early))
        configuration.tokenRenewals.reset()
        #expect(try refusal(Self.noon) == nil)
    }
}
