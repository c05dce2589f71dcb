// SPDX-License-Identifier: Apache-2.0

import APNSTestKit
import APNSCertificates
import OpenSSLTLS
import Testing

/// Files and protocols other than the expected ones.
@Suite struct FileContentTests {
    @Test func `a file is recognized by its content`() throws {
        let issued = try Certificates.authority.get().issueClient(topic: "com.example.app")
        let cases: [([UInt8], FileContent)] = [
            ([], .empty), (Array(" \r\n".utf8), .empty), (Array("<!doctype HTML><p>".utf8), .htmlPage),
            (Array("<?xml version='1.0'?><plist/>".utf8), .xml), ([0xFE, 0xED, 0xFE, 0xED, 0, 0, 0, 2], .javaKeystore),
            (issued.certificatePEM, .certificate), (issued.keyPEM, .privateKey), (issued.pem, .certificateAndKey),
            (issued.certificateDER, .certificateWithoutPEM), (try issued.pkcs12(passphrase: "a"), .pkcs12),
            (try issued.encryptedKeyPEM(passphrase: "a"), .encryptedPrivateKey),
            (try issued.encryptedKeyPEM(passphrase: "a", isTraditional: true), .encryptedPrivateKey),
            (Array("-----BEGIN CERTIFICATE REQUEST-----\n".utf8), .certificateRequest),
            (Array("-----BEGIN NEW CERTIFICATE REQUEST-----\n".utf8), .certificateRequest),
            (Array("-----BEGIN PUBLIC KEY-----\n".utf8), .publicKey), (Array("-----BEGIN PKCS7-----\n".utf8), .pkcs7),
            (Array("PK\u{3}\u{4}\u{14}".utf8), .zip), (Array("%PDF-1.7\n".utf8), .pdf),
            ([0x30, 0x82, 1, 0, 2, 1, 3, 0, 0], .other), ([1, 0, 2, 3], .other), (Array("hello".utf8), .other),
            (Array(repeating: 0xFF, count: 3), .other),
        ]
        for (bytes, content) in cases { #expect(FileContent(bytes) == content) }
    }

    @Test func `a protocol is recognized by its first bytes`() {
        let tuple: [UInt8] = [0x65, 0x53, 0xF1, 0, 0, 32] + Array(repeating: 1, count: 32)
        let cases: [([UInt8], ForeignProtocol?)] = [
            (Array("HTTP/1.1 400 Bad Request".utf8), .http), (Array("GET / HTTP/1.1".utf8), .httpRequest),
            (Array("SSH-2.0-OpenSSH_9.2p1".utf8), .ssh), (Array("220 mail ESMTP".utf8), .mail),
            ([0, 0, 18, 4, 0, 0, 0, 0, 0, 0, 3], .http2), (tuple, .feedback),
            (Array(tuple.prefix(6)), nil), ([8, 8, 0, 0, 0, 1], nil),
            ([22, 3, 1, 0, 200], nil), ([], nil),
        ]
        for (bytes, found) in cases { #expect(ForeignProtocol(bytes) == found) }
    }

    @Test func `the message for an alert names the remote side and the file`() {
        let names = TLSErrorNames(remote: "gateway localhost:2195", certificate: "provider.pem", trust: "ca.pem")
        let expected: [(TLSError, String)] = [
            (.ownCertificateRefused(alert: 48, detail: ""), "refused certificate provider.pem: unknown authority;"),
            (.ownCertificateRefused(alert: 45, detail: ""), "refused certificate provider.pem: expired;"),
            (.ownCertificateRefused(alert: 44, detail: ""), "refused certificate provider.pem: revoked;"),
            (.ownCertificateRefused(alert: 43, detail: ""), "provider.pem: unsupported certificate;"),
            (.ownCertificateRefused(alert: 42, detail: ""), "provider.pem: bad certificate;"),
            (.ownCertificateRefused(alert: 116, detail: ""), "requires a client certificate;"),
            (.handshakeRefused(alert: 40, detail: ""), "handshake failure"),
            (.handshakeRefused(alert: 112, detail: ""), "unrecognized name"),
            (.versionRefused(detail: ""), "no TLS version in common with gateway localhost:2195;"),
            (.noCommonApplicationProtocol, "no application protocol (ALPN) in common with gateway localhost:2195;"),
            (.unknownAuthority(detail: "x"), "is not signed by a trusted authority in ca.pem (x);"),
        ]
        for (error, text) in expected {
            let line = error.text(names)
            #expect(line.contains(text) && line.contains("gateway localhost:2195"), "\(line)")
            #expect(!line.contains("\n") && !line.hasSuffix(".") && !line.contains("peer"), "\(line)")
        }
        let anonymous = TLSErrorNames(remote: "gateway a:1", isAnonymous: true)
        let refused = TLSError.handshakeRefused(alert: 40, detail: "").text(anonymous)
        #expect(refused.hasSuffix("without a client certificate; give a certificate and its key"))
    }
}
