// SPDX-License-Identifier: Apache-2.0

import APNSSimulator
import APNSTestKit
import APNSWire
import Foundation
import TestSupport
import Testing

extension SendScene {
    static let passphrase = "example"

    /// Writes the certificate and the key in the formats that providers use.
    func writeIdentities() throws {
        let provider = try Self.provider.get()
        try self.write("passphrase.txt", Self.passphrase + "\n")
        try self.write("provider.key.pem", provider.keyPEM)
        try self.write("provider.p12", provider.pkcs12(passphrase: Self.passphrase))
        try self.write("provider-legacy.p12", provider.pkcs12(passphrase: Self.passphrase, form: .rc2))
    }
}

/// The snippets about sending, each as a separate process with a simulator.
@Suite(.timeLimit(.minutes(2))) struct ClientSnippetTests {
    let scene: SendScene

    init() throws { self.scene = try SendScene() }

    private func arguments(_ port: Int) -> [String] {
        let provider = self.scene.path("provider.pem")
        return ["localhost", "\(port)", provider, provider, self.scene.path("ca.pem")]
    }

    private static func run(_ name: String, _ arguments: [String]) async throws -> String {
        let data = try await Program.run(try Child.program(named: name), arguments, deadlineSeconds: 60)
        return String(decoding: data, as: UTF8.self)
    }

    @Test func `notifications sent one by one have their outcomes`() async throws {
        let scene = self.scene
        try scene.writeIdentities()
        try await SendScene.withGateway { simulator in
            let tokens = [1, 1_000_000, 2].map(SendScene.token)
            let words = ["localhost", "\(simulator.gatewayPort)", scene.folder] + tokens
            let printed = try await Self.run("SendOneByOne", words)
            #expect(printed == "cccccccc... accepted\ncccccccc... rejected: 8 (invalid token)\ncccccccc... accepted\n")
            #expect(try simulator.count(1) == 1 && simulator.count(2) == 1)
        }
    }

    @Test func `in a sequence, dead tokens are reported with their identifiers`() async throws {
        let arguments = self.arguments
        try await SendScene.withGateway { simulator in
            let tokens = [1, 2, 1_000_000, 3, 1_000_001].map(SendScene.token)
            let printed = try await Self.run("SendASequence", arguments(simulator.gatewayPort) + tokens)
            #expect(printed == "forget user2\nforget user4\n")
            #expect(try (1...3).allSatisfy { try simulator.count($0) == 1 })
        }
    }

    @Test func `an outcome arrives before its deadline, and a sequence ends early`() async throws {
        let arguments = self.arguments
        try await SendScene.withGateway { simulator in
            let words = arguments(simulator.gatewayPort)
            let good = try await Self.run("SendInTime", words + [SendScene.token(1)])
            let bad = try await Self.run("SendInTime", words + [SendScene.token(1_000_000)])
            let batch = try await Self.run("EndABatch", words + (1...3).map(SendScene.token))
            #expect(
                good == "accepted\n" && bad == "not accepted\n" && batch == "3 of 3\n3 of 3 before the cancellation\n"
            )
        }
    }

    @Test func `a batch is sent from the event loop`() async throws {
        let arguments = self.arguments
        try await SendScene.withGateway(change: { $0.acceptsUnknownTokens = true }) { simulator in
            let printed = try await Self.run("SendABatch", arguments(simulator.gatewayPort) + ["1000"])
            #expect(printed == "[\"accepted\": 1000]\n")
            #expect(simulator.statistics.processedCount == 1000)
        }
    }

    /// If the second certificate is for another app, the token is not valid for it.
    @Test(arguments: [(SendScene.topic, "accepted"), ("com.example.other", "rejected: 8 (invalid token)")])
    func `after a certificate is replaced, the new one is used`(
        _ topic: String,
        _ outcome: String
    ) async throws {
        let scene = self.scene
        let renewed = try scene.write("renewed.pem", SendScene.authority.get().issueClient(topic: topic).pem)
        try await SendScene.withGateway { simulator in
            let words = ["localhost", "\(simulator.gatewayPort)", scene.path("ca.pem"), SendScene.token(1)]
            let printed = try await Self.run("RenewTheIdentity", words + [scene.path("provider.pem"), renewed])
            #expect(printed == "accepted\n\(outcome)\n")
        }
    }

    @Test func `the program with the calls of other libraries sends, and reads feedback`() async throws {
        let scene = self.scene
        try scene.writeIdentities()
        try await SendScene.withGateway { simulator in
            let dead = try DeviceToken(SendScene.token(2))
            simulator.remove(dead)
            // The feedback service lists it after a notification was sent to it over the binary protocol.
            let binary = ["localhost", "\(simulator.gatewayPort)", scene.folder, dead.hexadecimal]
            let printed = try await Self.run("SendOneByOne", binary)
            #expect(printed == "cccccccc... accepted\n")

            let ports = ["\(simulator.http2Port)", "\(simulator.feedbackPort)"]
            let words = ["localhost"] + ports + [scene.folder, SendScene.token(1)]
            let lines = try await Self.run("CallsOfOtherLibraries", words).split(separator: "\n")
            #expect(lines.count == 2 && lines.first == "accepted", "\(lines)")
            #expect(lines.last?.hasPrefix("\(dead.hexadecimal) since ") == true, "\(lines)")
        }
    }

    @Test func `over HTTP2, a key also works`() async throws {
        let scene = self.scene
        let provider = try SendScene.provider.get()
        let key = try scene.write("key.p8", provider.keyPEM)
        let publicKey = try ES256PrivateKey(bytes: provider.keyPEM).publicKey
        let change = { @Sendable (configuration: inout SimulatorConfiguration) in
            configuration.http2.tokenKeys = ["KEY0000001": .init(key: publicKey, teamID: "TEAM000001")]
        }
        try await SendScene.withGateway(change: change) { simulator in
            let first = ["localhost", "\(simulator.http2Port)", scene.path("ca.pem"), SendScene.token(1)]
            let words = first + [key, "KEY0000001", "TEAM000001", SendScene.topic]
            let printed = try await Self.run("SendOverHTTP2", words)
            #expect(printed == "accepted\n")
            #expect(try simulator.count(1) == 1)
        }
    }

    @Test func `over HTTP2, the program is the same`() async throws {
        let (scene, provider) = (self.scene, self.scene.path("provider.pem"))
        try await SendScene.withGateway { simulator in
            let first = ["localhost", "\(simulator.http2Port)", scene.path("ca.pem"), SendScene.token(1)]
            let printed = try await Self.run("SendOverHTTP2", first + [provider, provider])
            #expect(printed == "accepted\n")
            #expect(try simulator.count(1) == 1)
        }
    }

    @Test func `a channel is created, updated and deleted`() async throws {
        let (scene, provider) = (self.scene, self.scene.path("provider.pem"))
        try await SendScene.withGateway { simulator in
            let words = ["localhost", "\(simulator.http2Port)", scene.path("ca.pem"), provider, provider]
            let printed = try await Self.run("BroadcastAScore", words + [SendScene.topic])
            #expect(printed == "final, goal 1: accepted\nfinal, goal 2: accepted\n0 channels\n")
            #expect(simulator.receivedNotifications.count == 2)
        }
    }

    @Test func `a service sends until a signal, and verifies what it sent`() async throws {
        let (scene, arguments) = (self.scene, self.arguments)
        try await SendScene.withGateway { simulator in
            let streams = Child.Streams(output: scene.path("out"), error: scene.path("err"))
            let words = arguments(simulator.gatewayPort) + [SendScene.token(1)]
            let child = try Child(words, streams, program: Child.program(named: "RunAsAService"))
            _ = try await simulator.next(for: try DeviceToken(SendScene.token(1)), within: .seconds(30))
            child.send(SIGTERM)
            let ending = try await child.end()
            #expect(ending.code == 0, "\(scene.read("err"))")
            let lines = scene.read("out").split(separator: "\n")
            #expect(lines.allSatisfy { $0 == "accepted" }, "\(lines)")
            #expect(try simulator.count(1) == lines.count)
        }
    }
}
