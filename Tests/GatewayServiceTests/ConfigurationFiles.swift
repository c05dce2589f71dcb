// SPDX-License-Identifier: Apache-2.0

import APNSProviderHTTP2
import APNSTestKit
import APNSWire
import Foundation
import OpenSSLTLS
import TestSupport

@testable import GatewayService

/// A folder with the files of a gateway for the providers "shop" and "news", each with an authority of its own.
final class ConfigurationFiles: Sendable {
    static let topic = "com.example.app"

    let folder: TemporaryFolder
    let authorities: [String: CertificateAuthority]

    init(_ names: [String] = ["shop", "news"]) throws {
        self.folder = try TemporaryFolder()
        self.authorities = Dictionary(
            uniqueKeysWithValues: try names.map { ($0, try CertificateAuthority(name: $0)) }
        )
        try self.write("server.pem", try CertificateAuthority().issueServer().pem)
        for (name, authority) in self.authorities {
            try self.write("\(name)-ca.pem", authority.certificatePEM)
            try self.write("\(name)-crl.pem", try authority.revocationList(of: []))
            try self.upstream(name)
        }
        try self.configure(names)
    }

    func write(_ name: String, _ bytes: [UInt8]) throws { _ = try self.folder.write(name, bytes) }

    /// Writes the certificate for the service.
    func upstream(_ name: String, validity: CertificateAuthority.Validity = .current) throws {
        let authority = try CertificateAuthority(name: "Service")
        try self.write("\(name)-push.pem", try authority.issueClient(topic: Self.topic, validity: validity).pem)
    }

    /// Writes a configuration.
    ///
    /// - Parameters:
    ///   - names: the providers.
    ///   - clients: further keys under `clients`, by provider.
    ///   - further: further keys, by provider.
    ///   - listen: the value of `listen`.
    /// - Throws: if the file cannot be written.
    func configure(
        _ names: [String] = ["shop", "news"],
        clients: [String: String] = [:],
        further: [String: String] = [:],
        listen: String = "{}"
    ) throws {
        var text = "listen: \(listen)\nserver: {certificate: server.pem}\nfeedback: feedback.sqlite\nproviders:\n"
        for name in names {
            text += """
                  - name: \(name)
                    clients: {authority: \(name)-ca.pem, revocations: \(name)-crl.pem\(clients[name] ?? "")}
                    environment: sandbox
                    upstream: {certificate: \(name)-push.pem}

                """
            if let line = further[name] { text += "    \(line)\n" }
        }
        try self.write("gateway.yaml", Array(text.utf8))
    }

    func read(replacing running: ResolvedConfiguration? = nil) throws -> ResolvedConfiguration {
        try ResolvedConfiguration(
            contentsOf: self.folder.path + "/gateway.yaml",
            environment: [:],
            replacing: running,
            now: Self.now
        )
    }

    static var now: Int64 { Int64(Date().timeIntervalSince1970) }
}

extension ResolvedConfiguration {
    /// Returns the provider that admits a certificate; `nil` for none.
    func provider(of client: IssuedIdentity) -> String? {
        self.admission(of: client.identity.certificate, intermediates: [], now: ConfigurationFiles.now).provider
    }

    /// Returns the certificate that a provider uses for the service.
    func upstream(_ name: String) -> String? {
        self.providers.first { $0.file.name == name }?.push.tls.identity?.certificate.fingerprint
    }
}
