// SPDX-License-Identifier: Apache-2.0

import APNSGateway
import APNSTestKit
import Foundation
import OpenSSLTLS
import TestSupport
import Testing

@testable import GatewayService

/// Goal: a reload never makes a provider worse, and every revocation takes effect.
@Suite struct ConfigurationReloadTests {
    struct Fault: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var make: @Sendable (ConfigurationFiles) throws -> Void
        /// A part of the reason.
        var words: String
    }

    static let faults = [
        Fault(
            testDescription: "an expired upstream certificate",
            make: { try $0.upstream("shop", validity: .expired) },
            words: "upstream.certificate: "
        ),
        Fault(
            testDescription: "a foreign topic",
            make: { try $0.configure(further: ["shop": "topic: com.example.other"]) },
            words: "topic: com.example.other"
        ),
        Fault(
            testDescription: "the other environment",
            make: {
                let authority = try CertificateAuthority()
                let identity = try authority.issueClient(topic: ConfigurationFiles.topic, environments: [2])
                try $0.write("shop-push.pem", identity.pem)
            },
            words: "environment: sandbox"
        ),
        Fault(
            testDescription: "a missing upstream certificate",
            make: { try FileManager.default.removeItem(atPath: $0.folder.path + "/shop-push.pem") },
            words: "No such file"
        ),
        Fault(
            testDescription: "an expired authority",
            make: {
                let period = CertificateAuthority.Period(
                    notBefore: ConfigurationFiles.now - 7200,
                    notAfter: ConfigurationFiles.now - 3600
                )
                let authority = try CertificateAuthority(name: "of before", keyKind: .p256, period: period)
                try $0.write("shop-ca.pem", authority.certificatePEM)
                try $0.write("shop-crl.pem", try authority.revocationList(of: []))
            },
            words: "clients.authority: "
        ),
        Fault(
            testDescription: "a list of another authority",
            make: { try $0.write("shop-crl.pem", try CertificateAuthority().revocationList(of: [])) },
            words: "clients.revocations: "
        ),
        Fault(
            testDescription: "a damaged second list",
            make: {
                let list = try CertificateAuthority().revocationList(of: [])
                let own = try $0.authorities["shop"]?.revocationList(of: []) ?? []
                try $0.write("shop-crl.pem", own + list.dropLast(40))
            },
            words: "shop-crl.pem: "
        ),
    ]

    @Test(arguments: faults) func `a worse provider keeps what runs, and the other takes its change`(
        _ fault: Fault
    ) throws {
        let files = try ConfigurationFiles()
        let running = try files.read()
        #expect(running.refusals.isEmpty)
        let client = try #require(try files.authorities["shop"]?.issueClient(topic: ConfigurationFiles.topic))
        try files.upstream("news")
        try fault.make(files)
        let new = try files.read(replacing: running)
        #expect(new.refusals.map(\.provider) == ["shop"], "\(new.refusals)")
        #expect(new.refusals.first?.hasOld == true)
        #expect(new.refusals.first?.reason.contains(fault.words) == true, "\(new.refusals)")
        #expect(new.upstream("shop") == running.upstream("shop"))
        #expect(new.upstream("news") != nil && new.upstream("news") != running.upstream("news"))
        #expect(new.provider(of: client) == "shop")
        #expect(new.providers.first?.file == running.providers.first?.file)
        // Put right, it takes effect.
        try files.configure()
        try files.upstream("shop")
        try files.write("shop-ca.pem", try #require(files.authorities["shop"]).certificatePEM)
        try files.write("shop-crl.pem", try #require(files.authorities["shop"]).revocationList(of: []))
        let last = try files.read(replacing: new)
        #expect(last.refusals.isEmpty && last.upstream("shop") != running.upstream("shop"), "\(last.refusals)")
    }

    @Test func `what runs with the same problem is no reason to refuse a change`() throws {
        let files = try ConfigurationFiles()
        try files.upstream("shop", validity: .expired)
        let running = try files.read()
        try files.upstream("shop", validity: .expired)
        let new = try files.read(replacing: running)
        #expect(new.refusals.isEmpty && new.upstream("shop") != running.upstream("shop"))
    }

    @Test func `the revocations of a refused provider take effect, and nothing more`() throws {
        let files = try ConfigurationFiles()
        let authority = try #require(files.authorities["shop"])
        let foreign = try CertificateAuthority()
        func client(_ authority: CertificateAuthority) throws -> IssuedIdentity {
            try authority.issueClient(topic: ConfigurationFiles.topic)
        }
        let (good, revoked) = (try client(authority), try client(authority))
        let (kept, unpinned, added) = (try client(foreign), try client(foreign), try client(foreign))
        func pins(_ identities: IssuedIdentity...) -> [String: String] {
            let list = identities.map { "{fingerprint: \"\($0.identity.certificate.fingerprint)\"}" }
            return ["shop": ", pins: [\(list.joined(separator: ", "))]"]
        }
        try files.configure(clients: pins(kept, unpinned))
        let running = try files.read()
        for client in [good, revoked, kept, unpinned] { #expect(running.provider(of: client) == "shop") }
        try files.configure(clients: pins(kept, added))
        try files.upstream("shop", validity: .expired)
        try files.write("shop-crl.pem", try authority.revocationList(of: [revoked.identity.certificate]))
        let new = try files.read(replacing: running)
        #expect(new.refusals.map(\.provider) == ["shop"])
        for client in [good, kept] { #expect(new.provider(of: client) == "shop") }
        for client in [revoked, unpinned, added] { #expect(new.provider(of: client) == nil) }
    }

    @Test func `revocations take effect while the configuration file cannot be read`() throws {
        let files = try ConfigurationFiles()
        let authority = try #require(files.authorities["shop"])
        let client = try authority.issueClient(topic: ConfigurationFiles.topic)
        let running = try files.read()
        #expect(running.revoking(now: ConfigurationFiles.now) == nil)
        try files.write("shop-crl.pem", try authority.revocationList(of: [client.identity.certificate]))
        let new = try #require(running.revoking(now: ConfigurationFiles.now))
        #expect(running.provider(of: client) == "shop" && new.provider(of: client) == nil)
    }

    @Test func `a worse or damaged certificate of the gateway keeps the old one`() throws {
        let files = try ConfigurationFiles()
        let running = try files.read()
        let authority = try CertificateAuthority()
        for bytes in [
            Array("none".utf8), try authority.issueServer(validity: .expired).pem,
            try authority.issueServer(names: []).pem,
        ] {
            try files.write("server.pem", bytes)
            try files.upstream("news")
            let new = try files.read(replacing: running)
            #expect(new.refusals.map(\.description).count == 1 && new.refusals[0].provider == nil, "\(new.refusals)")
            #expect(new.refusals[0].description.hasPrefix("server: "), "\(new.refusals)")
            #expect(new.identity == running.identity)
            #expect(new.upstream("news") != running.upstream("news"))
        }
    }

    @Test func `at a start, a damaged list keeps out its provider alone`() throws {
        let files = try ConfigurationFiles()
        let client = try #require(try files.authorities["shop"]?.issueClient(topic: ConfigurationFiles.topic))
        try files.write("shop-crl.pem", Array("none".utf8))
        let configuration = try files.read()
        #expect(configuration.providers.map(\.file.name) == ["news"])
        #expect(configuration.refusals.map(\.provider) == ["shop"])
        #expect(configuration.refusals[0].reason.contains("shop-crl.pem"))
        #expect(!configuration.refusals[0].hasOld)
        #expect(configuration.provider(of: client) == nil)
        #expect(configuration.closed.map(\.name) == ["shop"] && configuration.closed[0].position == 0)
        #expect(
            configuration.closed[0].admission.refusal(
                of: client.identity.certificate,
                intermediates: [],
                now: ConfigurationFiles.now
            ) == nil,
            "Its certificates are known, so that they belong to no other provider."
        )
        // The last usable one.
        try files.write("news-crl.pem", Array("none".utf8))
        let failure = #expect(throws: GatewayFailure.self) { try files.read() }
        #expect(failure.map { "\($0)" }?.contains("provider shop: ") == true, "\(String(describing: failure))")
        #expect(failure.map { "\($0)" }?.contains("provider news: ") == true)
    }

    @Test func `a new provider with a problem is kept out by a reload, and a removed one goes`() throws {
        let files = try ConfigurationFiles()
        try files.configure(["shop"])
        let running = try files.read()
        try files.upstream("news", validity: .expired)
        try files.configure(["news", "shop"])
        let new = try files.read(replacing: running)
        #expect(new.providers.map(\.file.name) == ["shop"] && new.closed.map(\.name) == ["news"])
        #expect(new.refusals.map(\.hasOld) == [false])
        try files.upstream("news")
        try files.configure(["news"])
        let last = try files.read(replacing: new)
        #expect(last.providers.map(\.file.name) == ["news"] && last.refusals.isEmpty && last.closed.isEmpty)
    }

    @Test func `1024 bits are admitted with tlsMinimum below 1.2, and a reload does not change that`() throws {
        let files = try ConfigurationFiles()
        try files.configure(listen: "{tlsMinimum: \"1.0\"}")
        let running = try files.read()
        func admitted(_ configuration: ResolvedConfiguration) -> [Bool] {
            configuration.providers.map(\.admission.admitsLegacyCertificates)
        }
        #expect(admitted(running) == [true, true])
        try files.configure()
        #expect(admitted(try files.read(replacing: running)) == [true, true])
        #expect(admitted(try files.read()) == [false, false])
    }
}
