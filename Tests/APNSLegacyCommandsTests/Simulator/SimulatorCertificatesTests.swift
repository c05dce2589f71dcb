// SPDX-License-Identifier: Apache-2.0

import APNSCertificates
import Foundation
import OpenSSLTLS
import Testing

@testable import APNSLegacyCommands

/// Goal: a folder of the simulator is reused while it is valid, repaired if that is safe, and otherwise never
/// overwritten.
@Suite(.timeLimit(.minutes(2))) struct SimulatorCertificatesTests {
    /// Expects a failure that does not change the folder, and returns its text.
    private func failure(
        in folder: KeptFolder,
        topic: String = KeptFolder.topic,
        now: Int64 = KeptFolder.now
    ) async throws -> CommandFailure {
        let before = try folder.contents()
        let error = await #expect(throws: CommandFailure.self) { try await folder.start(topic: topic, now: now) }
        #expect(try folder.contents() == before)
        let failure = try #require(error)
        #expect(!failure.description.contains("\n"))
        return failure
    }

    @Test func `a new folder has all files, which the next start uses again`() async throws {
        let folder = try KeptFolder()
        let (first, lines) = try await folder.start()
        let contents = try folder.contents()
        #expect(contents.keys.sorted() == KeptFolder.names)
        #expect(lines.count == 1 && lines[0].hasPrefix("Created in \(folder.path) (did not exist): authority.pem, "))
        for name in KeptFolder.names {
            #expect(lines[0].contains(name), "\(name)")
            let attributes = try FileManager.default.attributesOfItem(atPath: folder.path + "/" + name)
            let isPublic = ["authority.pem", "server.pem", "provider.pem"].contains(name)
            #expect(attributes[.posixPermissions] as? Int == (isPublic ? 0o644 : 0o600), "\(name)")
        }
        let (second, none) = try await folder.start()
        #expect(none.isEmpty)
        #expect(try folder.contents() == contents)
        #expect(second.server == first.server && second.signer == first.signer)
    }

    @Test func `certificates work with clients that check names, dates and kinds of keys`() async throws {
        let folder = try KeptFolder()
        try await folder.start()
        let (server, provider) = (try folder.certificate("server"), try folder.certificate("provider"))
        let authority = try folder.certificate("authority")
        #expect(
            server.hostNames.sorted() == [
                "127.0.0.1", "::1", "api.development.push.apple.com", "api.push.apple.com",
                "api.sandbox.push.apple.com", "feedback.push.apple.com", "feedback.sandbox.push.apple.com",
                "gateway.push.apple.com", "gateway.sandbox.push.apple.com", "localhost",
            ]
        )
        #expect(server.notAfter - server.notBefore < 825 * KeptFolder.day)
        #expect(provider.notAfter - KeptFolder.now > 9 * 365 * KeptFolder.day)
        #expect(provider.notAfter <= authority.notAfter && server.notAfter <= authority.notAfter)
        #expect(provider.subjectField("UID") == KeptFolder.topic)
        for name in ["provider-combined.pem", "provider-traditional.key.pem"] {
            let text = String(decoding: try folder.read(name), as: UTF8.self)
            #expect(text.contains("-----BEGIN RSA PRIVATE KEY-----"), "\(name)")
        }
        let passphrase = try TLSPassphrase(contentsOf: folder.path + "/passphrase.txt")
        for name in ["provider.p12", "provider-legacy.p12"] {
            let identity = try TLSIdentity(contentsOf: folder.path + "/" + name, passphrase: passphrase)
            #expect(identity.certificate == provider, "\(name)")
        }
        #expect(try TLSIdentity(contentsOf: folder.path + "/provider-combined.pem").certificate == provider)
    }

    @Test(arguments: KeptFolder.names)
    func `a missing file is created, with the files that depend on it and no others`(_ name: String) async throws {
        let folder = try KeptFolder()
        try await folder.start(keyKind: .p256)
        let before = try folder.contents()
        try folder.remove(name)
        let (_, lines) = try await folder.start(keyKind: .p256)
        let after = try folder.contents()
        #expect(after.keys.sorted() == KeptFolder.names)
        let provider = KeptFolder.names.filter { $0.hasPrefix("provider") }
        let changed: [String] =
            switch name {
            case "authority.pem", "authority.key.pem":
                ["authority.key.pem", "authority.pem"] + provider + ["server.key.pem", "server.pem"]
            case "server.pem", "server.key.pem": ["server.key.pem", "server.pem"]
            case "provider.pem", "provider.key.pem": provider
            case "key.p8", "provider.p12", "provider-legacy.p12", "token.key": [name]
            // The new file has the same content.
            default: []
            }
        #expect(KeptFolder.names.filter { before[$0] != after[$0] } == changed)
        #expect(lines.count == 1)
        for name in changed { #expect(lines[0].contains(name), "\(lines)") }
        #expect(lines[0].contains(changed.count > 1 ? "\(name) was missing" : "did not exist"), "\(lines)")
        #expect(try await folder.start(keyKind: .p256).lines.isEmpty)
    }

    @Test func `a certificate that expires soon is renewed`() async throws {
        let folder = try KeptFolder()
        try await folder.start(keyKind: .p256)
        let before = try folder.contents()
        #expect(try await folder.start(now: KeptFolder.now + 700 * KeptFolder.day).lines.isEmpty)
        let (_, lines) = try await folder.start(now: KeptFolder.now + 720 * KeptFolder.day)
        #expect(lines.count == 1 && lines[0].contains("server.pem expires on 20"))
        let renewed = try folder.contents()
        #expect(
            KeptFolder.names.filter { before[$0] != renewed[$0] } == ["server.key.pem", "server.pem"]
        )
        let (_, all) = try await folder.start(now: KeptFolder.now + 3651 * KeptFolder.day)
        #expect(all.count == 1 && all[0].contains("authority.pem expired on 20"), "\(all)")
        let last = try folder.contents()
        #expect(KeptFolder.names.filter { renewed[$0] == last[$0] } == ["key.p8", "passphrase.txt", "token.key"])
    }

    @Test func `a clock that is slow by years is reported, and nothing is created`() async throws {
        let folder = try KeptFolder()
        try await folder.start(keyKind: .p256)
        let failure = try await self.failure(in: folder, now: 1_000_000)
        guard case SimulatorFiles.Failure.notYetValid? = failure.diagnostic.cause else {
            Issue.record("\(failure)")
            return
        }
        #expect(failure.status == .configuration)
    }

    @Test(arguments: KeptFolder.names)
    func `a damaged file is named, and not replaced until it is deleted`(_ name: String) async throws {
        let folder = try KeptFolder()
        try await folder.start(keyKind: .p256)
        let good = try folder.read(name)
        for content in [[], [0xFF, 0xFE, 0x0A], Array(good.prefix(good.count / 2)), Array("x\n".utf8)] {
            try folder.write(name, content)
            let failure = try await self.failure(in: folder)
            #expect(failure.status == .configuration)
            #expect(failure.description.hasPrefix("\(folder.path)/\(name) "), "\(failure)")
            #expect(failure.description.contains("delete it"), "\(failure)")
        }
        try folder.remove(name)
        try await folder.start(keyKind: .p256)
        #expect(try await folder.start().lines.isEmpty)
    }

    /// A key with an intact public part could be opened, and would fail at the first handshake.
    @Test(arguments: [
        "authority.key.pem", "server.key.pem", "provider.key.pem", "provider-combined.pem",
        "provider-traditional.key.pem",
    ]) func `a key with one wrong digit is named`(_ name: String) async throws {
        let folder = try KeptFolder()
        try await folder.start(keyKind: .p256)
        let good = String(decoding: try folder.read(name), as: UTF8.self)
        let key = try #require(good.range(of: "PRIVATE KEY-----\n")).upperBound
        // Within the secret integer, in both formats.
        for offset in stride(from: 50, to: 62, by: 3) {
            let place = good.index(key, offsetBy: offset)
            var text = good
            text.replaceSubrange(place...place, with: good[place] == "A" ? "B" : "A")
            try folder.write(name, Array(text.utf8))
            let failure = try await self.failure(in: folder)
            #expect(failure.description.hasPrefix("\(folder.path)/\(name) "), "\(failure)")
        }
    }

    @Test func `anything but a regular file is named, and does not block`() async throws {
        let folder = try KeptFolder()
        try await folder.start(keyKind: .p256)
        for (name, make) in [("key.p8", { mkfifo($0, 0o600) }), ("server.pem", { mkdir($0, 0o700) })]
            as [(String, (String) -> CInt)]
        {
            try folder.remove(name)
            #expect(make(folder.path + "/" + name) == 0)
            let error = await #expect(throws: CommandFailure.self) { try await folder.start() }
            #expect(error?.status == .configuration && error?.description.contains("/\(name) ") == true)
            try folder.remove(name)
            try await folder.start(keyKind: .p256)
        }
    }

    @Test func `a certificate of another authority and a key of another certificate are not replaced`() async throws {
        let (folder, other) = (try KeptFolder(), try KeptFolder())
        try await folder.start(keyKind: .p256)
        try await other.start(keyKind: .p256)
        let own = try folder.contents()
        let cases: [(files: [String: String], named: String)] = [
            (["server.pem": "server.pem", "server.key.pem": "server.key.pem"], "server.pem was not issued by"),
            (["provider.key.pem": "provider.key.pem"], "provider.key.pem is not the key of provider.pem"),
            (["provider.p12": "provider.p12"], "provider.p12 contains another certificate"),
            (["provider-combined.pem": "provider-combined.pem"], "provider-combined.pem contains another certificate"),
            (["authority.key.pem": "authority.key.pem"], "authority.key.pem is not the key of authority.pem"),
        ]
        for (files, named) in cases {
            for (name, source) in files { try folder.write(name, other.read(source)) }
            let failure = try await self.failure(in: folder)
            #expect(failure.description.contains(named), "\(failure)")
            for name in files.keys { try folder.write(name, own[name] ?? []) }
        }
        #expect(try await folder.start().lines.isEmpty)
    }

    @Test func `a folder with other certificates is not changed`() async throws {
        let issued = try CertificateAuthority().issueClient(topic: KeptFolder.topic)
        let cases: [[String: [UInt8]]] = [
            ["provider.pem": issued.certificatePEM, "provider.key.pem": issued.keyPEM],
            ["provider.key.pem": issued.keyPEM],
            ["server.pem": [1, 2, 3]],
        ]
        for files in cases {
            let folder = try KeptFolder()
            for (name, bytes) in files { try folder.write(name, bytes) }
            let failure = try await self.failure(in: folder)
            #expect(failure.status == .configuration)
            guard case SimulatorFiles.Failure.foreign? = failure.diagnostic.cause else {
                Issue.record("\(failure)")
                return
            }
        }
        // A user's own key is used, and other files are not changed.
        let folder = try KeptFolder()
        let key = try CertificateAuthority.makeKeyPEM(.p256)
        try folder.write("key.p8", key)
        try folder.write("notes.txt", [1])
        let (certificates, _) = try await folder.start(keyKind: .p256)
        #expect(try certificates.signer == ES256PrivateKey(bytes: key))
        #expect(try folder.read("notes.txt") == [1])
    }

    @Test func `changed options renew the affected files`() async throws {
        let folder = try KeptFolder()
        try await folder.start(keyKind: .p256)
        let before = try folder.contents()
        let topic = try await folder.start(topic: KeptFolder.otherTopic, keyKind: .p256)
        #expect(
            topic.lines.count == 1 && topic.lines[0].contains("(--topic is \(KeptFolder.otherTopic)): provider.pem")
        )
        #expect(try folder.certificate("provider").subjectField("UID") == KeptFolder.otherTopic)
        #expect(try folder.read("server.pem") == before["server.pem"])
        let name = try await folder.start(topic: KeptFolder.otherTopic) { $0.serverNames.append("push.test") }
        #expect(name.lines.count == 1 && name.lines[0].contains("(it lacks push.test): server.pem"))
        #expect(try folder.certificate("server").hostNames.contains("push.test"))
        let kind = try await folder.start(topic: KeptFolder.otherTopic, keyKind: .rsa2048)
        #expect(kind.lines.count == 1 && kind.lines[0].contains("--key-type is rsa"), "\(kind.lines)")
        let text = String(decoding: try folder.read("provider-combined.pem"), as: UTF8.self)
        #expect(text.contains("BEGIN RSA PRIVATE KEY"))
        #expect(try folder.read("authority.pem") == before["authority.pem"])
    }

    @Test func `with the user's own server certificate, the folder has none`() async throws {
        let folder = try KeptFolder()
        let (certificates, _) = try await folder.start(keyKind: .p256) { $0.hasOwnServer = false }
        #expect(certificates.server == nil)
        #expect(try folder.contents().keys.sorted() == KeptFolder.names.filter { !$0.hasPrefix("server") })
        let (_, lines) = try await folder.start(keyKind: .p256)
        #expect(lines.count == 1 && lines[0].hasSuffix("(did not exist): server.pem, server.key.pem"), "\(lines)")
    }
}
