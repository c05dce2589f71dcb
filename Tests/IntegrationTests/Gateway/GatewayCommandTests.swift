// SPDX-License-Identifier: Apache-2.0

import APNSTestKit
import Foundation
import OpenSSLTLS
import TestSupport
import Testing

/// Goal: `gateway test` describes what a provider would experience, also with its exit code.
@Suite(.timeLimit(.minutes(2))) struct GatewayCommandTests {
    /// A gateway made by `gateway init`, with a simulator.
    private final class Scene: Sendable {
        let send: SendScene
        let device = SendScene.token(1)
        let simulator: Child
        let gateway: Child
        let port: Int
        let feedbackPort: Int

        var folder: String { self.send.path("gateway") }

        init(client: String, dead: String? = nil) async throws {
            let (send, device) = (try SendScene(), self.device)
            self.send = send
            let (simulator, ready) = try await Child.start(
                [
                    "simulator", "--key-type", "ec", "--folder", send.path("local"), "--device", device,
                    "--environment", "production",
                ]
                    + (dead.map { ["--dead-device", $0] } ?? []),
                log: send.path("simulator.log")
            )
            self.simulator = simulator
            let port = try SimulatorCommandTests.Ready(ready).http2_port
            let run = try await CommandRun([
                "gateway", "init", "--folder", send.path("gateway"), "--client", client, "--environment", "production",
                "--upstream-certificate", send.path("local/provider.pem"), "--upstream-key",
                send.path("local/provider.key.pem"), "--upstream-host", "localhost", "--upstream-port", "\(port)",
                "--upstream-trust", send.path("local/authority.pem"),
            ])
            guard run.code == 0 else { throw Child.Failure(description: "\(run)") }
            let file = send.path("gateway/gateway.yaml")
            let yaml =
                try String(contentsOfFile: file, encoding: .utf8)
                .replacing("ort: 2195", with: "ort: 0").replacing("ort: 2196", with: "ort: 0")
                .replacing("port: 9095", with: "port: 0") + "    retry: {budget: 4s}\n"
            try yaml.write(toFile: file, atomically: true, encoding: .utf8)
            let (gateway, listening) = try await Child.start(
                ["gateway", "run", "--config", file],
                log: send.path("gateway.log")
            )
            self.gateway = gateway
            let ports = GatewayProgram.ports(listening)
            self.port = ports[0]
            self.feedbackPort = ports[1]
            // The test finds the metrics there; the running gateway has already read its configuration.
            try yaml.replacing("host: 127.0.0.1\n  port: 0", with: "host: 127.0.0.1\n  port: \(ports[2])")
                .write(toFile: file, atomically: true, encoding: .utf8)
        }

        deinit {
            self.gateway.send(SIGKILL)
            self.simulator.send(SIGKILL)
        }

        func test(_ options: [String], port: Int? = nil) async throws -> CommandRun {
            try await CommandRun(
                ["gateway", "test", "--config", self.folder + "/gateway.yaml", "--port", "\(port ?? self.port)"]
                    + options
            )
        }
    }

    @Test func `a gateway of init delivers, and each obstacle is distinguished`() async throws {
        let scene = try await Scene(client: "node")
        let delivered = try await scene.test(["--token", scene.device])
        #expect(
            delivered.code == 0 && delivered.output.contains("Delivered"),
            "\(delivered) \(scene.send.read("gateway.log"))"
        )
        let proved = try await scene.test([])
        #expect(proved.code == 0 && proved.output.contains("status 8: invalid token"), "\(proved)")
        let refused = try await scene.test(["--token", SendScene.token(1_000_000)])
        #expect(refused.code == 1 && refused.output.contains("Refused with status 8"), "\(refused)")

        let closed = try ReservedPort()
        let unreached = try await scene.test([], port: closed.number)
        #expect(unreached.code == 69 && unreached.output.contains("Could not connect"), "\(unreached)")
        let wrong = try await MistakeServer.greets("SSH-2.0-OpenSSH_9.2p1\r\n").withPort(MistakeScene()) { port in
            try await scene.test([], port: port)
        }
        #expect(wrong.code == 69 && wrong.output.contains("Wrong port: gateway 127.0.0.1:"), "\(wrong)")
        #expect(wrong.output.contains("(it is an SSH server). Name the gateway's port with --port"), "\(wrong)")
        let feedback = try await scene.test([], port: scene.feedbackPort)
        #expect(feedback.code == 75 && feedback.output.contains("is for sending, not feedback"), "\(feedback)")
        let key = scene.send.path("provider.key.pem")
        try String(decoding: SendScene.provider.get().keyPEM, as: UTF8.self)
            .write(toFile: key, atomically: true, encoding: .utf8)
        let trust = try await scene.test(["--trust", key])
        #expect(trust.failed(78, naming: "--trust \(key)"), "\(trust)")
        let untrusted = try await scene.test(["--trust", scene.send.path("local/authority.pem")])
        #expect(untrusted.code == 77 && untrusted.output.contains("Not trusted"), "\(untrusted)")

        let authority = try CertificateAuthority()
        let foreign = try scene.send.write(
            "foreign.pem",
            String(decoding: try authority.issueClient(topic: "com.example.app").pem, as: UTF8.self)
        )
        let shut = try await scene.test(["--certificate", foreign])
        #expect(shut.code == 77 && shut.output.contains("Not let in: no authority of the configuration"), "\(shut)")
    }

    @Test func `a certificate without the name is reported`() async throws {
        let folder = try GatewayProgram.Folder()
        try folder.configure(upstreamPort: 1)
        let gateway = try await GatewayProgram(folder)
        let run = try await CommandRun([
            "gateway", "test", "--config", folder.path("gateway.yaml"), "--port", "\(gateway.port)", "--certificate",
            folder.path("provider.pem"),
        ])
        #expect(run.code == 77 && run.output.contains("Wrong name: "), "\(run)")
        #expect(run.output.contains("gateway.sandbox.push.apple.com"))
    }

    @Test(arguments: ["php", "java", "other"]) func `the certificate of init is found in each format`(
        _ client: String
    ) async throws {
        let scene = try await Scene(client: client)
        let run = try await scene.test([])
        #expect(run.code == 0, "\(run) \(scene.send.read("gateway.log"))")
        let words = client == "php" ? "The service refused the notification" : "status 8: invalid token"
        #expect(run.output.contains(words), "\(run)")
        let delivered = try await scene.test(["--token", scene.device])
        #expect(delivered.code == 0 && delivered.output.contains("Delivered: "), "\(delivered)")
    }

    @Test func `with rejections ignored, a rejection is found by the metrics, and without them nothing is claimed`()
        async throws
    {
        let scene = try await Scene(client: "php")
        let refused = try await scene.test(["--token", SendScene.token(1_000_000)])
        #expect(refused.code == 1 && refused.output.contains("Refused "), "\(refused)")
        let file = scene.folder + "/gateway.yaml"
        let yaml = try String(contentsOfFile: file, encoding: .utf8)
        let start = try #require(yaml.range(of: "admin:"))
        let end = try #require(yaml.range(of: "log:"))
        try yaml.replacingCharacters(in: start.lowerBound..<end.lowerBound, with: "admin: \"off\"\n")
            .write(toFile: file, atomically: true, encoding: .utf8)
        for options in [[], ["--token", scene.device], ["--token", SendScene.token(1_000_000)]] {
            let run = try await scene.test(options)
            #expect(run.code == 75 && run.output.contains("Unknown: the gateway accepted"), "\(run)")
        }
    }

    @Test func `status 10, a dead token and an expired certificate are distinguished`() async throws {
        let scene = try await Scene(client: "node", dead: SendScene.token(2))
        let dead = try await scene.test(["--token", SendScene.token(2)])
        #expect(dead.code == 1 && dead.output.contains("410"), "\(dead)")
        let authority = try CertificateAuthority(
            certificatePEM: Array(Data(contentsOf: URL(filePath: scene.folder + "/authority.pem"))),
            keyPEM: Array(Data(contentsOf: URL(filePath: scene.folder + "/authority.key.pem")))
        )
        let expired = try authority.issueClient(topic: "com.example.app", validity: .expired)
        let path = try scene.send.write("expired.pem", String(decoding: expired.pem, as: UTF8.self))
        let shut = try await scene.test(["--certificate", path])
        #expect(shut.code == 77 && shut.output.contains("Not let in: the certificate of the provider has"), "\(shut)")
        #expect(!shut.output.contains(".."), "\(shut)")
        scene.simulator.send(SIGKILL)
        _ = try await scene.simulator.end()
        var late = try await scene.test([])
        // What was sent before the gateway saw the end of its connection is in doubt, and gets status 1.
        if late.output.contains("status 1:") { late = try await scene.test([]) }
        #expect(late.code == 75 && late.output.contains("could not reach the service before retry.budget"), "\(late)")
        #expect(late.error.contains("Waiting for the gateway"), "\(late)")
    }
}
