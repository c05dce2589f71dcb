// SPDX-License-Identifier: Apache-2.0

import APNSSimulator
import APNSWire
import Foundation
import TestSupport
import Testing

/// The snippets on sending, each as a process of its own beside a simulator.
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

    @Test func `one by one, each has its outcome`() async throws {
        let arguments = self.arguments
        try await SendScene.withGateway { simulator in
            let tokens = [1, 1_000_000, 2].map(SendScene.token)
            let printed = try await Self.run("SendOneByOne", arguments(simulator.gatewayPort) + tokens)
            #expect(printed == "cccccccc... accepted\ncccccccc... rejected(8 (invalid token))\ncccccccc... accepted\n")
            #expect(try simulator.count(1) == 1 && simulator.count(2) == 1)
        }
    }

    @Test func `of a sequence, those with dead tokens are told by their identifiers`() async throws {
        let arguments = self.arguments
        try await SendScene.withGateway { simulator in
            let tokens = [1, 2, 1_000_000, 3, 1_000_001].map(SendScene.token)
            let printed = try await Self.run("SendASequence", arguments(simulator.gatewayPort) + tokens)
            #expect(printed == "forget user2\nforget user4\n")
            #expect(try (1...3).allSatisfy { try simulator.count($0) == 1 })
        }
    }

    @Test func `over HTTP2, the program is the same`() async throws {
        let (scene, provider) = (self.scene, self.scene.path("provider.pem"))
        try await SendScene.withGateway { simulator in
            let first = ["localhost", "\(simulator.pushPort)", scene.path("ca.pem"), SendScene.token(1)]
            let printed = try await Self.run("SendOverHTTP2", first + [provider, provider])
            #expect(printed == "accepted\n")
            #expect(try simulator.count(1) == 1)
        }
    }

    @Test func `a service sends until there is a signal, and proves what it sent`() async throws {
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
