// SPDX-License-Identifier: Apache-2.0

import APNSCertificates
import APNSTestKit
import Foundation
import OpenSSLTLS
import TestSupport
import Testing

/// Goal: `gateway check` names the providers that a changed configuration keeps out, also after the gateway was killed.
@Suite(.timeLimit(.minutes(2))) struct GatewayStoredCertificateTests {
    private static func check(
        _ folder: GatewayProgram.Folder,
        clients: String,
        _ options: String...
    ) async throws -> CommandRun {
        try folder.configure(upstreamPort: 1, clients: clients)
        return try await CommandRun(["gateway", "check", "--config", folder.path("gateway.yaml")] + options)
    }

    /// Runs a gateway until it has stored these certificates, and kills it.
    private static func admit(
        _ identities: [TLSIdentity],
        in folder: GatewayProgram.Folder,
        clients: String
    ) async throws {
        try folder.configure(upstreamPort: 1, clients: clients)
        let gateway = try await GatewayProgram(folder)
        for identity in identities {
            var tls = try gateway.tls(identity)
            tls.cipherList = "DEFAULT@SECLEVEL=0"
            try await ScriptedProvider.withConnection(port: gateway.port, tls: tls) { provider in
                try await provider.send(try GatewayProgram.probe(1))
                #expect(try await provider.end().bytes == GatewayProgram.response(.missingDeviceToken, 1))
            }
        }
        // Also while the gateway runs.
        let line = "admits \(identities.count) of \(identities.count) certificate"
        try await eventually("the certificates") {
            try await Self.check(folder, clients: clients).output.contains(line)
        }
        gateway.child.send(SIGKILL)
        _ = try await gateway.child.end()
    }

    @Test func `a weak certificate without its pin, a revoked one and an expired one are named`() async throws {
        let folder = try GatewayProgram.Folder()
        let weak = try await WeakCertificates()
        try folder.write("weak.pem", try await weak.issue(bitCount: 1024))
        try folder.write("ca.pem", try folder.authority.certificatePEM + weak.authorityPEM)
        let short = try TLSIdentity(contentsOf: folder.path("weak.pem"))
        let old = try folder.authority.issueClient(topic: GatewayProgram.topic, validity: .expired).identity
        let (pin, oldPin) = (short.certificate.fingerprint, old.certificate.fingerprint)
        let pins =
            "{authority: ca.pem, pins: [{fingerprint: \"\(pin)\"}, {fingerprint: \"\(oldPin)\", allowExpired: true}]}"
        try await Self.admit([folder.provider.identity, short, old], in: folder, clients: pins)

        let good = try await Self.check(folder, clients: pins)
        #expect(good.code == 0 && good.error.isEmpty, "\(good)")
        let list = try folder.authority.revocationList(of: [folder.provider.identity.certificate])
        try folder.write("crl.pem", list)
        let without = try await Self.check(folder, clients: "{authority: ca.pem}")
        #expect(
            without.code == 0 && without.output.contains("admits 1 of 3 certificates that providers used"),
            "\(without)"
        )
        let lines = without.error.split(separator: "\n")
        #expect(lines.count == 2, "\(lines)")
        let today = ISO8601DateFormatter().string(from: .now).prefix(8)
        let place = "Warning: \(folder.path("gateway.yaml")): provider shop: the certificate "
        let start = "\(place)CN=a,UID=com.example.app with the fingerprint \(pin), last admitted on \(today)"
        let reason =
            ", will not be admitted: the certificate is too weak: its RSA key has only 1024 bits; issue a new one"
        #expect(lines.contains { $0.hasPrefix(start) && $0.contains(reason) }, "\(lines)")
        #expect(
            lines.contains { $0.contains(oldPin) && $0.contains("has expired") && $0.contains("issue a new") },
            "\(lines)"
        )

        try folder.write("ca.pem", folder.authority.certificatePEM)
        let revoked = try await Self.check(
            folder,
            clients: pins.replacing("ca.pem,", with: "ca.pem, revocations: crl.pem,")
        )
        #expect(revoked.code == 0)
        let revokedLines = revoked.error.split(separator: "\n")
        #expect(revokedLines.count == 1 && revokedLines[0].contains("is revoked"), "\(revokedLines)")
        let json = try await Self.check(folder, clients: "{authority: ca.pem}", "--summary", "json")
        #expect(json.code == 0 && json.output.contains("\"warnings\":[\"provider shop: the certificate "), "\(json)")
        // A renamed provider admits the same certificates.
        try folder.write(
            "gateway.yaml",
            Array(folder.read("gateway.yaml").replacing("name: shop", with: "name: x").utf8)
        )
        let renamed = try await CommandRun(["gateway", "check", "--config", folder.path("gateway.yaml")])
        #expect(renamed.output.contains("admits 1 of 3"), "\(renamed)")
    }

    @Test func `a missing database does not change the exit code, and a damaged one does`() async throws {
        let folder = try GatewayProgram.Folder()
        let clients = "{authority: ca.pem}"
        let none = try await Self.check(folder, clients: clients)
        #expect(none.code == 0 && none.error.isEmpty && !none.output.contains("certificates that providers used"))
        try await Self.admit([folder.provider.identity], in: folder, clients: clients)
        let path = folder.path("database/feedback.sqlite")
        let file = try FileHandle(forUpdating: URL(filePath: path))
        try file.seek(toOffset: 100)
        try file.write(contentsOf: Data(repeating: 0xFF, count: 60_000))
        try file.close()
        try? FileManager.default.removeItem(atPath: path + "-wal")
        let damaged = try await Self.check(folder, clients: clients)
        #expect(damaged.code == 78 && damaged.error.contains("move it away"), "\(damaged)")
        #expect(damaged.error.split(separator: "\n").count == 1, "\(damaged)")
    }

    @Test func `a reload logs the certificates that it keeps out, once`() async throws {
        let folder = try GatewayProgram.Folder()
        try folder.configure(upstreamPort: 1)
        let gateway = try await GatewayProgram(folder)
        try await ScriptedProvider.withConnection(port: gateway.port, tls: try gateway.tls(folder.provider.identity)) {
            try await $0.send(try GatewayProgram.probe(1))
            #expect(try await $0.end().bytes == GatewayProgram.response(.missingDeviceToken, 1))
        }
        try await eventually("the certificate") {
            try await CommandRun(["gateway", "check", "--config", folder.path("gateway.yaml")]).output
                .contains("admits 1 of 1 certificate")
        }
        let message = "certificate of a provider not admitted any more"
        gateway.child.send(SIGHUP)
        try await gateway.lines("configuration reloaded")
        #expect(gateway.lines([message]).isEmpty)
        try folder.write("ca.pem", CertificateAuthority().certificatePEM)
        gateway.child.send(SIGHUP)
        let lines = try await gateway.lines(message)
        #expect(lines.count == 1 && lines[0].contains("\"level\":\"warning\""), "\(lines)")
        #expect(lines.first?.contains(folder.provider.identity.certificate.fingerprint) == true, "\(lines)")
        try await gateway.lines("configuration reloaded", countMin: 2)
        gateway.child.send(SIGHUP)
        try await gateway.lines("configuration reloaded", countMin: 3)
        #expect(gateway.lines([message]).count == 1)
        #expect(try await gateway.end().code == 0)
    }
}
