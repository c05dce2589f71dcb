// SPDX-License-Identifier: Apache-2.0

import APNSCertificates
import COpenSSL
import Foundation
import Testing

@testable import OpenSSLTLS

/// Goal: certificates of others are judged as their authors say.
///
/// `Scripts/limbo` writes the file of cases, runs this test, and compares the verdicts.
@Suite struct CertificateCorpusTests {
    private static let path = ProcessInfo.processInfo.environment["TEST_CERTIFICATES"]

    /// A certificate to verify: a line with fields that are separated by tabs, and PEM with `|` for line breaks.
    private struct Case {
        let identifier: String
        let isServer: Bool
        let time: Int
        let name: String
        let authorities: [UInt8]
        let revocations: [UInt8]
        let chain: [UInt8]

        init(_ line: Substring) throws {
            let fields = line.split(separator: "\t", omittingEmptySubsequences: false)
            try #require(fields.count == 7, "\(line.prefix(100))")
            self.identifier = String(fields[0])
            self.isServer = fields[1] == "server"
            self.time = try #require(Int(fields[2]))
            self.name = String(fields[3])
            func text(_ field: Substring) -> [UInt8] { field.utf8.map { $0 == UInt8(ascii: "|") ? 10 : $0 } }
            self.authorities = text(fields[4])
            self.revocations = text(fields[5])
            self.chain = text(fields[6])
        }

        /// The verdict in a handshake of a client, or of a listener that verifies its clients in the handshake.
        ///
        /// A handshake would need the private key of the certificate, which most cases lack. So this does what OpenSSL
        /// does with the certificates that it receives, with the context and the connection of the library.
        func handshakeVerdict(_ identity: TLSIdentity) throws -> String {
            do throws(TLSError) {
                var configuration = TLSConfiguration.server(identity: identity, trust: .pem(self.authorities))
                if self.isServer {
                    let verification = self.name.isEmpty ? TLSConfiguration.Verification.chainOnly : .full
                    configuration = .client(trust: .pem(self.authorities), verification: verification)
                }
                let context = try TLSContext(configuration)
                let name = try ServerName(self.name.isEmpty ? nil : self.name, configuration: configuration)
                guard let ssl = unsafe SSL_new(context.pointer) else { return "no connection" }
                defer { unsafe SSL_free(ssl) }
                try unsafe name.install(on: ssl)
                return unsafe self.verdict(ssl, context)
            } catch {
                return "\(error)"
            }
        }

        private func verdict(_ ssl: OpaquePointer, _ context: TLSContext) -> String {
            let (certificates, damage) = unsafe IdentityReader.pemCertificates(self.chain)
            defer { unsafe certificates.forEach { unsafe X509_free($0) } }
            guard damage == nil, let leaf = unsafe certificates.first, let others = unsafe shim_sk_X509_new_null(),
                let state = unsafe X509_STORE_CTX_new()
            else { return damage ?? "no certificate" }
            defer {
                unsafe X509_STORE_CTX_free(state)
                unsafe shim_sk_X509_pop_free(others)
            }
            for index in unsafe certificates.indices.dropFirst() {
                unsafe X509_up_ref(certificates[index])
                unsafe shim_sk_X509_push(others, certificates[index])
            }
            let store = unsafe SSL_CTX_get_cert_store(context.pointer)
            guard unsafe X509_STORE_CTX_init(state, store, leaf, others) == 1,
                unsafe X509_STORE_CTX_set_default(state, self.isServer ? "ssl_server" : "ssl_client") == 1
            else { return "no verification" }
            let parameters = unsafe X509_STORE_CTX_get0_param(state)
            unsafe X509_VERIFY_PARAM_set_auth_level(parameters, SSL_get_security_level(ssl))
            unsafe X509_VERIFY_PARAM_set1(parameters, SSL_get0_param(ssl))
            unsafe X509_VERIFY_PARAM_set_time(parameters, self.time)
            guard unsafe X509_verify_cert(state) != 1 else { return "" }
            return unsafe String(cString: X509_verify_cert_error_string(Int(X509_STORE_CTX_get_error(state))))
        }

        /// The verdict of a gateway about the certificates that a client sent; without the name.
        ///
        /// As `AdmissionRule`, it judges their strength itself, so that `tlsMinimum` can lower it.
        func verifierVerdict() -> String {
            do throws(TLSError) {
                let lists = self.revocations.isEmpty ? nil : self.revocations
                let verifier = try CertificateVerifier(authorities: self.authorities, revocations: lists)
                unsafe X509_VERIFY_PARAM_set_time(X509_STORE_get0_param(verifier.store), self.time)
                let (pointers, damage) = unsafe IdentityReader.pemCertificates(self.chain)
                defer { unsafe pointers.forEach { unsafe X509_free($0) } }
                let certificates = unsafe pointers.map { unsafe TLSCertificate($0) }
                guard damage == nil, let leaf = certificates.first else { return damage ?? "no certificate" }
                let others = Array(certificates.dropFirst())
                let chain = try verifier.chain(of: leaf, intermediates: others, isServer: self.isServer)
                let weaknesses =
                    chain.compactMap { $0.keyWeakness(.current) }
                    + chain.dropLast().compactMap { $0.signatureWeakness(.current) }
                return weaknesses.first ?? ""
            } catch {
                return "\(error)"
            }
        }
    }

    @Test(.enabled(if: path != nil, "a part of Scripts/limbo")) func `each certificate has a verdict`() throws {
        let path = try #require(Self.path)
        let identity = try Certificates.authority.get().issueServer(names: ["localhost"]).identity
        var lines = ""
        for line in try String(contentsOfFile: path, encoding: .utf8).split(separator: "\n") {
            let each = try Case(line)
            let verdicts = [try each.handshakeVerdict(identity), each.verifierVerdict()]
            let texts = verdicts.map { $0.replacing("\t", with: " ").replacing("\n", with: " ") }
            lines += "\(each.identifier)\t\(texts[0])\t\(texts[1])\n"
        }
        try lines.write(toFile: path + ".verdicts", atomically: true, encoding: .utf8)
    }
}
