// SPDX-License-Identifier: Apache-2.0

import APNSTestKit
import Foundation
import TestSupport
import Testing

/// Goal: every problem is found, with an exit code for monitoring.
@Suite(.timeLimit(.minutes(1))) struct CertificateCheckTests {
    private static let issuing = "--authority @authority.pem --authority-key @authority.key.pem --key-type ec"

    /// An authority, a server certificate and a provider certificate.
    private static func makeScene() async throws -> CertificateScene {
        let scene = try CertificateScene()
        try scene.write("passphrase", "x\n".utf8)
        try await scene.create("new authority --key-type ec --output @authority")
        try await scene.create("new server --name gateway.example --output @server \(self.issuing)")
        try await scene.create(
            """
            new client --topic com.example.app --environment production --days 40 --output @provider \(self.issuing)
            --p12 modern --passphrase-file @passphrase
            """
        )
        return scene
    }

    /// Runs a check, and compares the exit code and the first line.
    private static func expect(
        _ scene: CertificateScene,
        _ line: String,
        _ code: Int32,
        _ text: String,
        now: Int64? = nil,
        location: SourceLocation = #_sourceLocation
    ) async throws {
        let run = try await scene.run("check \(line)", now: now)
        let first = run.output.prefix { $0 != "\n" }
        #expect(run.code == code && first.contains(text), "\(run)", sourceLocation: location)
        let word = ["OK ", "WARNING ", "CRITICAL "][Int(min(code, 2))]
        #expect(code > 2 || first.hasPrefix(word), "\(run)", sourceLocation: location)
    }

    @Test func `a good certificate is reported with its purpose`() async throws {
        let scene = try await Self.makeScene()
        let good = "for com.example.app, 39 days left"
        try await Self.expect(scene, "@provider.pem --key @provider.key.pem", 0, good)
        try await Self.expect(scene, "@provider.p12 --passphrase-file @passphrase", 0, good)
        try await Self.expect(
            scene,
            "@provider.pem --topic com.example.app --environment production --trust @authority.pem",
            0,
            good
        )
        try await Self.expect(
            scene,
            "@server.pem --name gateway.example --trust @authority.pem",
            0,
            "gateway.example, 823"
        )
        try await Self.expect(scene, "@authority.pem", 0, "an authority, which issues certificates, 3,649 days left")
        let quiet = try await scene.run("check @provider.pem @no-such.pem --quiet")
        #expect(quiet.code == 2 && quiet.output.split(separator: "\n").count == 1, "\(quiet)")
        let silent = try await scene.run("check @provider.pem -q")
        #expect(silent.code == 0 && silent.output.isEmpty && silent.error.isEmpty, "\(silent)")
    }

    @Test func `all certificates of a bundle are checked`() async throws {
        let scene = try await Self.makeScene()
        try await scene.create("new authority --key-type ec --output @short --days 40 --name Short")
        try scene.write("bundle.pem", try scene.read("authority.pem") + scene.read("short.pem"))
        try await Self.expect(scene, "@bundle.pem", 0, "2 certificates of authorities; the first of them to end has 39")
        let later = Int64(time(nil)) + 60 + 41 * 86_400
        try await Self.expect(scene, "@bundle.pem", 2, "certificate 2 (CN=Short) expired on", now: later)
        try await scene.openssl(
            "req -x509 -nodes -newkey rsa:1024 -keyout @weak.key -out @weak.pem -days 90 -subj /CN=Weak"
        )
        try scene.write("weak-bundle.pem", try scene.read("authority.pem") + scene.read("weak.pem"))
        try await Self.expect(scene, "@weak-bundle.pem", 2, "certificate 2 (CN=Weak): its RSA key has 1024 bits")
    }

    @Test func `a self-issued provider certificate is not an authority`() async throws {
        let scene = try await Self.makeScene()
        try await scene.openssl(
            "req -x509 -nodes -newkey rsa:2048 -keyout @old.key -out @old.pem -days 90 -subj /UID=a.b/CN=Push"
        )
        try await Self.expect(scene, "@old.pem", 0, "a provider's certificate, not issued by Apple, for a.b, 89 days")
    }

    @Test func `a file of many certificates is checked quickly, and too many are rejected`() async throws {
        let scene = try await Self.makeScene()
        let (authority, provider) = (try scene.read("authority.pem"), try scene.read("provider.pem"))
        let some = [[UInt8]](repeating: provider, count: 400).flatMap(\.self)
        try scene.write("many.pem", some + authority)
        let start = processorTime()
        let shown = try await scene.run("show @many.pem --summary json")
        #expect(shown.code == 0 && shown.output.contains(#""issuerNumber":401"#), "\(shown.error)")
        #expect(processorTime() - start < .seconds(10))
        let line = Array("-----BEGIN X-----\nAAAA\n-----END X-----\n".utf8)
        try scene.write("more.pem", [[UInt8]](repeating: line, count: 10_001).flatMap(\.self))
        try await Self.expect(scene, "@more.pem", 2, "it contains more than 10,000 certificates and keys")
    }

    @Test func `the users who can read a key are reported`() async throws {
        let scene = try await Self.makeScene()
        chmod(scene.path("provider.p12"), 0o644)
        try await Self.expect(
            scene,
            "@provider.p12 --passphrase-file @passphrase",
            1,
            "only the passphrase keeps its private key from them"
        )
        try await scene.openssl("pkcs12 -export -nokeys -in @provider.pem -passout pass:x -out @bare.p12")
        chmod(scene.path("bare.p12"), 0o644)
        let bare = try await scene.run("check @bare.p12 --passphrase-file @passphrase")
        #expect(!bare.output.contains("every user"), "\(bare)")
    }

    @Test func `dates are compared with the clock and the warning period`() async throws {
        let scene = try await Self.makeScene()
        let (now, day) = (Int64(time(nil)) + 60, Int64(86_400))
        try await Self.expect(scene, "@provider.pem --warn-days 50", 1, "expires on 2")
        try await Self.expect(scene, "@provider.pem", 1, "in 19 days; get a new one", now: now + 20 * day)
        try await Self.expect(scene, "@provider.pem", 2, "expired on 2", now: now + 41 * day)
        try await Self.expect(scene, "@provider.pem", 2, "is not valid before", now: now - 2 * day)
        try scene.write("chain.pem", try scene.read("provider.pem") + scene.read("authority.pem"))
        let chain = try await scene.run("check @chain.pem", now: now + 3651 * day)
        #expect(
            chain.code == 2 && chain.output.contains("certificate 2 (CN=apns-legacy authority) expired"),
            "\(chain)"
        )
    }

    @Test func `keys and passphrases are checked`() async throws {
        let scene = try await Self.makeScene()
        try await Self.expect(scene, "@provider.p12", 2, "add --passphrase-file FILE")
        try scene.write("wrong", "y\n".utf8)
        try await Self.expect(scene, "@provider.p12 --passphrase-file @wrong", 2, "does not decrypt it")
        try await Self.expect(scene, "@provider.pem --key @server.key.pem", 2, "does not belong to the certificate")
        try await Self.expect(scene, "@provider.pem --key @server.pem", 2, "no private key in")
        try await Self.expect(scene, "@provider.key.pem", 2, "there is no certificate in it")
        try await Self.expect(scene, "@no-such.pem", 2, "cannot read")
        try scene.write("text", "hello".utf8)
        try await Self.expect(scene, "@text", 2, "not PEM, PKCS#12 or DER, or damaged")
        chmod(scene.path("provider.key.pem"), 0o644)
        try await Self.expect(scene, "@provider.pem --key @provider.key.pem", 1, "every user of this machine can read")
        try await scene.openssl("pkcs12 -export -nokeys -in @provider.pem -passout pass:x -out @bare.p12")
        chmod(scene.path("bare.p12"), 0o600)
        try await Self.expect(scene, "@bare.p12 --passphrase-file @passphrase", 2, "it contains no private key")
    }

    @Test func `topics, environments, names and chains are checked`() async throws {
        let scene = try await Self.makeScene()
        try await Self.expect(scene, "@provider.pem --topic com.example.other", 2, "it is for com.example.app; give")
        try await Self.expect(scene, "@provider.pem --environment sandbox", 2, "it is for production")
        try await Self.expect(scene, "@server.pem --topic a.b", 2, "it names no topic")
        try await Self.expect(scene, "@server.pem --name other.example", 2, "it is for gateway.example; issue one")
        try await Self.expect(scene, "@provider.pem --name gateway.example", 2, "not for the host")
        try await scene.create("new authority --key-type ec --output @other --name Other")
        try await Self.expect(scene, "@provider.pem --trust @other.pem", 2, "its issuer is CN=apns-legacy authority")
        try scene.write("broken.pem", try scene.read("provider.pem") + scene.read("other.pem"))
        try await Self.expect(scene, "@broken.pem", 2, "whose certificate belongs into the file")
        // Another authority with the same name is a different authority.
        try await scene.create("new authority --key-type ec --output @twin")
        try scene.write("twin-chain.pem", try scene.read("provider.pem") + scene.read("twin.pem"))
        try await Self.expect(scene, "@twin-chain.pem", 2, "none of its other certificates has issued its own")
        let unusable = try await scene.run("check @provider.pem --trust @passphrase")
        #expect(unusable.failed(78, naming: "--trust \(scene.path("passphrase"))"), "\(unusable)")
        let authority = try CertificateAuthority()
        try scene.write("bare.pem", try authority.issueServer(names: []).certificatePEM)
        try await Self.expect(scene, "@bare.pem", 2, "no subject alternative names")
    }

    @Test func `files that OpenSSL 3 or old programs reject are found`() async throws {
        let scene = try await Self.makeScene()
        let request = "req -x509 -nodes -keyout @weak.key -out @weak.pem -days 90 -subj /UID=a.b/CN=a.b"
        try await scene.openssl("\(request) -newkey rsa:1024")
        try await Self.expect(
            scene,
            "@weak.pem",
            2,
            "its RSA key has 1024 bits, and OpenSSL 3 of Debian and Ubuntu refuses"
        )
        try await scene.openssl(
            "req -new -nodes -newkey rsa:2048 -keyout @sha1.key -out @sha1.csr -subj /UID=a.b/CN=a.b"
        )
        try await scene.openssl(
            """
            x509 -req -in @sha1.csr -CA @authority.pem -CAkey @authority.key.pem -sha1 -days 90 -out @sha1.pem
            """
        )
        try await Self.expect(scene, "@sha1.pem", 2, "ecdsa-with-SHA1, which OpenSSL 3 refuses")
        try await Self.expect(
            scene,
            "@provider.p12 --passphrase-file @passphrase --readers old",
            2,
            "certificate convert --form legacy"
        )
        try await scene.openssl(
            """
            pkcs12 -export -legacy -certpbe PBE-SHA1-RC2-40 -macalg SHA1 -in @provider.pem -inkey @provider.key.pem
            -passout pass:x -out @old.p12
            """
        )
        chmod(scene.path("old.p12"), 0o600)
        try await Self.expect(scene, "@old.p12 --passphrase-file @passphrase", 1, "certificate convert --form modern")
        try await Self.expect(scene, "@old.p12 --passphrase-file @passphrase --readers old", 0, "39 days left")
    }

    @Test func `several files are reported, the worst first, in text and JSON`() async throws {
        let scene = try await Self.makeScene()
        let run = try await scene.run("check @server.pem @provider.pem @no-such.pem --warn-days 60 --summary json")
        #expect(run.code == 2)
        let objects = try CertificateScene.objects(run)
        #expect(objects.map { $0["severity"] as? String } == ["critical", "warning", "ok"])
        #expect(objects.map { $0["code"] as? String } == ["unreadable", "expiresSoon", "good"])
        #expect(objects.map { $0["place"] as? String }[1] == scene.path("provider.pem"))
        for line in [
            "", "@a @b --key @c", "@a @b --connect a:1", "@a --connect a", "--connect a:99999", "@a --warn-days -1",
        ] {
            #expect(try await scene.run("check \(line)").code == 64, "\(line)")
        }
    }
}
