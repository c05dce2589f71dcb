// SPDX-License-Identifier: Apache-2.0

import APNSServer
import APNSTransport
import APNSCertificates
import OpenSSLTLS
import Testing

@testable import APNSGateway

/// Goal: operators see when the certificates of recently used providers expire, up to a limit.
@Suite struct AdmittedCertificatesTests {
    private static let authority = Result { try CertificateAuthority() }

    private static func connection(_ fingerprint: String) throws -> ProviderConnection {
        let certificate = try Self.authority.get().issueClient(topic: "com.example.app").identity.certificate
        return Self.connection(certificate, fingerprint)
    }

    private static func connection(_ certificate: TLSCertificate, _ fingerprint: String) -> ProviderConnection {
        var identity = ProviderIdentity(certificate)
        identity.fingerprint = fingerprint
        return ProviderConnection(number: 1, identity: identity, remoteAddress: "?", certificate: certificate)
    }

    @Test func `a certificate is removed a week after its last connection closed`() throws {
        var certificates = AdmittedCertificates()
        let week = AdmittedCertificates.rememberedSeconds
        let connection = try Self.connection("a")
        let key = certificates.open(connection, of: "shop", now: 0)
        let notAfter = try #require(connection.certificate).notAfter
        let found = AdmittedCertificates.Certificate(provider: "shop", fingerprint: "a", notAfter: notAfter)
        #expect(certificates.all(now: 10 * week) == [found])
        certificates.close(key, now: 10 * week)
        #expect(certificates.all(now: 11 * week) == [found])
        #expect(certificates.all(now: 11 * week + 1).isEmpty)
    }

    @Test func `the least recently used certificate is removed at the limit`() throws {
        var certificates = AdmittedCertificates()
        let first = try Self.connection("0")
        for number in 0..<AdmittedCertificates.countMax {
            let certificate = try #require(first.certificate)
            _ = certificates.record(Self.connection(certificate, "\(number)"), of: "shop", now: Int64(number))
        }
        _ = certificates.record(first, of: "shop", now: 9999)
        _ = certificates.record(try Self.connection("another"), of: "shop", now: 9999)
        let all = Set(certificates.all(now: 9999).map(\.fingerprint))
        #expect(all.count == AdmittedCertificates.countMax)
        #expect(all.isSuperset(of: ["0", "2", "another"]) && !all.contains("1"))
    }
}
