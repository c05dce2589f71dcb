// SPDX-License-Identifier: Apache-2.0

import APNSSimulator
import APNSTestKit
import Foundation
import TestSupport
import Testing

/// Goal: an input or an option that is wrong leaves one line and no files, and a batch without notifications is named.
@Suite(.timeLimit(.minutes(1))) struct SendRefusalTests {
    let scene: SendScene

    init() throws { self.scene = try SendScene() }

    private func send(_ arguments: [String]) async throws -> SendScene.Run {
        let scene = self.scene
        return try await SendScene.withGateway { try await scene.send(arguments, port: $0.gatewayPort) }
    }

    // MARK: Refused

    @Test func `a header that is refused leaves the results of the last run, and no journal`() async throws {
        let path = try self.scene.write("bad.csv", "tokens,load\n1,2\n")
        try self.scene.write("results.jsonl", "old\n")
        let files = ["--results", self.scene.path("results.jsonl"), "--journal", self.scene.path("journal")]
        let run = try await self.send([path] + files)
        #expect(run.failed(65, at: path, line: 1), "\(run)")
        #expect(run.error.split(separator: "\n").count == 1, "\(run.error)")
        #expect(self.scene.read("results.jsonl") == "old\n")
        #expect(!FileManager.default.fileExists(atPath: self.scene.path("journal")))
    }

    @Test func `a header from a pipe that is refused leaves the results of the last run`() async throws {
        try self.scene.write("results.jsonl", "old\n")
        let ends = try SendExitTests.pipe()
        let text = Array("tokens,load\n1,2\n".utf8)
        #expect(text.withUnsafeBytes { write(ends.writing, $0.baseAddress, $0.count) } == text.count)
        close(ends.writing)
        let words = ["send", "-", "--format", "csv", "--results", self.scene.path("results.jsonl")]
        let run = try await self.scene.run(words + self.scene.endpoint(1), input: ends.reading)
        close(ends.reading)
        #expect(run.ending.code == 65 && self.scene.read("results.jsonl") == "old\n", "\(run)")
    }

    @Test(arguments: ["trust", "client"])
    func `an error of TLS is one line`(_ kind: String) async throws {
        let path = try self.scene.write("a.jsonl", (1...3).map { SendScene.line($0) }.joined())
        let other = try CertificateAuthority(name: "Another")
        let option =
            kind == "trust"
            ? ["--trust", try self.scene.write("other.pem", other.certificatePEM)]
            : ["--certificate", try self.scene.write("own.pem", other.issueClient(topic: SendScene.topic).pem)]
        let run = try await self.send([path] + option)
        #expect(run.ending.code == 77 && run.error.split(separator: "\n").count == 1, "\(run)")
    }

    // MARK: Nothing to send

    @Test(arguments: [
        ("a.jsonl", "", "empty"), ("a.csv", "token,payload\n", "notifications"), ("a.jsonl", "\n\n", "notifications"),
    ])
    func `a batch without notifications is a warning and exit code 0`(
        _ name: String,
        _ text: String,
        _ what: String
    ) async throws {
        let path = try self.scene.write(name, text)
        for more in [[], ["--dry-run"]] {
            let run = try await self.scene.send([path] + more, port: 1)
            #expect(run.ending.code == 0, "\(run)")
            #expect(run.warned(naming: path, what) && run.diagnostics.count == 1, "\(run.error)")
        }
        let json = try await self.scene.send([path, "--log-format", "json"], port: 1)
        #expect(try json.messages.map(\.level) == ["warning"], "\(json)")
        let quiet = try await self.scene.send([path, "--quiet"], port: 1)
        #expect(quiet.ending.code == 0 && quiet.error.isEmpty)
    }

    @Test func `an empty compressed batch is empty`() async throws {
        try self.scene.write("a.jsonl", "")
        _ = try await Program.run("/bin/gzip", [self.scene.path("a.jsonl")], deadlineSeconds: 20)
        let path = self.scene.path("a.jsonl.gz")
        let run = try await self.scene.send([path], port: 1)
        #expect(run.ending.code == 0 && run.warned(naming: path, "empty"), "\(run)")
    }

    // MARK: Levels

    @Test func `an invalid line is a warning in JSON`() async throws {
        let path = try self.scene.write("a.jsonl", SendScene.line(1) + String(repeating: "{}\n", count: 12))
        let run = try await self.send([path, "--log-format", "json"])
        let lines = run.error.split(separator: "\n")
        #expect(lines.count { $0.contains("\"level\":\"warning\"") && $0.contains("\"line\":") } == 10, "\(run.error)")
        #expect(lines.count { $0.contains("\"level\":\"warning\"") } == 11, "\(run.error)")
        let header = try self.scene.write("bad.csv", "tokens,load\n1,2\n")
        let refused = try await self.send([header, "--log-format", "json"])
        #expect(refused.error.contains("\"level\":\"error\"") && refused.error.contains("\"line\":1"), "\(refused)")
    }
}
