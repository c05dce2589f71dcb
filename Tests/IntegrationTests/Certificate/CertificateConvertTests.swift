// SPDX-License-Identifier: Apache-2.0

import Foundation
import TestSupport
import Testing

/// Goal: a converted file contains the same certificates and key, and nothing is lost silently.
@Suite(.timeLimit(.minutes(1))) struct CertificateConvertTests {
    /// A provider certificate of an intermediate authority, in PEM and as an old .p12.
    private static func makeFiles(_ scene: CertificateScene) async throws {
        try scene.write("old", "old secret\n".utf8)
        try scene.write("new", "new secret\n".utf8)
        try await scene.create("new authority --key-type ec --output @authority")
        try await scene.create(
            """
            new client --topic com.example.app --authority @authority.pem --authority-key @authority.key.pem
            --output @provider
            """
        )
        try await scene.openssl(
            """
            pkcs12 -export -legacy -in @provider.pem -inkey @provider.key.pem -certfile @authority.pem -certpbe
            PBE-SHA1-RC2-40 -keypbe PBE-SHA1-3DES -macalg SHA1 -passout file:\(scene.path("old")) -out @old.p12
            """
        )
    }

    @Test func `every format converts to every other, and openssl reads it`() async throws {
        let scene = try CertificateScene()
        try await Self.makeFiles(scene)
        try await scene.create("convert @old.p12 @modern.p12 --passphrase-file @old --output-passphrase-file @new")
        try await scene.create("convert @modern.p12 @legacy.p12 --form legacy --passphrase-file @new")
        try await scene.create("convert @legacy.p12 @plain.pem --passphrase-file @new")
        try await scene.create("convert @plain.pem @locked.pem --form pem --output-passphrase-file @old")
        try await scene.create("convert @locked.pem @again.p12 --passphrase-file @old")
        // Without -legacy, OpenSSL 3 reads modern files and Triple DES.
        for (name, passphrase) in [("modern.p12", "new"), ("legacy.p12", "new"), ("again.p12", "old")] {
            let pem = try await scene.openssl("pkcs12 -in @\(name) -passin file:\(scene.path(passphrase)) -nodes")
            #expect(pem.split(separator: "-----BEGIN CERTIFICATE").count == 3, "\(name)")
            try scene.write("out.pem", pem.utf8)
            for (command, key) in [("x509", "provider.pem"), ("pkey", "provider.key.pem")] {
                let form = command == "x509" ? ["-fingerprint", "-noout"] : ["-pubout"]
                let words = [command, "-in"]
                let mine = try await Program.run(
                    "/usr/bin/openssl",
                    words + [scene.path("out.pem")] + form,
                    deadlineSeconds: 9
                )
                let theirs = try await Program.run(
                    "/usr/bin/openssl",
                    words + [scene.path(key)] + form,
                    deadlineSeconds: 9
                )
                #expect(mine == theirs, "\(name)")
            }
        }
        #expect(try scene.mode("plain.pem") == 0o600)
        let locked = String(decoding: try scene.read("locked.pem"), as: UTF8.self)
        #expect(locked.contains("BEGIN ENCRYPTED PRIVATE KEY") && !locked.contains("BEGIN PRIVATE KEY"))
    }

    @Test func `old programs read the legacy format`() async throws {
        let scene = try CertificateScene()
        try await Self.makeFiles(scene)
        try await scene.create("convert @old.p12 @new.p12 --form legacy --passphrase-file @old")
        let shown = try await scene.run("show @new.p12 --passphrase-file @old")
        #expect(shown.output.contains("certificates 3DES") && shown.output.contains("checksum SHA1"), "\(shown)")
        #expect(shown.output.contains("Read by: programs from before 2018, and current ones"))
        guard FileManager.default.isExecutableFile(atPath: "/usr/bin/keytool") else { return }
        let listed = try await Program.run(
            "/usr/bin/keytool",
            ["-list", "-storetype", "PKCS12", "-keystore", scene.path("new.p12"), "-storepass", "old secret"],
            deadlineSeconds: 30
        )
        #expect(String(decoding: listed, as: UTF8.self).contains("PrivateKeyEntry"))
    }

    @Test func `a conversion that would lose something is rejected in one line`() async throws {
        let scene = try CertificateScene()
        try await Self.makeFiles(scene)
        let (old, out) = (scene.path("old"), scene.path("x.p12"))
        func run(_ words: [String]) async throws -> CommandRun {
            try await CommandRun(["certificate", "convert"] + words)
        }
        let cases: [([String], Int32, String)] = [
            ([scene.path("provider.pem"), out, "--passphrase-file", old], 78, "no private key in it"),
            (
                [scene.path("provider.pem"), out, "--key", scene.path("authority.key.pem"), "--passphrase-file", old],
                78,
                "belongs to no certificate"
            ),
            ([scene.path("provider.key.pem"), out, "--passphrase-file", old], 78, "no certificate in it"),
            (
                [scene.path("old.p12"), out, "--passphrase-file", scene.path("new")], 78,
                "the passphrase does not decrypt"
            ),
            ([scene.path("old.p12"), scene.path("y.pem")], 78, "add --passphrase-file"),
            ([scene.path("no such"), out, "--passphrase-file", old], 66, "no such"),
            ([scene.path("old.p12"), out], 64, "--output-passphrase-file"),
            ([scene.path("old.p12"), scene.path("out"), "--passphrase-file", old], 64, "--form"),
            ([scene.path("old.p12"), scene.path("provider.pem"), "--passphrase-file", old], 73, "already exists"),
        ]
        for (words, code, text) in cases {
            let result = try await run(words)
            #expect(result.code == code && result.error.contains(text), "\(words): \(result)")
            if code != 64 { #expect(result.error.count { $0 == "\n" } == 1, "\(result)") }
        }
        #expect(!FileManager.default.fileExists(atPath: out))
    }
}
