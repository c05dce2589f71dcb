// SPDX-License-Identifier: Apache-2.0

import Foundation
import TestSupport
import Testing

/// Goal: independent programs load the files that the simulator writes, verify its certificate with each of its names,
/// and can connect.
///
/// Method: each sends two notifications over the binary protocol, the second one for an unknown device, and prints the
/// error response.
@Suite(.timeLimit(.minutes(3)), .serialized) struct SimulatorPeerTests {
    /// The response to the second notification, which shows that the first one was accepted.
    static let answer = "080800000002"
    static let names = [
        "localhost", "127.0.0.1", "gateway.push.apple.com", "gateway.sandbox.push.apple.com",
        "feedback.push.apple.com", "feedback.sandbox.push.apple.com", "api.push.apple.com",
        "api.sandbox.push.apple.com", "api.development.push.apple.com",
    ]
    private static let (good, bad) = (SendScene.token(1), SendScene.token(1_000_000))

    /// Whether a program is installed.
    static func isInstalled(_ program: String) -> Bool {
        let folders = (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":")
        return folders.contains { FileManager.default.isExecutableFile(atPath: "\($0)/\(program)") }
    }

    /// The files of a first start, since creating RSA keys takes a while.
    private static let files = Task { () throws -> SendScene in
        let scene = try SendScene()
        let arguments = ["simulator", "--folder", scene.path("simulator")]
        let (child, _) = try await Child.start(arguments, log: scene.path("log"))
        child.send(SIGTERM)
        #expect(try await child.end().code == 0)
        return scene
    }

    /// Copies the files of a first start.
    static func copyFiles(to folder: String) async throws {
        try FileManager.default.copyItem(atPath: try await Self.files.value.path("simulator"), toPath: folder)
    }

    /// A simulator with one device, and its folder.
    static func withSimulator(
        _ options: [String] = [],
        _ body: (_ folder: String, _ ports: SimulatorCommandTests.Ready) async throws -> Void
    ) async throws {
        let scene = try SendScene()
        let folder = scene.path("simulator")
        try await Self.copyFiles(to: folder)
        let arguments = ["simulator", "--folder", folder, "--device", Self.good] + options
        let (child, line) = try await Child.start(arguments, log: scene.path("log"))
        defer { child.send(SIGKILL) }
        try await body(folder, try SimulatorCommandTests.Ready(line))
        child.send(SIGTERM)
        #expect(try await child.end().code == 0)
    }

    private static func run(_ words: [String]) async throws -> String {
        String(decoding: try await Program.run("/usr/bin/env", words, deadlineSeconds: 60), as: UTF8.self)
    }

    /// The output of a program of Tests/Interop/Folder, with a line for each certificate format that it supports.
    private func expect(_ interpreter: String, _ program: String, by names: [String], formCount: Int) async throws {
        let programs = URL(filePath: PythonProvider.script).deletingLastPathComponent()
        let script = programs.appending(path: "Folder/\(program)")
        try await Self.withSimulator { folder, ports in
            for name in names {
                let words = [interpreter, script.path, folder, "\(ports.gateway_port)", name, Self.good, Self.bad]
                let lines = try await Self.run(words).split(separator: "\n").map(String.init)
                #expect(lines == Array(repeating: Self.answer, count: formCount), "\(name)")
            }
        }
    }

    @Test(.enabled(if: isInstalled("python3"), "python3 is not installed"))
    func `Python loads each PEM file and verifies strictly by each name`() async throws {
        try await self.expect("python3", "client.py", by: Self.names, formCount: 1)
    }

    @Test(.enabled(if: isInstalled("java"), "java is not installed"))
    func `Java loads both PKCS#12 files and verifies by name`() async throws {
        try await self.expect("java", "Client.java", by: ["gateway.sandbox.push.apple.com"], formCount: 2)
    }

    @Test(.enabled(if: isInstalled("php"), "php is not installed"))
    func `PHP loads the combined file and verifies by name`() async throws {
        try await self.expect("php", "client.php", by: ["localhost", "gateway.push.apple.com"], formCount: 1)
    }

    @Test(.enabled(if: isInstalled("ruby"), "ruby is not installed"))
    func `Ruby loads the old PKCS#12 file and the RSA key`() async throws {
        try await self.expect("ruby", "client.rb", by: ["localhost", "gateway.push.apple.com"], formCount: 3)
    }

    @Test(.enabled(if: isInstalled("node"), "node is not installed"))
    func `Node loads both PKCS#12 files and the PEM files`() async throws {
        try await self.expect("node", "client.cjs", by: ["localhost", "gateway.push.apple.com"], formCount: 4)
    }

    @Test func `curl loads PKCS#12 and PEM and verifies by Apple's names over HTTP/2`() async throws {
        try await Self.withSimulator { folder, ports in
            let identities = [
                ["--cert", folder + "/provider-combined.pem"],
                ["--cert-type", "P12", "--cert", folder + "/provider.p12:simulator"],
                ["--cert-type", "P12", "--cert", folder + "/provider-legacy.p12:simulator"],
            ]
            for (identity, name) in zip(identities, Self.names.filter { $0.hasPrefix("api.") }) {
                for (token, status) in [(Self.good, "200"), (Self.bad, "400")] {
                    let host = "\(name):\(ports.http2_port)"
                    let answer = try await Self.run(
                        [
                            "curl", "-s", "--http2", "--max-time", "20", "--cacert", folder + "/authority.pem",
                            "--resolve", host + ":127.0.0.1", "-d", #"{"aps":{}}"#, "-o", "/dev/null", "-w",
                            "%{http_version} %{http_code}", "https://\(host)/3/device/\(token)",
                        ] + identity
                    )
                    #expect(answer == "2 \(status)", "\(identity)")
                }
            }
        }
    }

    /// The description of a handshake by `openssl s_client`, or that it failed.
    private func handshake(
        _ folder: String,
        _ port: Int,
        _ certificate: String,
        _ options: [String]
    ) async throws -> String {
        try await Self.run(
            [
                "openssl", "s_client", "-connect", "127.0.0.1:\(port)", "-cert", certificate, "-key", certificate,
                "-CAfile", folder + "/authority.pem", "-verify_return_error", "-verify_hostname",
                "feedback.push.apple.com", "-x509_strict",
            ] + options
        )
    }

    @Test func `openssl reads the old PKCS#12 file with and without its legacy provider`() async throws {
        try await Self.withSimulator { folder, ports in
            for legacy in [[], ["-legacy"]] {
                let pem = folder + "/from-p12.pem"
                _ = try await Self.run(
                    ["openssl", "pkcs12"] + legacy + [
                        "-in", folder + "/provider-legacy.p12", "-passin", "file:" + folder + "/passphrase.txt",
                        "-nodes", "-out", pem,
                    ]
                )
                let said = try await self.handshake(folder, ports.gateway_port, pem, [])
                #expect(said.contains("Verification: OK") && said.contains("TLSv1.2"), "\(said)")
            }
        }
    }

    @Test(arguments: [("1.0", "-tls1", "TLSv1"), ("1.1", "-tls1_1", "TLSv1.1"), ("1.3", "-tls1_3", "TLSv1.3")])
    func `an option sets the minimum version`(minimum: String, option: String, protocol version: String)
        async throws
    {
        // OpenSSL 3 offers the old versions only at security level 0.
        let options = [option, "-cipher", "ALL:@SECLEVEL=0"]
        try await Self.withSimulator(["--tls-min", minimum]) { folder, ports in
            for port in [ports.gateway_port, ports.feedback_port] {
                let said = try await self.handshake(folder, port, folder + "/provider-combined.pem", options)
                // Under TLS 1.3, this is in another line.
                let isSpoken = said.contains("Protocol  : \(version)\n") || said.contains("New, \(version),")
                #expect(said.contains("Verification: OK") && isSpoken, "\(said)")
            }
            let http2 = try? await self.handshake(
                folder,
                ports.http2_port,
                folder + "/provider-combined.pem",
                options + ["-alpn", "h2"]
            )
            // HTTP/2 requires TLS 1.2.
            #expect((http2 != nil) == (minimum == "1.3"))
        }
        try await Self.withSimulator { folder, ports in
            await #expect(throws: (any Error).self) {
                try await self.handshake(folder, ports.gateway_port, folder + "/provider-combined.pem", options)
            }
        }
    }
}
