// SPDX-License-Identifier: Apache-2.0

import Foundation
import Testing

/// `apns-legacy simulator` as a process, with `apns-legacy send` against both of its fronts.
@Suite(.timeLimit(.minutes(2))) struct SimulatorCommandTests {
    private struct Ports: Decodable {
        var gateway_port: Int
        var http2_port: Int
        var key_id: String
        var team_id: String
    }

    @Test func `both fronts take a batch with the files that were written, until SIGTERM`() async throws {
        let scene = try SendScene()
        let folder = scene.path("simulator")
        let dead = SendScene.token(9)
        let streams = Child.Streams(output: scene.path("ports"), error: scene.path("talk"))
        let child = try Child(["simulator", "--folder", folder, "--dead-device", dead], streams, deadline: 90)
        defer { child.send(SIGKILL) }
        var ports: Ports?
        for _ in 0..<2000 where ports == nil && !child.hasEnded {
            ports = try? JSONDecoder().decode(Ports.self, from: Data(scene.read("ports").utf8))
            if ports == nil { try await Task.sleep(for: .milliseconds(10)) }
        }
        let found = try #require(ports, "\(scene.read("talk"))")
        let path = try scene.write("batch.jsonl", [1, 9, 3].map { SendScene.line($0) }.joined())
        let common = ["send", path, "--results", "-", "--host", "localhost", "--trust", folder + "/authority.pem"]
        let identity = ["--certificate", folder + "/provider.pem", "--key", folder + "/provider.key.pem"]
        let key = [
            "--p8-key", folder + "/key.p8", "--key-id", found.key_id, "--team-id", found.team_id, "--topic",
            "com.example.app",
        ]
        let http2 = ["--transport", "http2", "--port", "\(found.http2_port)"]
        let binary = try await scene.run(common + identity + ["--port", "\(found.gateway_port)"])
        #expect(try binary.lines.map(\.outcome) == ["accepted", "accepted", "accepted"], "\(binary.error)")
        for proof in [identity, key] {
            let run = try await scene.run(common + proof + http2)
            #expect(run.ending.code == 1, "\(run.error)")
            let lines = try run.lines.sorted { $0.line < $1.line }
            #expect(lines.map(\.status) == [nil, 410, nil])
        }
        let mode = try FileManager.default.attributesOfItem(atPath: folder + "/key.p8")[.posixPermissions] as? Int
        #expect(mode == 0o600)
        child.send(SIGTERM)
        #expect(try await child.end().code == 0)
    }
}
