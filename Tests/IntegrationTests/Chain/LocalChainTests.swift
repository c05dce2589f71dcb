// SPDX-License-Identifier: Apache-2.0

import Foundation
import TokenStore
import Testing

/// The walk-through of docs/gateway.md: simulator, gateway and provider as processes on one machine.
@Suite(.timeLimit(.minutes(2))) struct LocalChainTests {
    private static let example = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()
        .deletingLastPathComponent().appending(path: "docs/gateway/local.yaml")

    @Test func `a batch of the binary protocol passes through the gateway to HTTP/2, and dead tokens are returned`()
        async throws
    {
        let scene = try SendScene()
        let folder = scene.path("local")
        let (alive, dead, unknown) = (SendScene.token(1), SendScene.token(2), SendScene.token(1_000_000))
        let (simulator, ready) = try await Child.start(
            ["simulator", "--key-type", "ec", "--folder", folder, "--device", alive, "--dead-device", dead],
            log: scene.path("simulator.log")
        )
        defer { simulator.send(SIGKILL) }
        let service = try SimulatorCommandTests.Ready(ready)
        let configuration = try String(contentsOf: Self.example, encoding: .utf8)
            .replacing("port: 12197", with: "port: \(service.http2_port)")
            .replacing("12195", with: "0").replacing("12196", with: "0")
        let file = try scene.write("local.yaml", configuration)
        let (gateway, listening) = try await Child.start(["gateway", "--config", file], log: scene.path("gateway.log"))
        defer { gateway.send(SIGKILL) }
        let ports = GatewayProgram.ports(listening)
        try #require(ports.count == 3 && ports[0] > 0)

        let tokens = try scene.write("tokens.txt", [alive, dead, unknown, alive].map { $0 + "\n" }.joined())
        let provider = [
            "--host", "localhost", "--trust", folder + "/authority.pem", "--certificate", folder + "/provider.pem",
            "--key", folder + "/provider.key.pem",
        ]
        let run = try await scene.start(
            ["send", "--tokens", tokens, "--alert", "hello", "--results", "-", "--port", "\(ports[0])"] + provider
        )
        #expect(run.ending.code == 1, "\(run) \(scene.read("gateway.log"))")
        let lines = try run.lines.sorted { $0.line < $1.line }
        #expect(lines.map(\.line) == [1, 2, 3, 4])
        #expect(lines.map(\.outcome) == ["accepted", "accepted", "rejected", "accepted"])
        #expect(lines[2].token == unknown && lines[2].status == 8)
        #expect(lines.allSatisfy { !$0.isFlagged })

        let drain = try await scene.start(
            [
                "feedback", "--port", "\(ports[1])", "--environment", "sandbox", "--purge-list", scene.purgeList,
                "--output", "text",
            ] + provider
        )
        #expect(drain.ending.code == 0 && drain.output == dead + "\n", "\(drain)")
        #expect(try scene.purged() == [SendScene.bytes(2)])
        for child in [gateway, simulator] {
            child.send(SIGTERM)
            let ending = try await child.end()
            #expect(ending.code == 0 && !ending.isOverdue, "\(ending)")
        }
    }
}
