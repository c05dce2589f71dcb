// SPDX-License-Identifier: Apache-2.0

import APNSTestKit
import Foundation
import Testing

/// `apns-legacy simulator` as a process, with `apns-legacy send` and `feedback` against its listeners.
@Suite(.timeLimit(.minutes(2))) struct SimulatorCommandTests {
    /// The line that the command prints when it listens.
    struct Ready: Decodable {
        var gateway_port: Int
        var feedback_port: Int
        var http2_port: Int
        var control_port: Int
        var key_id: String
        var team_id: String

        init(_ line: String) throws { self = try JSONDecoder().decode(Ready.self, from: Data(line.utf8)) }
    }

    @Test func `all three listeners serve with the files that were written, until SIGTERM`() async throws {
        let scene = try SendScene()
        let folder = scene.path("simulator")
        let dead = SendScene.token(9)
        let arguments = ["simulator", "--key-type", "ec", "--folder", folder, "--dead-device", dead]
        let (child, line) = try await Child.start(arguments, log: scene.path("log"))
        defer { child.send(SIGKILL) }
        let found = try Ready(line)
        let path = try scene.write("batch.jsonl", [1, 9, 3].map { SendScene.line($0) }.joined())
        let common = ["--host", "localhost", "--trust", folder + "/authority.pem"]
        let send = ["send", path, "--results", "-"] + common
        let identity = ["--certificate", folder + "/provider.pem", "--key", folder + "/provider.key.pem"]
        let key = [
            "--p8-key", folder + "/key.p8", "--key-id", found.key_id, "--team-id", found.team_id, "--topic",
            "com.example.app",
        ]
        let http2 = ["--transport", "http2", "--port", "\(found.http2_port)"]
        let binary = try await scene.run(send + identity + ["--port", "\(found.gateway_port)"])
        #expect(try binary.lines.map(\.outcome) == ["accepted", "accepted", "accepted"], "\(binary.error)")
        let feedback = ["feedback", "--purge-list", scene.purgeList, "--output", "text"] + common + identity
        let drain = try await scene.run(feedback + ["--port", "\(found.feedback_port)"])
        #expect(drain.ending.code == 0 && drain.output == dead + "\n", "\(drain)")
        for proof in [identity, key] {
            let run = try await scene.run(send + proof + http2)
            #expect(run.ending.code == 1, "\(run.error)")
            let lines = try run.lines.sorted { $0.line < $1.line }
            #expect(lines.map(\.status) == [nil, 410, nil])
        }
        for name in ["key.p8", "provider.key.pem", "provider.p12", "server.key.pem"] {
            let attributes = try FileManager.default.attributesOfItem(atPath: folder + "/" + name)
            #expect(attributes[.posixPermissions] as? Int == 0o600, "\(name)")
        }
        let second = try await scene.run([
            "simulator", "--key-type", "ec", "--folder", folder, "--gateway-port", "\(found.gateway_port)",
        ])
        #expect(second.failed(69, port: found.gateway_port), "\(second.error)")
        child.send(SIGTERM)
        #expect(try await child.end().code == 0)
        #expect(scene.read("log").contains("Stopping: "))
    }

    @Test func `a wrong key or topic adds nothing to the purge list`() async throws {
        let scene = try SendScene()
        let folder = scene.path("simulator")
        let dead = SendScene.token(9)
        let arguments = [
            "simulator", "--key-type", "ec", "--folder", folder, "--dead-device", dead, "--device", SendScene.token(1),
        ]
        let (child, line) = try await Child.start(arguments, log: scene.path("log"))
        defer { child.send(SIGKILL) }
        let found = try Ready(line)
        let wrong = try scene.write("wrong.p8", try SendScene.provider.get().keyPEM)
        // A dead device, one without the app, and an unknown token.
        let lines = [SendScene.line(9), SendScene.line(5), "{\"token\":\"01\",\"payload\":{\"aps\":{}}}\n"]
        let path = try scene.write("batch.jsonl", lines.joined())
        try scene.addDead([])
        func send(_ key: String, topic: String) async throws -> SendScene.Run {
            try await scene.run([
                "send", path, "--transport", "http2", "--results", "-", "--host", "localhost", "--port",
                "\(found.http2_port)", "--trust", folder + "/authority.pem", "--p8-key", key, "--key-id", found.key_id,
                "--team-id", found.team_id, "--topic", topic, "--purge-list", scene.purgeList, "--purge-environment",
                "sandbox", "--purge-rejected",
            ])
        }
        for (key, topic, reason) in [
            (wrong, SendScene.topic, "403 InvalidProviderToken"),
            (folder + "/key.p8", "org.example", "400 TopicDisallowed"),
        ] {
            let run = try await send(key, topic: topic)
            #expect(run.ending.code == 77 && run.error.contains(reason), "\(run)")
            #expect(try run.lines.allSatisfy { $0.outcome == "unsent" })
            #expect(try scene.purged().isEmpty)
        }
        let run = try await send(folder + "/key.p8", topic: SendScene.topic)
        #expect(run.ending.code == 1, "\(run)")
        #expect(
            try run.lines.sorted { $0.line < $1.line }.map(\.reason) == [
                "Unregistered", "BadDeviceToken", "BadDeviceToken",
            ]
        )
        #expect(try scene.purged().contains(SendScene.bytes(9)))
    }
}
