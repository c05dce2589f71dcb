// SPDX-License-Identifier: Apache-2.0

import APNSTestKit
import Foundation
import TestSupport
import Testing

/// The validation of options of `apns-legacy simulator`.
@Suite(.timeLimit(.minutes(2))) struct SimulatorServiceOptionsTests {
    @Test(
        arguments: [
            ["--revoked", "ff"], ["--connection-limit", "20"], ["--connection-limit", "0/1m"],
            ["--device-limit", "1/x"], ["--connection-block", "5m"], ["--idle-timeout", "0"],
            ["--zero-identifier", "twice"], ["--feedback-after", "0"],
        ]
    )
    func `invalid combinations are rejected`(_ options: [String]) async throws {
        let scene = try SendScene()
        let run = try await scene.run(["simulator", "--folder", scene.path("simulator")] + options)
        #expect(run.ending.code == 64, "\(run.error)")
        #expect(!FileManager.default.fileExists(atPath: scene.path("simulator")))
    }

    @Test func `options are applied`() async throws {
        let scene = try SendScene()
        let folder = scene.path("simulator")
        let arguments = [
            "simulator", "--key-type", "ec", "--folder", folder, "--strict-payload-limit", "--strict-priority",
            "--device-limit", "1/1h",
            "--zero-identifier",
            "never", "--connection-limit", "1000/1m", "--connection-block", "1m", "--revoked",
            String(repeating: "AB:", count: 31) + "ab", "--limit-streams", "--require-alpn",
            "--strict-token-signature", "--feedback-after", "2",
        ]
        let (child, line) = try await Child.start(arguments, log: scene.path("log"))
        defer { child.send(SIGKILL) }
        let found = try SimulatorCommandTests.Ready(line)
        let text = String(repeating: "x", count: 300)
        let path = try scene.write("batch.jsonl", SendScene.line(1, text: text) + SendScene.line(2))
        let identity = ["--certificate", folder + "/provider.pem", "--key", folder + "/provider.key.pem"]
        let run = try await scene.run(
            ["send", path, "--results", "-", "--host", "localhost", "--port", "\(found.gateway_port)"]
                + ["--trust", folder + "/authority.pem"] + identity
        )
        #expect(run.ending.code == 1, "\(run.error)")
        #expect(try run.lines.sorted { $0.line < $1.line }.map(\.status) == [7, nil])
        var statuses: [String] = []
        for options in [["--http2"], ["--http2"], ["--http2-prior-knowledge", "--no-alpn"]] {
            let printed = try? await Program.run(
                "/usr/bin/env",
                ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "--max-time", "20", "-d", "{}"] + options
                    + ["--cacert", folder + "/authority.pem", "--cert", folder + "/provider.pem"]
                    + ["--key", folder + "/provider.key.pem"]
                    + ["https://localhost:\(found.http2_port)/3/device/\(SendScene.token(3))"],
                deadlineSeconds: 30
            )
            statuses.append(String(decoding: printed ?? Data("refused".utf8), as: UTF8.self))
        }
        #expect(statuses == ["200", "429", "refused"])
        child.send(SIGTERM)
        #expect(try await child.end().code == 0)
    }
}
