// SPDX-License-Identifier: Apache-2.0

import APNSLegacyCommands
import APNSTestKit
import Foundation
import TestSupport
import Testing

/// Goal: problems that prevent delivery are found by `gateway check`, and logged by a gateway that starts with them.
@Suite(.timeLimit(.minutes(2))) struct GatewayCheckTests {
    struct Problem: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var make: @Sendable (GatewayProgram.Folder) throws -> Void
        /// The expected parts of the line.
        var words: [String]
    }

    private static func edit(_ folder: GatewayProgram.Folder, _ text: String, _ replacement: String) throws {
        let old = folder.read("gateway.yaml")
        try #require(old.contains(text))
        try folder.write("gateway.yaml", Array(old.replacing(text, with: replacement).utf8))
    }

    private static func upstream(
        _ folder: GatewayProgram.Folder,
        environments: [Int] = [1, 2],
        validity: CertificateAuthority.Validity = .current
    ) throws {
        let identity = try folder.authority.issueClient(
            topic: GatewayProgram.topic,
            environments: environments,
            validity: validity
        )
        try folder.write("upstream.pem", identity.pem)
    }

    static let problems = [
        Problem(
            testDescription: "an expired server certificate",
            make: { try $0.write("server.pem", try $0.authority.issueServer(validity: .expired).pem) },
            words: ["server.certificate: ", "/server.pem: ", "expired on 20", "Replace it"]
        ),
        Problem(
            testDescription: "a server certificate that is not valid yet",
            make: { try $0.write("server.pem", try $0.authority.issueServer(validity: .future).pem) },
            words: ["server.certificate: ", "/server.pem: ", "not valid before 20", "clock"]
        ),
        Problem(
            testDescription: "a server certificate without alternative names",
            make: { try $0.write("server.pem", try $0.authority.issueServer(names: []).pem) },
            words: ["server.certificate: ", "/server.pem: ", "subject alternative name", "gateway.push.apple.com"]
        ),
        Problem(
            testDescription: "an expired authority of the providers",
            make: {
                let now = Int64(Date().timeIntervalSince1970)
                let period = CertificateAuthority.Period(notBefore: now - 7200, notAfter: now - 3600)
                let authority = try CertificateAuthority(name: "of before", keyKind: .p256, period: period)
                try $0.write("ca.pem", authority.certificatePEM)
            },
            words: ["provider shop: clients.authority: ", "/ca.pem: ", "expired on 20", "admitted"]
        ),
        Problem(
            testDescription: "an authority without a revocation list",
            make: {
                try $0.write("crl.pem", try CertificateAuthority(name: "Other").revocationList(of: []))
                try Self.edit($0, "{authority: ca.pem}", "{authority: ca.pem, revocations: crl.pem}")
            },
            words: ["provider shop: clients.revocations: ", "/crl.pem: there is no list of the authority CN=", "Add"]
        ),
        Problem(
            testDescription: "a damaged second revocation list",
            make: {
                let list = try $0.authority.revocationList(of: [])
                try $0.write("crl.pem", list + list.dropLast(40))
                try Self.edit($0, "{authority: ca.pem}", "{authority: ca.pem, revocations: crl.pem}")
            },
            words: ["provider shop: ", "/ca.pem, ", "/crl.pem: ", "part 2 is damaged"]
        ),
        Problem(
            testDescription: "an expired upstream certificate",
            make: { try Self.upstream($0, validity: .expired) },
            words: ["provider shop: upstream.certificate: ", "/upstream.pem: ", "expired on 20", "Replace it"]
        ),
        Problem(
            testDescription: "an upstream certificate for the other environment",
            make: { try Self.upstream($0, environments: [2]) },
            words: ["provider shop: environment: ", "sandbox", "/upstream.pem"]
        ),
        Problem(
            testDescription: "a topic that the upstream certificate does not cover",
            make: { try Self.edit($0, "environment: sandbox", "environment: sandbox\n    topic: com.example.other") },
            words: ["provider shop: topic: ", "com.example.other", "/upstream.pem", "com.example.app"]
        ),
        Problem(
            testDescription: "an address that this machine does not have",
            make: { try Self.edit($0, "listen: {", "listen: {host: 192.0.2.1, ") },
            words: ["listen.host: 192.0.2.1: ", "no network interface"]
        ),
        Problem(
            testDescription: "an operators' address that this machine does not have",
            make: { try Self.edit($0, "admin: {port: 0}", "admin: {host: 192.0.2.1, port: 0}") },
            words: ["admin.host: 192.0.2.1: ", "no network interface"]
        ),
        Problem(
            testDescription: "a feedback database that is a dangling link",
            make: {
                try FileManager.default.createSymbolicLink(
                    atPath: $0.path("database/feedback.sqlite"),
                    withDestinationPath: "nowhere"
                )
            },
            words: ["feedback: ", "/feedback.sqlite: ", "dangling link"]
        ),
        Problem(
            testDescription: "a missing feedback folder",
            make: { try Self.edit($0, "database/feedback", "nowhere/feedback") },
            words: ["feedback: ", "/nowhere/feedback.sqlite: ", "folder", "Create it"]
        ),
        Problem(
            testDescription: "a feedback database that is another file",
            make: { try $0.write("database/feedback.sqlite", Array("some notes of somebody, not SQLite".utf8)) },
            words: ["feedback: ", "/feedback.sqlite: ", "SQLite"]
        ),
        Problem(
            testDescription: "a damaged feedback database",
            make: { try $0.write("database/feedback.sqlite", Array("SQLite format 3\0 and some notes".utf8)) },
            words: ["feedback: ", "/feedback.sqlite: ", "SQLite error 26", "move it away"]
        ),
        Problem(
            testDescription: "a feedback database that is a folder",
            make: { try Self.edit($0, "database/feedback.sqlite", "database") },
            words: ["feedback: ", "/database: ", "folder"]
        ),
    ]

    /// Checks the configuration of a folder.
    ///
    /// - Returns: the exit code, and the lines of standard error.
    private static func check(_ folder: GatewayProgram.Folder) async throws -> (code: Int32, lines: [String]) {
        let run = try await CommandRun(["gateway", "check", "--config", folder.path("gateway.yaml")])
        return (run.code, run.error.split(separator: "\n").map(String.init))
    }

    @Test func `a configuration without a problem is good`() async throws {
        let folder = try GatewayProgram.Folder()
        try folder.configure(upstreamPort: 1)
        let later = Int64(Date().timeIntervalSince1970) + 3600
        let run = try await CommandRun(["gateway", "check", "--config", folder.path("gateway.yaml")]) {
            $0.now = { later }
        }
        #expect(run.code == 0 && run.error.isEmpty, "\(run)")
        let lines = run.output.split(separator: "\n").map { $0.trimmingCharacters(in: .whitespaces) }
        #expect(lines.first == "\(folder.path("gateway.yaml")): no problems found; providers: shop")
        #expect(
            lines.contains("listens on any free port of 127.0.0.1, for feedback on any free port of 127.0.0.1; TLS 1.2")
        )
        let expected = [
            "server certificate \(folder.path("server.pem")): for localhost, 127.0.0.1, ::1; 0 days left",
            "provider shop: the topic of its certificate, sandbox; admits certificates that "
                + "\(folder.path("ca.pem")) issued",
            "sends to localhost:1 with certificate \(folder.path("upstream.pem")); 0 days left, until 20",
        ]
        for line in expected { #expect(lines.contains { $0.hasPrefix(line) }, "\(line): \(lines)") }
        let quiet = try await CommandRun(["gateway", "check", "--quiet", "--config", folder.path("gateway.yaml")])
        #expect(quiet.code == 0 && quiet.output.isEmpty && quiet.error.isEmpty, "\(quiet)")
    }

    @Test(arguments: problems) func `a problem is reported in one line, and the exit code is 78`(
        _ problem: Problem
    ) async throws {
        let folder = try GatewayProgram.Folder()
        try folder.configure(upstreamPort: 1)
        try problem.make(folder)
        let (code, lines) = try await Self.check(folder)
        #expect(code == 78)
        #expect(lines.count == 1, "\(lines)")
        for words in [folder.path("gateway.yaml") + ": "] + problem.words {
            #expect(lines.first?.contains(words) == true, "\(words): \(lines)")
        }
    }

    @Test func `all problems are reported, one per line`() async throws {
        let folder = try GatewayProgram.Folder()
        try folder.configure(upstreamPort: 1)
        try folder.write("server.pem", try folder.authority.issueServer(names: [], validity: .expired).pem)
        try Self.upstream(folder, validity: .expired)
        let (code, lines) = try await Self.check(folder)
        #expect(code == 78)
        #expect(lines.count == 3, "\(lines)")
    }

    @Test func `the certificates of providers that will be kept out are named`() async throws {
        let folder = try GatewayProgram.Folder()
        let weak = try await WeakCertificates()
        try folder.configure(upstreamPort: 1)
        try folder.write("ca.pem", try folder.authority.certificatePEM + weak.authorityPEM)
        try folder.write("short.pem", try await weak.issue(bitCount: 1024))
        func check(_ names: String...) async throws -> CommandRun {
            let options = names.flatMap { ["--provider-certificate", folder.path($0)] }
            return try await CommandRun(["gateway", "check", "--config", folder.path("gateway.yaml")] + options)
        }
        let good = try await check("provider.pem")
        #expect(good.code == 0, "\(good)")
        #expect(good.output.contains("\(folder.path("provider.pem")): admitted as provider shop"), "\(good)")
        let bad = try await check("provider.pem", "short.pem")
        let expected = "/short.pem: not admitted: provider shop: the certificate is too weak: its RSA key has only 1024"
        #expect(bad.code == 78 && bad.error.contains(expected), "\(bad)")
        try folder.write("old.pem", try await WeakCertificates(bitCount: 1024).authorityPEM)
        try Self.edit(folder, "{authority: ca.pem}", "{authority: old.pem}")
        let old = try await check()
        let finding =
            "provider shop: clients.authority: \(folder.path("old.pem")): the authority CN=Weak is too weak, so"
        #expect(old.code == 78 && old.error.contains(finding), "\(old)")
        try Self.edit(folder, "listen: {", "listen: {tlsMinimum: \"1.0\", ")
        #expect(try await check().code == 0)
        try Self.edit(folder, "{authority: old.pem}", "{authority: ca.pem}")
        #expect(try await check("provider.pem", "short.pem").code == 0)
    }

    @Test func `a gateway logs the problems of its configuration at the start and on SIGHUP`() async throws {
        let folder = try GatewayProgram.Folder()
        try folder.configure(upstreamPort: 1)
        try Self.upstream(folder, validity: .expired)
        let gateway = try await GatewayProgram(folder)
        let first = try await gateway.lines("configuration problem")
        #expect(first.count == 1, "\(first)")
        #expect(first[0].contains("\"level\":\"warning\"") && first[0].contains("upstream.certificate"), "\(first)")
        try Self.upstream(folder, validity: .expired)
        gateway.child.send(SIGHUP)
        try await gateway.lines("configuration reloaded")
        let second = gateway.lines(["configuration problem"])
        #expect(second.count == 2 && second.last?.contains("upstream.certificate") == true, "\(second)")
        #expect(try await gateway.end().code == 0)
    }

    @Test func `SIGHUP names the keys whose change needs a restart, and only those`() async throws {
        let folder = try GatewayProgram.Folder()
        try folder.configure(upstreamPort: 1)
        let gateway = try await GatewayProgram(folder)
        gateway.child.send(SIGHUP)
        try await gateway.lines("configuration reloaded")
        #expect(gateway.lines(["require a restart"]).isEmpty)
        try Self.edit(
            folder,
            "listen: {port: 0, feedbackPort: 0}",
            "listen: {port: 1, feedbackPort: 0, tlsMinimum: \"1.0\"}\nlog: debug"
        )
        try Self.edit(folder, "{shutdown: 10s}", "{shutdown: 11s, connections: 99}")
        try Self.edit(folder, "admin: {port: 0}", "admin: off")
        try Self.edit(folder, "database/feedback", "database/other")
        try Self.edit(folder, "environment: sandbox", "environment: sandbox\n    limits: {inFlight: 5, remembered: 7}")
        gateway.child.send(SIGHUP)
        let lines = try await gateway.lines("require a restart")
        let keys = "admin, feedback, limits.connections, limits.shutdown, listen.port, listen.tlsMinimum, log"
        #expect(
            lines.count == 1 && lines[0].contains("\"apns.legacy.configuration.unapplied\":\"\(keys)\""),
            "\(lines)"
        )
        #expect(lines.first?.contains("\"level\":\"warning\"") == true)
        #expect(try await gateway.end().code == 0)
    }
}
