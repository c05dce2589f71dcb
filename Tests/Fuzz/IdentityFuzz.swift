// SPDX-License-Identifier: Apache-2.0

import APNSWire

@testable import APNSCertificates
@testable import APNSServer
@testable import OpenSSLTLS

/// Certificates, keys and what they sign.
enum IdentityFuzz {
    static func certificate(_ bytes: [UInt8]) {
        _ = FileContent(bytes)
        _ = FileContent(firstLine: Array(bytes.prefix { $0 != 0x0A }))
        _ = PKCS12Protection(of: bytes)
        guard let file = try? CertificateFile(bytes: bytes) else { return }
        _ = CertificateReport(file, of: "file", keys: [], now: 1_800_000_000)
    }

    /// A certificate that is admitted with revocation lists is admitted without them.
    ///
    /// With `+` in front, the input has parts, each up to a zero: the authorities, their lists, additional lists, and
    /// the certificates that a client sends. Otherwise, the authorities and their lists are in one file.
    static func revocations(_ bytes: [UInt8]) throws {
        guard bytes.first == UInt8(ascii: "+") else {
            _ = try? CertificateVerifier(authorities: bytes, revocations: bytes)
            return
        }
        var input = FuzzInput(Array(bytes.dropFirst()))
        let (authorities, lists, additional) = (input.bytes(upTo: 0), input.bytes(upTo: 0), input.bytes(upTo: 0))
        let verifier = try? CertificateVerifier(
            authorities: authorities,
            revocations: lists.isEmpty ? nil : lists,
            additionalRevocations: CertificateVerifier.readableLists(in: additional)
        )
        guard let verifier, let file = try? CertificateFile(bytes: input.all()), let leaf = file.certificates.first
        else { return }
        let others = Array(file.certificates.dropFirst())
        guard verifier.problem(of: leaf, intermediates: others) == nil else { return }
        let problem = try CertificateVerifier(authorities: authorities).problem(of: leaf, intermediates: others)
        try require(problem == nil, "lists admit no certificate")
    }

    /// The first byte decides about the passphrase, whether the rest is a certificate, a key or both, and whether it
    /// begins with a separate key, behind its length.
    static func keys(_ bytes: [UInt8]) throws {
        guard let mode = bytes.first else { return }
        var input = FuzzInput(Array(bytes.dropFirst()))
        let separate = mode & 0x44 == 0x40 ? input.bytes(Int(input.number(byteCount: 2))) : nil
        let file = input.all()
        let passphrase: TLSPassphrase? =
            switch mode & 3 {
            case 0: nil
            case 1: TLSPassphrase("example")
            default: TLSPassphrase("")
            }
        if mode & 4 == 0 {
            func read() -> TLSIdentity? { try? TLSIdentity(bytes: file, key: separate, passphrase: passphrase) }
            guard let identity = read() else { return }
            try require(identity == read(), "the same identity again")
        } else if let key = try? ES256PrivateKey(bytes: file, passphrase: passphrase) {
            let signature = try key.signature(of: bytes)
            try require(signature.count == 64, "a signature has 64 bytes")
            try require(try key.publicKey.verifies(signature, of: bytes), "a key verifies what it has signed")
        }
        _ = try? ES256PublicKey(pem: file)
        guard let signer = Self.signer else { return }
        _ = signer.publicKey.format(of: file, signing: [])
    }

    private static let signer: (key: ES256PrivateKey, publicKey: ES256PublicKey)? = {
        guard let key = try? ES256PrivateKey(bytes: CertificateAuthority.makeKeyPEM(.p256)),
            let publicKey = try? key.publicKey
        else { return nil }
        return (key, publicKey)
    }()

    /// A listener with one key.
    private static let listener: HTTP2ListenerConfiguration? = {
        guard let authority = try? CertificateAuthority(), case let trust = authority.trust,
            let server = try? authority.issueServer().identity, let signer = Self.signer
        else { return nil }
        var configuration = HTTP2ListenerConfiguration(identity: server, clientTrust: trust)
        configuration.tokenKeys = ["ABCDEFGHIJ": .init(key: signer.publicKey, teamID: "KLMNOPQRST")]
        return configuration
    }()

    private static let validator = Self.listener.map { ProviderTokenValidator($0) }

    /// A provider token; with `+` in front, the lines of the input are its header and its claims, and are signed; with
    /// `*`, it is the tokens of a connection.
    static func providerToken(_ bytes: [UInt8]) throws {
        guard let key = Self.signer?.key else { throw FuzzFinding(description: "there is a key") }
        guard let validator = Self.validator else { throw FuzzFinding(description: "there is a validator") }
        if bytes.first == UInt8(ascii: "*") { return try self.providerTokens(Array(bytes.dropFirst()), key) }
        var text = String(decoding: bytes, as: UTF8.self)
        let isSigned = bytes.first == UInt8(ascii: "+")
        if isSigned {
            var input = FuzzInput(Array(bytes.dropFirst()))
            let parts = [input.bytes(upTo: 0x0A), input.all()].map { Base64.addressText($0) }.joined(separator: ".")
            text = "bearer " + parts + "." + Base64.addressText(try key.signature(of: Array(parts.utf8)))
        }
        var memory = ProviderTokenValidator.Memory()
        let first = validator.validate(text, &memory, now: 1_800_000_000)
        try require(isSigned || first.refusal != nil, "only a signed token is valid")
        let again = validator.validate(text, &memory, now: 1_800_000_000)
        try require((first.refusal == nil) == (again.refusal == nil), "a token stays valid")
    }

    /// The most tokens of one input.
    private static let tokenCountMax = 8

    /// The tokens of a connection are of one team, and a valid one stays valid.
    ///
    /// The first byte decides what the listener requires. Each token has a byte that decides about its signature and
    /// the time since the one before, a line with its header, and one with its claims.
    private static func providerTokens(_ bytes: [UInt8], _ key: ES256PrivateKey) throws {
        guard var listener = Self.listener, let publicKey = Self.signer?.publicKey else { return }
        var input = FuzzInput(bytes)
        let mode = input.byte()
        listener.environment = mode & 1 == 0 ? nil : .production
        listener.requiresRawSignature = mode & 2 != 0
        listener.tokenRenewalIntervalMin = mode & 4 == 0 ? nil : .seconds(1200)
        listener.tokenKeys["RELATED"] = .init(key: publicKey, teamID: "KLMNOPQRST", environment: .sandbox)
        listener.tokenKeys["UNRELATED"] = .init(key: publicKey, teamID: "KLMNOPQRST", topics: ["com.example.app"])
        listener.tokenKeys["FOREIGN"] = .init(key: publicKey, teamID: "UVWXYZ")
        let validator = ProviderTokenValidator(listener)
        // The tokens of earlier inputs are none of this connection.
        listener.tokenRenewals.reset()
        var (memory, now) = (ProviderTokenValidator.Memory(), 1_800_000_000 as Int64)
        for _ in 0..<self.tokenCountMax where !input.isEmpty {
            let choice = input.byte()
            let parts = [input.bytes(upTo: 0x0A), input.bytes(upTo: 0x0A)].map { Base64.addressText($0) }
            let text = parts.joined(separator: ".")
            var signature = try key.signature(of: Array(text.utf8))
            if choice & 1 != 0 { signature = ES256.encoded(signature) ?? signature }
            if choice & 2 != 0 { signature[signature.count / 2] ^= 1 }
            now += Int64(choice >> 2) * 60
            let (token, team) = ("Bearer \(text).\(Base64.addressText(signature))", memory.teamID)
            let first = validator.validate(token, &memory, now: now)
            try require(first.refusal != nil || choice & 2 == 0, "only a signed token is valid")
            try require(first.refusal != nil || choice & 1 == 0 || mode & 2 == 0, "a raw signature is required")
            try require(team == nil || memory.teamID == team, "a connection is of one team")
            let again = validator.validate(token, &memory, now: now)
            try require((first.refusal == nil) == (again.refusal == nil), "a token stays valid")
        }
    }
}
