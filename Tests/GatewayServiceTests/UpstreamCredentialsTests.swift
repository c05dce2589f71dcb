// SPDX-License-Identifier: Apache-2.0

import APNSCertificates
import APNSWire
import Foundation
import OpenSSLTLS
import Testing

@testable import GatewayService

@Suite struct UpstreamCredentialsTests {
    @Test func `a certificate names its topic, and its environment if it has only one`() throws {
        let authority = try CertificateAuthority()
        for environments in [[PushEnvironment.sandbox], [.production], [.production, .sandbox]] {
            let identity = try authority.issueClient(
                topics: [CertificateTopics.Topic(name: "com.example.app")],
                team: "TEAM123456",
                environments: Set(environments),
                period: CertificateAuthority.Period(dayCount: 10, from: Int64(Date().timeIntervalSince1970))
            )
            let credentials = try UpstreamCredentials(
                certificate: identity.certificatePEM,
                key: identity.keyPEM,
                passphrase: nil
            )
            #expect(credentials.topic == "com.example.app" && credentials.team == "TEAM123456")
            #expect(credentials.environment == (environments.count == 1 ? environments[0] : nil))
        }
    }

    @Test func `what is missing is the error of the file`() throws {
        let identity = try CertificateAuthority().issueClient(topic: "com.example.app")
        #expect(throws: TLSError.keyMissing) {
            try UpstreamCredentials(certificate: identity.certificatePEM, key: nil, passphrase: nil)
        }
        let key = try identity.encryptedKeyPEM(passphrase: "secret")
        #expect(throws: TLSError.passphraseMissing) {
            try UpstreamCredentials(certificate: identity.certificatePEM, key: key, passphrase: nil)
        }
    }

    @Test func `the name of a key's file has its identifier`() {
        #expect(UpstreamCredentials.keyID(inPath: "keys/AuthKey_ABC123DEFG.p8") == "ABC123DEFG")
        for path in ["AuthKey_ABC.p8", "ABC123DEFG.p8", "AuthKey_ABC123DEFG.pem", "AuthKey_ABC123DEFG.p8/", ""] {
            #expect(UpstreamCredentials.keyID(inPath: path) == (path.hasSuffix("/") ? "ABC123DEFG" : nil))
        }
    }

    @Test func `an address that other machines cannot reach is refused, unless it is named as such`() throws {
        #expect(try ReachableAddress(host: "192.0.2.7").text == "192.0.2.7")
        #expect(try ReachableAddress(host: "127.0.0.1").text == "127.0.0.1")
        #expect(["127.0.0.1", "::1"].contains(try ReachableAddress(host: "localhost").text))
        #expect(throws: ReachableAddress.Failure.notAName) { try ReachableAddress(host: "two words") }
        #expect(throws: ReachableAddress.Failure.notResolved) { try ReachableAddress(host: "nowhere.invalid") }
    }
}
