// SPDX-License-Identifier: Apache-2.0

import Foundation
import TestSupport
import Testing

/// Goal: OpenSSL accepts the certificates of `certificate new` for their purpose, and nothing is overwritten.
@Suite(.timeLimit(.minutes(1))) struct CertificateNewTests {
    private static func folder(_ scene: CertificateScene) async throws {
        try await scene.create("new authority --key-type ec --output @authority")
    }

    @Test func `the files verify with openssl, and only their owner reads the keys`() async throws {
        let scene = try CertificateScene()
        try scene.write("passphrase", "secret\n".utf8)
        let made = try await scene.create("new authority --output @authority")
        #expect(made.output.contains("\(scene.path("authority.key.pem")): its private key; keep it secret\n"))
        try await scene.create(
            """
            new server --key-type ec --name gateway.example --name ::1 --apple-names --authority @authority.pem
            --authority-key @authority.key.pem --output @server
            """
        )
        try await scene.create(
            """
            new client --topic com.example.app --topic com.example.app.voip --team TEAM123456 --environment
            sandbox --days 100 --authority @authority.pem --authority-key @authority.key.pem --p12 legacy --p12
            modern --passphrase-file @passphrase --combined --output @provider
            """
        )
        for name in ["authority", "server", "provider"] {
            #expect(try scene.mode(name + ".pem") == 0o644 && scene.mode(name + ".key.pem") == 0o600, "\(name)")
        }
        for name in ["provider.p12", "provider-legacy.p12", "provider-combined.pem"] {
            #expect(try scene.mode(name) == 0o600, "\(name)")
        }
        try await scene.openssl("verify -CAfile @authority.pem -purpose sslserver @server.pem")
        try await scene.openssl("verify -CAfile @authority.pem -purpose sslclient @provider.pem")
        for name in ["gateway.example", "gateway.push.apple.com", "feedback.sandbox.push.apple.com"] {
            let said = try await scene.openssl("x509 -in @server.pem -noout -checkhost \(name)")
            #expect(said.contains("does match"), "\(said)")
        }
        let text = try await scene.openssl("x509 -in @provider.pem -noout -text -nameopt RFC2253")
        #expect(text.contains("OU=TEAM123456,CN=Apple Push Services: com.example.app,UID=com.example.app"), "\(text)")
        #expect(text.contains("1.2.840.113635.100.6.3.1") && !text.contains("1.2.840.113635.100.6.3.2:"), "\(text)")
        #expect(text.contains("Public-Key: (2048 bit)"))
        let parsed = try await scene.openssl("asn1parse -in @provider.pem")
        let content = try #require(parsed.split(separator: "\n").drop { !$0.contains("100.6.3.6") }.dropFirst().first)
        let digits = try #require(content.split(separator: ":").last)
        let list = "0C0F" + "com.example.app".utf8.hex + "30050C03" + "app".utf8.hex + "0C14"
        #expect(digits == "3036" + list + "com.example.app.voip".utf8.hex + "30060C04" + "voip".utf8.hex)
        for (name, options) in [("provider.p12", ""), ("provider-legacy.p12", "-legacy")] {
            let words = ["pkcs12", "-in", scene.path(name), "-passin", "file:" + scene.path("passphrase"), "-nodes"]
            let all = words + (options.isEmpty ? [] : [options])
            let data = try await Program.run("/usr/bin/openssl", all, deadlineSeconds: 30)
            let pem = String(decoding: data, as: UTF8.self)
            #expect(pem.contains("BEGIN CERTIFICATE") && pem.contains("BEGIN PRIVATE KEY"), "\(name)")
        }
        let info = try await scene.run("show @provider-legacy.p12 --passphrase-file @passphrase")
        #expect(info.output.contains("key 3DES (2,048 iterations), checksum SHA1"), "\(info)")
    }

    @Test func `each stored key is different`() async throws {
        let scene = try CertificateScene()
        let kinds = ["a": "rsa", "b": "rsa", "c": "ec", "d": "ec", "e": "ec"]
        for (name, kind) in kinds { try await scene.create("new authority --key-type \(kind) --output @\(name)") }
        let keys = try kinds.keys.map { try scene.read($0 + ".key.pem") }
        #expect(Set(keys).count == 5)
    }

    @Test func `nothing is overwritten unless requested, and nothing is left incomplete`() async throws {
        let scene = try CertificateScene()
        try await Self.folder(scene)
        let before = try scene.read("authority.pem")
        let again = try await scene.run("new authority --key-type ec --output @authority")
        #expect(again.failed(73, naming: scene.path("authority.pem"), "--force"), "\(again)")
        #expect(try scene.read("authority.pem") == before)
        let forced = try await scene.run("new authority --key-type ec --output @authority --force")
        #expect(forced.code == 0)
        #expect(try scene.read("authority.pem") != before)
        #expect(try scene.names == ["authority.key.pem", "authority.pem"])
        let nowhere = try await scene.run("new authority --key-type ec --output @no/where")
        #expect(nowhere.failed(73, naming: scene.path("no/where")), "\(nowhere)")
    }

    @Test func `invalid arguments and an invalid authority are reported`() async throws {
        let scene = try CertificateScene()
        let issuing = ["--authority", scene.path("authority.pem"), "--authority-key", scene.path("authority.key.pem")]
        func run(_ words: [String]) async throws -> CommandRun {
            try await CommandRun(["certificate", "new"] + words + ["--output", scene.path("x"), "--key-type", "ec"])
        }
        let missing = try await run(["server", "--name", "a.example"] + issuing)
        #expect(missing.failed(78, naming: scene.path("authority.pem")), "\(missing)")
        try await Self.folder(scene)
        for words in [
            ["server"], ["server", "--name", "a,b"], ["client"], ["client", "--topic", ""],
            ["client", "--topic", "a", "--topic", "a"], ["client", "--topic", "a", "--p12", "legacy"],
            ["client", "--topic", "a", "--days", "0"], ["client", "--topic", "a", "--days", "4000"],
        ] {
            let run = try await run(words + issuing)
            #expect(run.code == 64, "\(words): \(run)")
        }
        // A provider certificate is not an authority.
        try await scene.create(
            """
            new client --key-type ec --topic a.b --authority @authority.pem --authority-key @authority.key.pem
            --output @provider
            """
        )
        let wrong = try await run([
            "server", "--name", "a.example", "--authority", scene.path("provider.pem"), "--authority-key",
            scene.path("provider.key.pem"),
        ])
        #expect(wrong.failed(78, naming: scene.path("provider.pem"), "authority"), "\(wrong)")
    }
}

extension Collection<UInt8> {
    fileprivate var hex: String {
        self.map { String($0 >> 4, radix: 16, uppercase: true) + String($0 & 15, radix: 16, uppercase: true) }.joined()
    }
}
