// SPDX-License-Identifier: Apache-2.0

import Foundation
import TestSupport
import Testing

/// Goal: files from any program are shown correctly, never with a key, and a damaged one never crashes the process.
@Suite(.timeLimit(.minutes(1))) struct CertificateShowTests {
    /// A certificate with an issuer and a subject like Apple's, created by `openssl`.
    private static func apple(
        _ scene: CertificateScene,
        name: String,
        uid: String,
        extensions: String
    ) async throws -> String {
        let configuration = """
            [req]
            distinguished_name=dn
            [dn]
            [ca]
            basicConstraints=critical,CA:TRUE
            [push]
            basicConstraints=critical,CA:FALSE
            extendedKeyUsage=clientAuth
            \(extensions)
            """
        try scene.write("apple.cnf", configuration.utf8)
        let issuer = "/C=US/O=Apple~Inc./OU=Apple~Worldwide~Developer~Relations/CN=WWDR~Test"
        try await scene.openssl(
            """
            req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout @ca.key -out @ca.pem -days 2
            -subj \(issuer) -config @apple.cnf -extensions ca
            """
        )
        try await scene.openssl(
            """
            req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout @push.key -out @push.csr -subj
            /UID=\(uid)/CN=\(name.replacing(" ", with: "~"))\(uid)/OU=ABCDE12345/O=Example/C=US -config @apple.cnf
            """
        )
        try await scene.openssl(
            """
            x509 -req -in @push.csr -CA @ca.pem -CAkey @ca.key -out @push.pem -days 400 -extfile @apple.cnf
            -extensions push
            """
        )
        return scene.path("push.pem")
    }

    private static let arc = "1.2.840.113635.100.6.3"

    @Test(arguments: [
        ("Apple Development IOS Push Services: ", "com.example.app", "developmentIOS", ".1=ASN1:NULL", ["sandbox"]),
        ("Apple Production IOS Push Services: ", "com.example.app", "productionIOS", ".2=ASN1:NULL", ["production"]),
        (
            "Apple Push Services: ", "com.example.app", "universal", ".1=ASN1:NULL .2=ASN1:NULL",
            ["production", "sandbox"]
        ),
        ("VoIP Services: ", "com.example.app.voip", "voip", ".1=ASN1:NULL .2=ASN1:NULL", ["production", "sandbox"]),
        ("WatchKit Services: ", "com.example.app.complication", "watch", ".2=ASN1:NULL", ["production"]),
        ("Website Push ID: ", "web.com.example", "website", ".2=ASN1:NULL", ["production"]),
        ("Pass Type ID: ", "pass.com.example", "pass", ".2=ASN1:NULL", ["production"]),
        ("APSP:", "com.apple.mgmt.External.1234", "mdm", "", []),
    ])
    func `Apple's kinds are recognized by their content`(
        _ prefix: String,
        _ uid: String,
        _ kind: String,
        _ extensions: String,
        _ environments: [String]
    ) async throws {
        let scene = try CertificateScene()
        let lines = extensions.split(separator: " ").map { Self.arc + $0 }.joined(separator: "\n")
        let path = try await Self.apple(scene, name: prefix, uid: uid, extensions: lines)
        let run = try await scene.run("show \(path) --key @push.key --summary json")
        let file = try #require(try CertificateScene.objects(run).first)
        let certificate = try #require((file["certificates"] as? [[String: Any]])?.first)
        #expect(run.code == 0 && run.error.isEmpty, "\(run)")
        #expect(certificate["kind"] as? String == kind)
        #expect(certificate["topics"] as? [String] == [uid])
        #expect(certificate["team"] as? String == "ABCDE12345")
        #expect(certificate["environments"] as? [String] == environments)
        #expect(certificate["daysLeft"] as? Int == 399)
        #expect(certificate["hasKey"] as? Bool == true)
        #expect(certificate["keyType"] as? String == "EC" && certificate["curve"] as? String == "prime256v1")
        let fingerprint = try await scene.openssl("x509 -in \(path) -noout -fingerprint -sha256")
        let digits = fingerprint.split(separator: "=")[1].lowercased().filter(\.isHexDigit)
        #expect(certificate["fingerprint"] as? String == digits)
    }

    @Test func `topics are in the UID and in both of Apple's extensions`() async throws {
        let scene = try CertificateScene()
        let lines = """
            \(Self.arc).4=ASN1:UTF8String:com.example.app, com.example.app.voip
            \(Self.arc).6=DER:30:0E:0C:05:61:2E:62:2E:63:30:05:0C:03:61:70:70
            """
        let path = try await Self.apple(scene, name: "VoIP Services: ", uid: "com.example.app", extensions: lines)
        let run = try await scene.run("show \(path)")
        #expect(run.output.contains("Topics:       com.example.app, a.b.c, com.example.app.voip\n"), "\(run)")
    }

    @Test func `keys, chains and old files are described, and no key is printed`() async throws {
        let scene = try CertificateScene()
        let path = try await Self.apple(scene, name: "Apple Push Services: ", uid: "com.example.app", extensions: "")
        try scene.write("all.pem", try scene.read("push.pem") + scene.read("ca.pem") + scene.read("push.key"))
        let all = try await scene.run("show @all.pem")
        #expect(all.code == 0)
        #expect(all.output.hasPrefix("\(scene.path("all.pem")): PEM, 2 certificates, 1 private key\n"), "\(all)")
        #expect(all.output.contains("Issuer:       certificate 2, CN=WWDR Test,"), "\(all)")
        #expect(all.output.contains("Issuer:       itself\n"))
        #expect(all.output.contains("Private key: EC, 256 bits (prime256v1), the key of certificate 1\n"))
        let wrong = try await scene.run("show \(path) --key @ca.key")
        #expect(wrong.output.contains("MATCHES NO certificate of this file"))
        let request = try await scene.run("show @push.csr")
        #expect(request.output.contains("Also in it: CERTIFICATE REQUEST, from which"), "\(request)")
        let key = try await scene.run("show @push.key")
        #expect(key.output.contains("without a certificate; is it an Apple .p8 key?"))
        for form in ["-certpbe PBE-SHA1-RC2-40 -keypbe PBE-SHA1-3DES -macalg SHA1 -legacy", ""] {
            let words = ["pkcs12", "-export", "-in", path, "-inkey", scene.path("push.key"), "-passout", "pass:x"]
            let options = form.split(separator: " ").map(String.init)
            let target = ["-out", scene.path("old.p12")]
            _ = try await Program.run("/usr/bin/openssl", words + options + target, deadlineSeconds: 30)
            let locked = try await scene.run("show @old.p12")
            #expect(locked.code == 1 && locked.output.contains("add --passphrase-file FILE"), "\(locked)")
            let cipher =
                form.isEmpty
                ? "certificates AES-256 (2,048 iterations), key AES-256 (2,048 iterations), checksum SHA256"
                : "certificates RC2-40 (2,048 iterations), key 3DES (2,048 iterations), checksum SHA1"
            #expect(locked.output.contains("Encryption: " + cipher), "\(locked)")
            try scene.write("wrong", "y\n".utf8)
            let refused = try await scene.run("show @old.p12 --passphrase-file @wrong")
            #expect(refused.code == 1 && refused.output.contains("the passphrase does not decrypt it"), "\(refused)")
            try scene.write("right", "x\n".utf8)
            let open = try await scene.run("show @old.p12 --passphrase-file @right")
            #expect(open.code == 0 && open.output.contains("the key of certificate 1"), "\(open)")
            for run in [all, locked, open] { #expect(!run.output.contains("BEGIN")) }
        }
        try await scene.openssl("ec -in @push.key -aes128 -passout pass:x -out @locked.key")
        let locked = try await scene.run("show \(path) --key @locked.key")
        #expect(locked.code == 1 && locked.output.contains("Private key: encrypted, and no passphrase"), "\(locked)")
        try await scene.openssl("x509 -in \(path) -outform DER -out @push.der")
        #expect(try await scene.run("show @push.der").output.contains("DER, 1 certificate\n"))
    }

    @Test func `a file without a certificate is reported in one line`() async throws {
        let scene = try CertificateScene()
        for (name, text, code) in [("empty", "", 78), ("text", "hello\n", 78), ("no-such", nil, 66)]
            as [(String, String?, Int32)]
        {
            if let text { try scene.write(name, text.utf8) }
            let run = try await scene.run("show @\(name)")
            #expect(run.code == code && run.output.isEmpty && run.error.count { $0 == "\n" } == 1, "\(run)")
            #expect(run.error.contains(scene.path(name)))
        }
    }

    @Test func `no flipped bit crashes the process`() async throws {
        let scene = try CertificateScene()
        try scene.write("passphrase", "x\n".utf8)
        try await scene.create("new authority --key-type ec --output @authority")
        try await scene.create(
            """
            new client --key-type ec --topic a.b --authority @authority.pem --authority-key @authority.key.pem
            --output @p --p12 legacy --passphrase-file @passphrase
            """
        )
        try scene.write("p-all.pem", try scene.read("p.pem") + scene.read("p.key.pem"))
        let words = ["--passphrase-file", scene.path("passphrase")]
        for name in ["p-legacy.p12", "p-all.pem"] {
            let good = try scene.read(name)
            for index in TestEffort.cases(Array(good.indices), each: 41) {
                var bytes = good
                bytes[index] ^= 1 << UInt8(index % 8)
                let path = try scene.write("damaged", bytes)
                let shown = try await CommandRun(["certificate", "show", path, "--summary", "json"] + words)
                #expect([0, 1, 78].contains(shown.code), "\(name) \(index): \(shown)")
                let checked = try await CommandRun(["certificate", "check", path] + words)
                #expect([0, 1, 2].contains(checked.code) && !checked.output.isEmpty, "\(name) \(index): \(checked)")
            }
        }
    }
}
