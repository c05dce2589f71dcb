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
            testDescription: "fewer remembered notifications than may be in flight",
            make: { try $0.configure(further: ["shop": "limits: {remembered: 7}"]) },
            words: "remembered, 7, must be at least inFlight"
        ),
        Fault(
            testDescription: "a budget as long as the limit of an outcome",
            make: { try $0.configure(further: ["shop": "retry: {budget: 1d}"]) },
            words: "must be greater than retry.budget"
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
        try files.write("server.pem", try CertificateAuthority().issueServer(validity: .expired).pem)
        let running = try files.read()
        try files.upstream("shop", validity: .expired)
        // Likewise the gateway's certificate, with another time in the sentence.
        let authority = try CertificateAuthority()
        let period = CertificateAuthority.Period(
            notBefore: ConfigurationFiles.now - 7200,
            notAfter: ConfigurationFiles.now - 1800
        )
        try files.write(
            "server.pem",
            try authority.issueServer(names: ["localhost"], keyKind: .p256, period: period).pem
        )
        let new = try files.read(replacing: running)
        #expect(new.refusals.isEmpty && new.upstream("shop") != running.upstream("shop"), "\(new.refusals)")
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

    @Test func `with a pinned certificate, the handshake names no authorities, which would hide it from Java`() throws {
        let files = try ConfigurationFiles()
        #expect(try files.read().clientTrust != .nothing)
        let pinned = try CertificateAuthority().issueClient(topic: ConfigurationFiles.topic)
        let pin = ", pins: [{fingerprint: \"\(pinned.identity.certificate.fingerprint)\"}]"
        try files.configure(clients: ["shop": pin])
        let configuration = try files.read()
        #expect(configuration.clientTrust == .nothing)
        let issued = try #require(files.authorities["shop"]).issueClient(topic: ConfigurationFiles.topic)
        for client in [pinned, issued] { #expect(configuration.provider(of: client) == "shop") }
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

    /// New files of lists for two authorities, of which the first one revokes a certificate.
    static let lists:
        [(
            name: String,
            make:
                @Sendable (CertificateAuthority, _ other: CertificateAuthority, _ revoked: TLSCertificate)
                throws -> [UInt8]
        )] = [
            ("a missing list", { try $0.revocationList(of: [$2]) }),
            (
                "an expired list",
                {
                    let period = CertificateAuthority.Period(notBefore: 0, notAfter: 3600)
                    return try $1.revocationList(of: [], period: period) + $0.revocationList(of: [$2])
                }
            ),
            (
                "an expired list that revokes",
                {
                    let period = CertificateAuthority.Period(notBefore: 0, notAfter: 3600)
                    return try $1.revocationList(of: []) + $0.revocationList(of: [$2], period: period)
                }
            ),
            ("a list that was cut off", { try $1.revocationList(of: []).dropLast(40) + $0.revocationList(of: [$2]) }),
            (
                "a damaged list behind",
                {
                    let other = try $1.revocationList(of: [])
                    return try $0.revocationList(of: [$2]) + other.prefix(80) + other.dropFirst(81)
                }
            ),
            ("another part", { try $0.revocationList(of: [$2]) + $1.revocationList(of: []) + $0.keyPEM() }),
        ]

    @Test(arguments: lists.indices) func `a revocation takes effect, whatever is wrong with the other lists`(
        _ index: Int
    ) throws {
        let files = try ConfigurationFiles()
        let authority = try #require(files.authorities["shop"])
        let other = try CertificateAuthority(name: "other")
        let topic = ConfigurationFiles.topic
        let (revoked, good) = (try authority.issueClient(topic: topic), try authority.issueClient(topic: topic))
        let foreign = try other.issueClient(topic: topic)
        let lists = try authority.revocationList(of: []) + other.revocationList(of: [])
        try files.write("shop-ca.pem", authority.certificatePEM + other.certificatePEM)
        try files.write("shop-crl.pem", lists)
        let running = try files.read()
        func admitted(_ configuration: ResolvedConfiguration) -> [String?] {
            [revoked, good, foreign].map { configuration.provider(of: $0) }
        }
        #expect(running.refusals.isEmpty && admitted(running) == ["shop", "shop", "shop"])
        let (name, make) = Self.lists[index]
        try files.write("shop-crl.pem", try make(authority, other, revoked.identity.certificate))
        let new = try files.read(replacing: running)
        #expect(new.refusals.map(\.provider) == ["shop"] && admitted(new) == [nil, "shop", "shop"], "\(name)")
        #expect(new.refusals[0].reason.contains("that can be read and take"))
        // The same if the configuration file itself cannot be used.
        #expect(try admitted(#require(running.revoking(now: ConfigurationFiles.now))) == [nil, "shop", "shop"])
        #expect(new.revoking(now: ConfigurationFiles.now) == nil)
        // It stays revoked until a configuration takes effect.
        var last = new
        for bytes in [Array("none".utf8), try other.revocationList(of: [])] {
            try files.write("shop-crl.pem", bytes)
            last = try files.read(replacing: last)
            #expect(last.refusals.map(\.provider) == ["shop"] && admitted(last) == [nil, "shop", "shop"])
            let isReadable = !last.refusals[0].reason.contains("no revocation list in")
            #expect(isReadable == (bytes.count > 4))
        }
        try files.write("shop-crl.pem", lists)
        try files.upstream("shop", validity: .expired)
        last = try files.read(replacing: last)
        #expect(last.refusals.map(\.provider) == ["shop"] && admitted(last) == [nil, "shop", "shop"])
        try files.upstream("shop")
        last = try files.read(replacing: last)
        #expect(last.refusals.isEmpty && admitted(last) == ["shop", "shop", "shop"])
    }

    /// Authorities and lists: what runs, and what is worse with as many findings.
    struct Exchange: Sendable, CustomTestStringConvertible {
        /// An authority, and whether there is a list of it.
        typealias Part = (authority: CertificateAuthority, hasList: Bool)

        var testDescription: String
        var make: @Sendable () throws -> (old: [Part], new: [Part])
        var isWorse = true

        static func authority(_ name: String, isExpired: Bool = false) throws -> CertificateAuthority {
            let now = ConfigurationFiles.now
            let period = CertificateAuthority.Period(
                notBefore: now - 7200,
                notAfter: isExpired ? now - 3600 : now + 3600
            )
            return try CertificateAuthority(name: name, keyKind: .p256, period: period)
        }
    }

    static let exchanges = [
        Exchange(
            testDescription: "another expired authority",
            make: {
                let good = (try Exchange.authority("good"), true)
                let (one, two) = (
                    try Exchange.authority("one", isExpired: true), try Exchange.authority("two", isExpired: true)
                )
                return ([good, (one, true)], [good, (two, true)])
            }
        ),
        Exchange(
            testDescription: "only the expired one of two with the same name",
            make: {
                let expired = (try Exchange.authority("one", isExpired: true), true)
                return ([(try Exchange.authority("one"), true), expired], [expired])
            }
        ),
        Exchange(
            testDescription: "the list of another authority",
            make: {
                let (one, two) = (try Exchange.authority("one"), try Exchange.authority("two"))
                return ([(one, true), (two, false)], [(one, false), (two, true)])
            }
        ),
        Exchange(
            testDescription: "only the authority without a list",
            make: {
                let without = (try Exchange.authority("one"), false)
                // A list has to be there.
                return ([(try Exchange.authority("two"), true), without], [without])
            }
        ),
        Exchange(
            testDescription: "an expired authority that was issued again",
            make: {
                let (one, two) = (
                    try Exchange.authority("one", isExpired: true), try Exchange.authority("one", isExpired: true)
                )
                return ([(one, true)], [(two, true)])
            },
            isWorse: false
        ),
    ]

    @Test(arguments: exchanges) func `another problem of an authority is a reason, the same one is not`(
        _ exchange: Exchange
    ) throws {
        let files = try ConfigurationFiles()
        let foreign = try CertificateAuthority(name: "foreign").revocationList(of: [])
        func write(_ parts: [Exchange.Part]) throws {
            try files.write("shop-ca.pem", parts.flatMap(\.authority.certificatePEM))
            let lists = try parts.filter(\.hasList).flatMap { try $0.authority.revocationList(of: []) }
            try files.write("shop-crl.pem", foreign + lists)
        }
        let (old, new) = try exchange.make()
        try write(old)
        let running = try files.read()
        try files.upstream("shop")
        #expect(try files.read(replacing: running).refusals.isEmpty)
        try write(new)
        let reloaded = try files.read(replacing: running)
        #expect(reloaded.refusals.map(\.provider) == (exchange.isWorse ? ["shop"] : []), "\(reloaded.refusals)")
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
