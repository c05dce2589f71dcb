// SPDX-License-Identifier: Apache-2.0

import APNSServer
import APNSTestKit
import Foundation
import OpenSSLTLS
import TestSupport
import Testing

@testable import APNSGateway

@Suite struct AdmissionRuleTests {
    private static let topic = "com.example.app"

    private static func connection(
        _ client: IssuedIdentity,
        intermediates: [TLSCertificate] = []
    ) -> ProviderConnection {
        let certificate = client.identity.certificate
        return ProviderConnection(
            number: 1,
            identity: ProviderIdentity(certificate),
            remoteAddress: "192.0.2.1:1",
            certificate: certificate,
            intermediates: intermediates
        )
    }

    private static var now: Int64 { Int64(Date().timeIntervalSince1970) }

    private static func verifier(_ authority: CertificateAuthority) throws -> CertificateVerifier {
        try CertificateVerifier(authorities: authority.certificatePEM)
    }

    @Test func `a certificate of the authority is admitted for its own topic`() throws {
        let authority = try CertificateAuthority()
        let rule = AdmissionRule(verifier: try Self.verifier(authority))
        let client = try authority.issueClient(topic: Self.topic)
        #expect(rule.check(Self.connection(client), now: Self.now) == .admitted(topic: Self.topic))
    }

    @Test func `a certificate of another authority is unrelated to the provider`() throws {
        let rule = AdmissionRule(verifier: try Self.verifier(try CertificateAuthority()))
        let client = try CertificateAuthority().issueClient(topic: Self.topic)
        #expect(rule.check(Self.connection(client), now: Self.now) == .refused(nil))
        #expect(AdmissionRule().check(Self.connection(client), now: Self.now) == .refused(nil))
    }

    @Test func `an intermediate authority may be sent by the provider`() throws {
        let root = try CertificateAuthority()
        let middle = try root.issueAuthority(name: "Middle")
        let client = try middle.issueClient(topic: Self.topic)
        let rule = AdmissionRule(verifier: try Self.verifier(root))
        let whole = Self.connection(client, intermediates: [middle.certificate])
        #expect(rule.check(whole, now: Self.now) == .admitted(topic: Self.topic))
        #expect(rule.check(Self.connection(client), now: Self.now) == .refused(nil))
        let direct = AdmissionRule(verifier: try Self.verifier(middle))
        #expect(direct.check(Self.connection(client), now: Self.now) == .admitted(topic: Self.topic))
    }

    @Test func `a certificate for another topic than the configured one is refused with the reason`() throws {
        let authority = try CertificateAuthority()
        let rule = AdmissionRule(verifier: try Self.verifier(authority), topic: "com.example.other")
        let client = try authority.issueClient(topic: Self.topic)
        guard case .refused(let reason?) = rule.check(Self.connection(client), now: Self.now) else {
            Issue.record("admitted")
            return
        }
        #expect(reason.contains(Self.topic) && reason.contains("com.example.other"))
    }

    @Test func `an expired certificate is admitted only if it is pinned with allowExpired`() throws {
        let authority = try CertificateAuthority()
        let client = try authority.issueClient(topic: Self.topic, validity: .expired)
        let connection = Self.connection(client)
        let byAuthority = AdmissionRule(verifier: try Self.verifier(authority))
        guard case .refused(.some) = byAuthority.check(connection, now: Self.now) else {
            Issue.record("admitted by its authority")
            return
        }
        var pin = AdmissionRule.Pin(fingerprint: client.identity.certificate.fingerprint)
        guard case .refused(let reason?) = AdmissionRule(pins: [pin]).check(connection, now: Self.now) else {
            Issue.record("admitted by its pin")
            return
        }
        #expect(reason.contains("allowExpired"))
        pin.allowsExpired = true
        #expect(AdmissionRule(pins: [pin]).check(connection, now: Self.now) == .admitted(topic: Self.topic))
    }

    @Test func `a revoked certificate is refused with the reason`() throws {
        let authority = try CertificateAuthority()
        let (good, bad) = (
            try authority.issueClient(topic: Self.topic), try authority.issueClient(topic: Self.topic)
        )
        let verifier = try CertificateVerifier(
            authorities: authority.certificatePEM,
            revocations: try authority.revocationList(of: [bad.identity.certificate])
        )
        #expect(verifier.problem(of: good.identity.certificate) == nil)
        guard case .certificateRevoked = verifier.problem(of: bad.identity.certificate) else {
            Issue.record("not revoked")
            return
        }
        let rule = AdmissionRule(verifier: verifier)
        guard case .refused(.some) = rule.check(Self.connection(bad), now: Self.now) else {
            Issue.record("admitted")
            return
        }
        let foreign = try CertificateVerifier(
            authorities: authority.certificatePEM,
            revocations: try CertificateAuthority(name: "Other").revocationList(of: [])
        )
        #expect(foreign.problem(of: good.identity.certificate) != nil)
    }

    @Test func `a verifier requires certificates, and revocation lists if they are configured`() throws {
        let authority = try CertificateAuthority()
        #expect(throws: TLSError.self) { try CertificateVerifier(authorities: []) }
        #expect(throws: TLSError.self) {
            try CertificateVerifier(authorities: authority.certificatePEM, revocations: Array("none".utf8))
        }
    }

    // MARK: Weak certificates

    /// Checks a certificate that its authority issued, and returns the reason of a refusal.
    private static func refusal(
        _ pem: [UInt8],
        _ weak: WeakCertificates,
        isPinned: Bool = false,
        admitsLegacy: Bool = false
    ) throws -> String? {
        let identity = try TLSIdentity(bytes: pem)
        var rule = AdmissionRule(verifier: try CertificateVerifier(authorities: try weak.authorityPEM))
        if isPinned { rule.pins = [AdmissionRule.Pin(fingerprint: identity.certificate.fingerprint)] }
        rule.admitsLegacyCertificates = admitsLegacy
        return rule.refusal(of: identity.certificate, intermediates: [], now: Self.now)
    }

    @Test func `a key of 512 bits is never admitted`() async throws {
        let weak = try await WeakCertificates()
        let pem = try await weak.issue(bitCount: 512)
        for (isPinned, admitsLegacy) in [(false, false), (false, true), (true, false), (true, true)] {
            let refusal = try Self.refusal(pem, weak, isPinned: isPinned, admitsLegacy: admitsLegacy)
            #expect(refusal?.contains("RSA key has only 512 bits; issue a new one") == true, "\(refusal ?? "admitted")")
        }
    }

    @Test(arguments: [(1024, "sha256"), (2048, "sha1")])
    func `a key of 1024 bits and a SHA-1 signature are admitted by a pin or for old versions of TLS`(
        _ bitCount: Int,
        _ digest: String
    ) async throws {
        let weak = try await WeakCertificates()
        let pem = try await weak.issue(bitCount: bitCount, digest: digest)
        let refusal = try #require(try Self.refusal(pem, weak))
        #expect(refusal.contains(bitCount == 1024 ? "1024 bits" : "RSA-SHA1"), "\(refusal)")
        #expect(refusal.contains("clients.pins") && refusal.contains("listen.tlsMinimum"), "\(refusal)")
        #expect(try Self.refusal(pem, weak, isPinned: true) == nil)
        #expect(try Self.refusal(pem, weak, admitsLegacy: true) == nil)
    }

    @Test func `a signature with MD5 is admitted only by a pin`() async throws {
        let weak = try await WeakCertificates()
        let pem = try await weak.issue(digest: "md5")
        #expect(try Self.refusal(pem, weak, admitsLegacy: true)?.contains("RSA-MD5") == true)
        #expect(try Self.refusal(pem, weak, isPinned: true) == nil)
    }

    @Test func `the key of the authority counts too, and its own signature does not`() async throws {
        for (bitCount, isAdmitted) in [(512, [false, false]), (1024, [false, true])] {
            let weak = try await WeakCertificates(bitCount: bitCount)
            let pem = try await weak.issue()
            for admitsLegacy in [false, true] {
                let refusal = try Self.refusal(pem, weak, admitsLegacy: admitsLegacy)
                let text = "its authority CN=Weak is too weak: its RSA key has only \(bitCount) bits"
                #expect((refusal == nil) == isAdmitted[admitsLegacy ? 1 : 0], "\(refusal ?? "admitted")")
                #expect(refusal?.contains(text) != false, "\(refusal ?? "")")
            }
        }
    }
}
