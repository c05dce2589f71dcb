// SPDX-License-Identifier: Apache-2.0

import APNSTestKit
import Foundation
import Testing

/// Sequential, concurrent and interrupted starts of `apns-legacy simulator` with one folder.
@Suite(.timeLimit(.minutes(2)), .serialized) struct SimulatorStartTests {
    typealias Ready = SimulatorCommandTests.Ready

    /// Runs the simulator until `body` is done, and returns its output.
    private func withSimulator(
        _ scene: SendScene,
        _ options: [String] = [],
        _ body: (Ready) async throws -> Void
    ) async throws -> String {
        let arguments = ["simulator", "--folder", scene.path("simulator")] + options
        let (child, line) = try await Child.start(arguments, log: scene.path("log"))
        defer { child.send(SIGKILL) }
        try await body(try Ready(line))
        child.send(SIGTERM)
        #expect(try await child.end().code == 0)
        return scene.read("log")
    }

    /// Sends a notification over both protocols, and checks the exit code.
    private func send(
        _ scene: SendScene,
        _ ports: Ready,
        trust: String,
        identity: [String],
        expecting code: Int32 = 0
    ) async throws {
        let path = try scene.write("batch.jsonl", SendScene.line(1))
        let common = ["send", path, "--results", "-", "--host", "localhost", "--trust", trust] + identity
        let binary = try await scene.run(common + ["--port", "\(ports.gateway_port)"])
        let http2 = try await scene.run(common + ["--port", "\(ports.http2_port)", "--transport", "http2"])
        #expect(binary.ending.code == code && http2.ending.code == code, "\(binary) \(http2)")
    }

    @Test func `each topic has its own certificate`() async throws {
        let scene = try SendScene()
        let options = ["--topic", "com.example.one", "--topic", "com.example.two", "--verbose", "--key-type", "ec"]
        let log = try await self.withSimulator(scene, options) { ports in
            for name in ["provider", "com.example.two.provider"] {
                let certificate = ["--certificate", scene.path("simulator/\(name)-combined.pem")]
                try await self.send(
                    scene,
                    ports,
                    trust: scene.path("simulator/authority.pem"),
                    identity: certificate
                )
            }
        }
        // Over both protocols.
        for topic in ["com.example.one", "com.example.two"] {
            let lines = log.split(separator: "\n").filter { $0.contains("accepted") && $0.contains(topic) }
            #expect(lines.count == 2, "\(log)")
        }
        let refused = try await scene.run(["simulator", "--topic", "../one", "--folder", scene.path("simulator")])
        #expect(refused.ending.code == 64)
    }

    @Test func `without a folder, one in the user's state folder is used`() async throws {
        let scene = try SendScene()
        let states = scene.path("states")
        let (child, _) = try await Child.start(
            ["XDG_STATE_HOME=" + states, try Child.program, "simulator", "--key-type", "ec"],
            program: "/usr/bin/env",
            log: scene.path("log")
        )
        defer { child.send(SIGKILL) }
        child.send(SIGTERM)
        #expect(try await child.end().code == 0)
        #expect(FileManager.default.fileExists(atPath: states + "/apns-legacy/simulator/provider.pem"))
        #expect(scene.read("log").contains("are in \(states)/apns-legacy/simulator."))
    }

    @Test func `a client's files from the first start work at the second one`() async throws {
        let scene = try SendScene()
        let first = try await self.withSimulator(scene) { _ in }
        #expect(first.hasPrefix("Created in \(scene.path("simulator")) (did not exist): authority.pem, "))
        // A client has copies.
        for name in ["authority.pem", "provider-combined.pem", "key.p8"] {
            let bytes = try Data(contentsOf: URL(filePath: scene.path("simulator/" + name)))
            try scene.write("copy-" + name, Array(bytes))
        }
        let second = try await self.withSimulator(scene) { ports in
            let trust = scene.path("copy-authority.pem")
            let certificate = ["--certificate", scene.path("copy-provider-combined.pem")]
            try await self.send(scene, ports, trust: trust, identity: certificate)
            let path = try scene.write("batch.jsonl", SendScene.line(2))
            let run = try await scene.run([
                "send", path, "--results", "-", "--host", "localhost", "--port", "\(ports.http2_port)", "--trust",
                trust, "--transport", "http2", "--p8-key", scene.path("copy-key.p8"), "--key-id", ports.key_id,
                "--team-id", ports.team_id, "--topic", "com.example.app",
            ])
            #expect(run.ending.code == 0, "\(run)")
        }
        #expect(!second.contains("Created in"))
    }

    @Test func `a start that is killed at any time does not affect the next one`() async throws {
        let scene = try SendScene()
        let options = ["--key-type", "ec"]
        let arguments = ["simulator", "--folder", scene.path("simulator")] + options
        for milliseconds in stride(from: 10, through: 130, by: 15) {
            try? FileManager.default.removeItem(atPath: scene.path("simulator"))
            let child = try Child(arguments, Child.Streams(error: scene.path("killed")))
            child.send(SIGKILL, after: .milliseconds(milliseconds))
            #expect(try await child.end().signal == SIGKILL)
            _ = try await self.withSimulator(scene, options) { _ in }
        }
    }

    @Test func `two simulators that start at the same time serve the same clients`() async throws {
        let scene = try SendScene()
        let folder = scene.path("simulator")
        func start(_ log: String) async throws -> (child: Child, line: String) {
            try await Child.start(["simulator", "--key-type", "ec", "--folder", folder], log: scene.path(log))
        }
        async let first = start("first")
        async let second = start("second")
        let children = try await [first, second]
        defer { for child in children { child.child.send(SIGKILL) } }
        for child in children {
            try await self.send(
                scene,
                try Ready(child.line),
                trust: folder + "/authority.pem",
                identity: ["--certificate", folder + "/provider-combined.pem"]
            )
        }
        let makers = ["first", "second"].filter { scene.read($0).contains("Created in") }
        #expect(makers.count == 1)
    }

    @Test func `the user's own certificates are used and admitted`() async throws {
        let scene = try SendScene()
        let authority = try CertificateAuthority(name: "Of the user")
        let trust = try scene.write("own.pem", authority.certificatePEM)
        let server = try authority.issueServer()
        let certificate = try scene.write("server.pem", server.certificatePEM)
        let key = try scene.write("server.key.pem", server.encryptedKeyPEM(passphrase: "secret"))
        let passphrase = try scene.write("passphrase.txt", "secret\n")
        let own = ["--certificate", try scene.write("client.pem", authority.issueClient(topic: SendScene.topic).pem)]
        let kept = ["--certificate", scene.path("simulator/provider-combined.pem")]
        let shown = [
            "--key-type", "ec", "--server-certificate", certificate, "--server-key", key, "--server-passphrase-file",
            passphrase,
        ]
        let log = try await self.withSimulator(scene, shown) { ports in
            try await self.send(scene, ports, trust: trust, identity: kept)
            try await self.send(scene, ports, trust: trust, identity: own, expecting: 77)
            let folder = scene.path("simulator/authority.pem")
            try await self.send(scene, ports, trust: folder, identity: kept, expecting: 77)
        }
        #expect(!log.contains("server.pem"))
        _ = try await self.withSimulator(scene, shown + ["--client-authority", trust]) { ports in
            try await self.send(scene, ports, trust: trust, identity: own)
            try await self.send(scene, ports, trust: trust, identity: kept, expecting: 77)
        }
    }

    @Test func `unusable files end the command with one line and an exit code`() async throws {
        let scene = try SendScene()
        let folder = scene.path("simulator")
        _ = try await self.withSimulator(scene, ["--key-type", "ec"]) { _ in }
        let file = try scene.write("file", "x")
        let cases: [(arguments: [String], code: Int32, text: String)] = [
            (["--folder", file], 73, file), (["--folder", file + "/none"], 73, file + "/none"),
            (["--folder", folder, "--client-authority", file], 78, "--client-authority \(file): "),
            (["--folder", folder, "--server-certificate", file], 78, "--server-certificate \(file): "),
            (["--folder", folder, "--server-certificate", scene.path("none")], 78, scene.path("none")),
        ]
        for (arguments, code, text) in cases {
            let run = try await scene.run(["simulator"] + arguments)
            #expect(run.failed(code, naming: text), "\(arguments): \(run)")
            #expect(run.error.split(separator: "\n").count == 1 && run.output.isEmpty)
        }
        for arguments in [["--server-key", file], ["--tls-min", "1.4"], ["--key-type", "dsa"]] {
            let run = try await scene.run(["simulator", "--folder", folder] + arguments)
            #expect(run.ending.code == 64, "\(run)")
        }
        try scene.write("simulator/key.p8", "x")
        let run = try await scene.run(["simulator", "--folder", folder])
        #expect(run.failed(78, naming: "\(folder)/key.p8"), "\(run.error)")
    }
}
