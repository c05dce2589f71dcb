// SPDX-License-Identifier: Apache-2.0

import APNSTestKit
import Foundation
import OpenSSLTLS
import TestSupport
import Testing

/// Goal: the output of `gateway init` is complete for every kind of client, and never damages existing files.
@Suite(.timeLimit(.minutes(2))) struct GatewayInitTests {
    /// A folder with credentials like those from Apple.
    private struct Scene {
        let temporary: TemporaryFolder
        var path: String { self.temporary.path }
        var folder: String { self.path + "/gateway" }

        init() throws {
            self.temporary = try TemporaryFolder()
            let authority = try CertificateAuthority()
            let identity = try authority.issueClient(topic: "com.example.app", environments: [2])
            try self.write("upstream.pem", identity.pem)
            try self.write("cert.pem", identity.certificatePEM)
            try self.write("key.pem", try identity.encryptedKeyPEM(passphrase: "secret words"))
            try self.write("upstream.p12", try identity.pkcs12(passphrase: "secret words"))
            try self.write("passphrase.txt", Array("secret words\n".utf8))
            // As written by an old editor: not UTF-8, with trailing white space.
            try self.write("latin.p12", try identity.pkcs12(passphrase: "x "))
            try self.write("latin.txt", Array("x \r\nmore\n".utf8))
            try self.write("AuthKey_ABCDEFGHIJ.p8", try CertificateAuthority.makeKeyPEM(.p256))
        }

        func write(_ name: String, _ bytes: [UInt8]) throws {
            try Data(bytes).write(to: URL(filePath: self.path + "/" + name))
        }

        func run(_ options: [String], input: CInt? = nil) async throws -> CommandRun {
            try await CommandRun(["gateway", "init", "--folder", self.folder] + options, input: input)
        }

        func check() async throws -> CommandRun {
            try await CommandRun(["gateway", "check", "--config", self.folder + "/gateway.yaml"])
        }

        /// The files with their modes.
        var files: [String: Int] {
            get throws {
                var modes: [String: Int] = [:]
                for name in try FileManager.default.contentsOfDirectory(atPath: self.folder) where name != ".lock" {
                    let facts = try FileManager.default.attributesOfItem(atPath: self.folder + "/" + name)
                    modes[name] = facts[.posixPermissions] as? Int
                }
                return modes
            }
        }

        func read(_ name: String) throws -> String {
            try String(contentsOfFile: self.folder + "/" + name, encoding: .utf8)
        }
    }

    /// The files for each kind of client, and a word of their instructions.
    static let families: [(name: String, files: [String], word: String)] = [
        ("php", ["provider-combined.pem"], "openssl.cafile"),
        ("java", ["provider-legacy.p12", "provider-passphrase.txt"], "keytool -importcert -cacerts"),
        ("ruby", ["provider-combined.pem"], "grocer"),
        ("python", ["provider-combined.pem", "provider.pem", "provider-traditional.key.pem"], "PyAPNs"),
        ("node", ["provider.pem", "provider.key.pem"], "NODE_EXTRA_CA_CERTS"),
        ("go", ["provider.pem", "provider.key.pem"], "SSL_CERT_FILE"),
        ("dotnet", ["provider-legacy.p12", "provider-passphrase.txt"], "certutil"),
        ("c", ["provider.pem", "provider-traditional.key.pem"], "libcapn"),
        (
            "other",
            [
                "provider-combined.pem", "provider.pem", "provider.key.pem", "provider-traditional.key.pem",
                "provider-legacy.p12", "provider-passphrase.txt",
            ], "PKCS#1"
        ),
    ]

    private static let ownFiles = [
        "authority.pem", "authority.key.pem", "server.pem", "server.key.pem", "upstream.pem", "hosts",
        "NEXT-STEPS.txt", "gateway.yaml",
    ]

    @Test(arguments: families.indices) func `the files for a kind of client work immediately`(
        _ index: Int
    ) async throws {
        let family = Self.families[index]
        let scene = try Scene()
        // No required permission is one that the process's umask may remove from new files.
        let run = try await scene.run(["--client", family.name, "--upstream-certificate", scene.path + "/upstream.pem"])
        #expect(run.code == 0 && run.error.isEmpty, "\(run)")
        let files = try scene.files
        #expect(files.keys.sorted() == (Self.ownFiles + family.files).sorted())
        let readable: Set = ["authority.pem", "server.pem", "provider.pem", "hosts", "NEXT-STEPS.txt", "gateway.yaml"]
        for (name, mode) in files {
            #expect(mode == (readable.contains(name) ? 0o644 : 0o600), "\(name): \(String(mode, radix: 8))")
        }
        let check = try await scene.check()
        #expect(check.code == 0 && check.error.isEmpty, "\(check)")
        #expect(run.output.contains(family.word) && run.output.contains("127.0.0.1 gateway.push.apple.com"), "\(run)")
        #expect(run.output.hasSuffix(try scene.read("NEXT-STEPS.txt")))
        for name in family.files { #expect(run.output.contains(name), "\(name)") }
        let names = ["php", "ruby", "python", "dotnet"]
        #expect(
            try scene.read("gateway.yaml").contains(
                "rejections: \(names.contains(family.name) ? "ignore" : "report")\n"
            )
        )
        let server = try TLSIdentity(contentsOf: scene.folder + "/server.pem", key: scene.folder + "/server.key.pem")
        let services = ["gateway", "feedback"].flatMap { ["\($0).push.apple.com", "\($0).sandbox.push.apple.com"] }
        for name in services + ["localhost"] { #expect(server.certificate.hostNames.contains(name)) }
    }

    /// A kind of program: a topic of it, its files, a word of its instructions, and whether keys serve it.
    struct Kind: Sendable, CustomStringConvertible {
        var description: String
        var topic: String
        var files: [String]
        var word: String
        var needsCertificate = true
        var reportsInFeedback = false
    }

    static let kinds: [Kind] = [
        Kind(
            description: "mdm",
            topic: "com.apple.mgmt.External.1",
            files: ["provider-combined.pem", "provider.pem", "provider-traditional.key.pem"],
            word: "commandment"
        ),
        Kind(
            description: "wallet",
            topic: "pass.com.example.card",
            files: ["provider-legacy.p12", "provider-passphrase.txt"],
            word: "Data/Certificate"
        ),
        Kind(
            description: "mail",
            topic: "com.apple.mail.XServer.1",
            files: ["provider.pem", "provider.key.pem"],
            word: "SSL_CERT_FILE",
            reportsInFeedback: true
        ),
        Kind(
            description: "calendar",
            topic: "com.apple.calendar.XServer.1",
            files: ["provider.pem", "provider.key.pem", "provider-traditional.key.pem"],
            word: "for calendar",
            reportsInFeedback: true
        ),
        Kind(
            description: "contacts",
            topic: "com.apple.contact.XServer.1",
            files: ["provider.pem", "provider.key.pem", "provider-traditional.key.pem"],
            word: "for contacts",
            reportsInFeedback: true
        ),
        Kind(
            description: "safari",
            topic: "web.com.example",
            files: ["provider-combined.pem"],
            word: "openssl.cafile",
            needsCertificate: false
        ),
        Kind(
            description: "xmpp",
            topic: "com.example.app",
            files: ["provider.pem", "provider.key.pem", "provider-legacy.p12", "provider-passphrase.txt"],
            word: "ejabberd.yml",
            needsCertificate: false
        ),
        Kind(
            description: "sip",
            topic: "com.example.app.voip",
            files: ["provider-combined.pem"],
            word: "apple-certificate-dir",
            needsCertificate: false,
            reportsInFeedback: true
        ),
    ]

    @Test(arguments: Self.kinds) func `a kind of program gets its files, its mode and its topics`(
        _ kind: Kind
    ) async throws {
        let scene = try Scene()
        let authority = try CertificateAuthority()
        try scene.write("kind.pem", try authority.issueClient(topic: kind.topic, environments: [2]).pem)
        let options = ["--client", kind.description, "--upstream-certificate", scene.path + "/kind.pem"]
        let run = try await scene.run(options)
        #expect(run.code == 0 && run.error.isEmpty, "\(run)")
        #expect(try scene.files.keys.sorted() == (Self.ownFiles + kind.files).sorted())
        #expect(run.output.contains(kind.word) && !run.output.contains("\n\n\n"), "\(run)")
        for name in kind.files where !name.contains("passphrase") { #expect(run.output.contains(name), "\(name)") }
        let check = try await scene.check()
        #expect(check.code == 0 && check.error.isEmpty, "\(check)")
        let yaml = try scene.read("gateway.yaml")
        #expect(yaml.contains("rejections: ignore\n") && yaml.contains("environment: production\n"), "\(yaml)")
        #expect(yaml.contains("rejectedToFeedback: true") == kind.reportsInFeedback)
        #expect(yaml.split(separator: "\n").allSatisfy { $0.count <= 120 } && run.output.contains(kind.topic) == false)
    }

    @Test(arguments: Self.kinds) func `a kind of program is refused with what Apple never accepts`(
        _ kind: Kind
    ) async throws {
        guard !["xmpp", "sip"].contains(kind.description) else { return }
        let scene = try Scene()
        let client = ["--client", kind.description]
        let key = ["--p8-key", scene.path + "/AuthKey_ABCDEFGHIJ.p8", "--team-id", "KLMNOPQRST"]
        let certificate = ["--upstream-certificate", scene.path + "/upstream.pem"]
        let cases: [(options: [String], code: Int32, words: [String])] = [
            (certificate, 78, ["com.example.app is no topic of --client \(kind)"]),
            (certificate + ["--topic", "pass.x", "--environment", "sandbox"], 64, ["exist in production only"]),
            (key + ["--topic", kind.topic], 64, ["needs --upstream-certificate", "(.p8)"]),
        ]
        for (options, code, words) in kind.needsCertificate ? cases : cases.dropLast() {
            let run = try await scene.run(client + options)
            #expect(run.code == code && run.error.split(separator: "\n").count == 1, "\(run)")
            for word in words { #expect(run.error.contains(word), "\(run)") }
            #expect(!FileManager.default.fileExists(atPath: scene.folder))
        }
    }

    @Test(arguments: [("production", "Production"), ("sandbox", "Development")])
    func `the certificate for .NET passes the check of PushSharp 2.2, and is not taken for Apple's`(
        _ environment: String,
        _ word: String
    ) async throws {
        let scene = try Scene()
        let run = try await scene.run(
            [
                "--client", "dotnet", "--p8-key", scene.path + "/AuthKey_ABCDEFGHIJ.p8", "--team-id", "KLMNOPQRST",
                "--topic", "com.example.a-name-that-is-longer-than-common-names", "--environment", environment,
            ]
        )
        #expect(run.code == 0, "\(run)")
        let passphrase = try TLSPassphrase(contentsOf: scene.folder + "/provider-passphrase.txt")
        let identity = try TLSIdentity(contentsOf: scene.folder + "/provider-legacy.p12", passphrase: passphrase)
        #expect(identity.certificate.issuer.contains("Apple"))
        #expect(identity.certificate.subject.contains("Apple \(word) IOS Push Services"))
        #expect(identity.certificate.subjectField("UID")?.hasSuffix("common-names") == true)
        let shown = try await CommandRun(
            [
                "certificate", "show", scene.folder + "/provider-legacy.p12", "--passphrase-file",
                scene.folder + "/provider-passphrase.txt",
            ]
        )
        #expect(shown.output.contains("a provider's certificate, not issued by Apple"), "\(shown)")
        #expect(try await scene.check().code == 0)
    }

    @Test func `a .p12 and an encrypted key are copied with their passphrase, a .p8 with its identifiers`() async throws
    {
        let variants: [[String]] = [
            ["--upstream-certificate", "upstream.p12", "--upstream-passphrase-file", "passphrase.txt"],
            [
                "--upstream-certificate", "cert.pem", "--upstream-key", "key.pem", "--upstream-passphrase-file",
                "passphrase.txt",
            ],
            [
                "--p8-key", "AuthKey_ABCDEFGHIJ.p8", "--team-id", "KLMNOPQRST", "--topic", "com.example.app",
                "--environment", "production",
            ],
        ]
        for variant in variants {
            let scene = try Scene()
            let options = variant.map {
                $0.hasSuffix(".p12") || $0.hasSuffix(".pem") || $0.hasSuffix(".txt")
                    || $0.hasSuffix(".p8") ? scene.path + "/" + $0 : $0
            }
            let run = try await scene.run(options + ["--client", "other", "--host", "192.0.2.10"])
            #expect(run.code == 0, "\(run)")
            #expect(try await scene.check().code == 0)
            #expect(try scene.read("hosts") == "192.0.2.10 gateway.push.apple.com feedback.push.apple.com\n")
            #expect(try scene.read("gateway.yaml").contains("host: \"0.0.0.0\""))
        }
    }

    @Test func `a passphrase is copied byte for byte`() async throws {
        let scene = try Scene()
        let options = ["--client", "php", "--upstream-certificate", scene.path + "/latin.p12"]
        let passphrase = ["--upstream-passphrase-file", scene.path + "/latin.txt"]
        let run = try await scene.run(options + passphrase)
        #expect(run.code == 0, "\(run)")
        #expect(try scene.read("upstream-passphrase.txt") == "x \n")
        #expect(try await scene.check().code == 0)
    }

    @Test func `a passphrase that is not UTF-8 is not changed`() async throws {
        let scene = try Scene()
        let bytes: [UInt8] = [0x67, 0xE4, 0x68, 0xFF]
        try scene.write("plain.key.pem", try CertificateAuthority.makeKeyPEM(.rsa2048))
        try scene.write("word.txt", bytes + [0x0A])
        // OpenSSL's program reads the passphrase as bytes, like old tools.
        let words = ["openssl", "pkcs8", "-topk8", "-in", scene.path + "/plain.key.pem", "-passout"]
        let encrypted = try await Program.run(
            "/usr/bin/env",
            words + ["file:" + scene.path + "/word.txt"],
            deadlineSeconds: 20
        )
        try scene.write("latin.key.pem", Array(encrypted))
        let request = ["openssl", "req", "-new", "-x509", "-subj", "/UID=com.example.app", "-days", "9", "-key"]
        let certificate = try await Program.run(
            "/usr/bin/env",
            request + [scene.path + "/plain.key.pem"],
            deadlineSeconds: 20
        )
        try scene.write("latin.pem", Array(certificate))
        let run = try await scene.run([
            "--client", "php", "--environment", "production", "--upstream-certificate", scene.path + "/latin.pem",
            "--upstream-key", scene.path + "/latin.key.pem", "--upstream-passphrase-file", scene.path + "/word.txt",
        ])
        #expect(run.code == 0, "\(run)")
        let copy = FileManager.default.contents(atPath: scene.folder + "/upstream-passphrase.txt")
        #expect(copy.map { Array($0) } == bytes + [0x0A])
    }

    @Test(arguments: [
        ("127.0.1.1", "127.0.1.1", "127.0.1.1"), ("2001:db8::1", "2001:db8::1", "::"), ("::1", "::1", "::1"),
        ("192.0.2.10", "192.0.2.10", "0.0.0.0"),
    ]) func `it listens at the address of the hosts line`(_ host: String, _ address: String, _ listen: String)
        async throws
    {
        let scene = try Scene()
        let options = ["--client", "node", "--upstream-certificate", scene.path + "/upstream.pem", "--host", host]
        let run = try await scene.run(options)
        #expect(try scene.read("hosts") == "\(address) gateway.push.apple.com feedback.push.apple.com\n", "\(run)")
        #expect(try scene.read("gateway.yaml").contains("host: \"\(listen)\""))
    }

    @Test func `an address that cannot be resolved is rejected before anything is written`() async throws {
        let scene = try Scene()
        let options = ["--client", "node", "--upstream-certificate", scene.path + "/upstream.pem", "--host"]
        // A name that resolves to loopback counts as this machine, as in its hosts file.
        for host in ["127.1", "1", "a b", "nowhere.invalid", "ip6-localhost"] {
            let run = try await scene.run(options + [host])
            #expect(run.code == 64 && run.error.split(separator: "\n").count == 1, "\(run)")
            #expect(!FileManager.default.fileExists(atPath: scene.folder))
        }
    }

    @Test func `the provider's certificate contains the team of the upstream credentials, and nothing invented`()
        async throws
    {
        for (options, team) in [
            (["--upstream-certificate", "upstream.pem"], "ABCDE12345"),
            (
                [
                    "--p8-key", "AuthKey_ABCDEFGHIJ.p8", "--team-id", "KLMNOPQRST", "--topic", "com.example.app",
                    "--environment", "production",
                ], "KLMNOPQRST"
            ),
        ] {
            let scene = try Scene()
            let words = options.map { $0.contains(".p") && !$0.hasPrefix("com") ? scene.path + "/" + $0 : $0 }
            let run = try await scene.run(["--client", "node"] + words)
            #expect(run.code == 0, "\(run)")
            let identity = try TLSIdentity(
                contentsOf: scene.folder + "/provider.pem",
                key: scene.folder + "/provider.key.pem"
            )
            #expect(identity.certificate.subjectField("OU") == team)
            #expect(identity.certificate.subjectField("O") == nil && identity.certificate.subjectField("C") == nil)
        }
    }

    @Test func `a certificate that the service would reject is reported before anything is written`() async throws {
        let scene = try Scene()
        let authority = try CertificateAuthority()
        let expired = try authority.issueClient(topic: "com.example.app", environments: [2], validity: .expired)
        try scene.write("expired.pem", expired.pem)
        let good = ["--client", "node", "--upstream-certificate", scene.path + "/upstream.pem"]
        for (options, word) in [
            (["--client", "node", "--upstream-certificate", scene.path + "/expired.pem"], "expired on"),
            (good + ["--topic", "com.example.other"], "is for com.example.app"),
            (good + ["--environment", "sandbox"], "is for the other environment"),
        ] {
            let run = try await scene.run(options)
            #expect(run.code == 78 && run.output.isEmpty && run.error.contains(word), "\(run)")
            #expect(!FileManager.default.fileExists(atPath: scene.folder))
        }
        #expect(try await scene.run(good).code == 0)
    }

    @Test func `a process that ends at a passphrase prompt restores the terminal's echo`() async throws {
        let scene = try Scene()
        var (controller, terminal): (CInt, CInt) = (0, 0)
        try #require(openpty(&controller, &terminal, nil, nil, nil) == 0)
        defer { for descriptor in [controller, terminal] { close(descriptor) } }
        func hasEcho() -> Bool {
            var settings = termios()
            return tcgetattr(terminal, &settings) == 0 && settings.c_lflag & tcflag_t(ECHO) != 0
        }
        try #require(hasEcho())
        let child = try Child(
            [
                "gateway", "init", "--client", "php", "--folder", scene.folder, "--upstream-certificate",
                scene.path + "/upstream.p12",
            ],
            Child.Streams(input: terminal, error: scene.path + "/error")
        )
        try await eventually("the question") { !hasEcho() }
        child.send(SIGTERM)
        #expect(try await child.end().signal == SIGTERM)
        #expect(hasEcho())
    }

    @Test func `a passphrase prompt does not show the input`() async throws {
        let scene = try Scene()
        var (controller, terminal): (CInt, CInt) = (0, 0)
        try #require(openpty(&controller, &terminal, nil, nil, nil) == 0)
        defer { for descriptor in [controller, terminal] { close(descriptor) } }
        let child = try Child(
            [
                "gateway", "init", "--client", "php", "--folder", scene.folder, "--host", "127.0.0.1",
                "--upstream-certificate", scene.path + "/upstream.p12",
            ],
            Child.Streams(input: terminal, output: scene.path + "/output", error: scene.path + "/error")
        )
        try await eventually("the question") {
            var settings = termios()
            return tcgetattr(terminal, &settings) == 0 && settings.c_lflag & tcflag_t(ECHO) == 0
        }
        let answer = Array("secret words\n".utf8)
        #expect(write(controller, answer, answer.count) == answer.count)
        #expect(try await child.end().code == 0)
        #expect(try scene.read("upstream-passphrase.txt") == "secret words\n")
    }

    @Test func `without a terminal, one error names all options that are missing`() async throws {
        let scene = try Scene()
        let run = try await scene.run([])
        #expect(run.code == 64)
        let lines = run.error.split(separator: "\n")
        #expect(lines.count == 1, "\(lines)")
        for option in ["--upstream-certificate or --p8-key", "--topic", "--environment", "--client"] {
            #expect(lines.first?.contains(option) == true, "\(option): \(lines)")
        }
        #expect(!FileManager.default.fileExists(atPath: scene.folder))
    }

    @Test func `existing files are never overwritten`() async throws {
        let scene = try Scene()
        try FileManager.default.createDirectory(atPath: scene.folder, withIntermediateDirectories: true)
        try scene.write("gateway/server.pem", Array("somebody's".utf8))
        let run = try await scene.run(["--client", "php", "--upstream-certificate", scene.path + "/upstream.pem"])
        #expect(run.failed(73, naming: scene.folder, "server.pem"), "\(run)")
        #expect(try scene.files.keys.sorted() == ["server.pem"])
        #expect(try scene.read("server.pem") == "somebody's")
    }

    @Test func `on a terminal it asks for missing values, and again after an invalid answer`() async throws {
        let scene = try Scene()
        var (controller, terminal): (CInt, CInt) = (0, 0)
        try #require(openpty(&controller, &terminal, nil, nil, nil) == 0)
        defer { for descriptor in [controller, terminal] { close(descriptor) } }
        let answers = [
            "/nowhere.p12", scene.path + "/AuthKey_ABCDEFGHIJ.p8", "short", "KLMNOPQRST", "cobol", "Java",
            "com.example.app", "sandbox", "",
        ]
        // No more than the input buffer of a terminal.
        let text = Array((answers.joined(separator: "\n") + "\n").utf8)
        try #require(write(controller, text, text.count) == text.count)
        let run = try await scene.run([], input: terminal)
        #expect(run.code == 0, "\(run)")
        for reason in ["/nowhere.p12: no such file", "expected 10 letters and digits", "cobol is not in the list"] {
            #expect(run.error.contains(reason), "\(run)")
        }
        #expect(try await scene.check().code == 0)
        let yaml = try scene.read("gateway.yaml")
        for line in ["environment: sandbox", "teamID: \"KLMNOPQRST\"", "keyID: \"ABCDEFGHIJ\"", "tlsMinimum: \"1.0\""] {
            #expect(yaml.contains(line), "\(line)")
        }
    }
}
