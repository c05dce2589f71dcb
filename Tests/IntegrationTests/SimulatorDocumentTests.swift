// SPDX-License-Identifier: Apache-2.0

import Foundation
import Testing
import TestSupport

/// Goal: the samples for the simulator in docs/ work unchanged.
@Suite(.timeLimit(.minutes(2))) struct SimulatorDocumentTests {
    /// A code block with a file name after its language.
    private struct Sample {
        var name: String
        var text: String
    }

    private static func document(_ name: String) throws -> String {
        let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        return try String(contentsOf: root.appending(path: "docs/\(name)"), encoding: .utf8)
    }

    private static func samples() throws -> [Sample] {
        try Self.document("simulator-tests.md").matches(of: #/(?s)```\w+ ([\w.]+)\n(.*?)\n```/#).map {
            Sample(name: String($0.1), text: String($0.2) + "\n")
        }
    }

    private static func isInstalled(_ name: String) -> Bool {
        ["/usr/bin", "/usr/local/bin", "/bin"].contains { folder in
            FileManager.default.isExecutableFile(atPath: "\(folder)/\(name)")
        }
    }

    /// The interpreters of samples by file name extension.
    private static let interpreters: [(ending: String, command: [String])] = [
        (".sh", ["sh"]), (".py", ["python3"]), (".php", ["php", "-d", "display_errors=stderr"]),
        (".mjs", ["node", "--test"]), (".rb", ["ruby"]), (".java", ["java"]),
    ]

    private static func run(_ name: String) async throws {
        let samples = try Self.samples()
        let scene = try SendScene()
        for sample in samples { _ = try scene.write(sample.name, sample.text) }
        let folder = scene.path("simulator")
        try await SimulatorPeerTests.copyFiles(to: folder)
        let (child, line) = try await Child.start(
            ["simulator", "--key-type", "ec", "--folder", folder],
            log: scene.path("log")
        )
        defer { child.send(SIGKILL) }
        let port = try SimulatorCommandTests.Ready(line).control_port
        let interpreter = try #require(Self.interpreters.first { name.hasSuffix($0.ending) })
        let command = (interpreter.command + [name]).joined(separator: " ")
        let work = URL(filePath: scene.path(name)).deletingLastPathComponent().path
        _ = try await Program.run(
            "/usr/bin/env",
            ["SIMULATOR=http://127.0.0.1:\(port)", "FOLDER=\(folder)", "sh", "-ec", "cd '\(work)' && exec \(command)"],
            deadlineSeconds: 60
        )
        // The sample passes only if something arrived.
        let found = try await Program.run(
            "/usr/bin/env",
            ["curl", "--silent", "--fail", "http://127.0.0.1:\(port)/notifications"],
            deadlineSeconds: 10
        )
        #expect(String(decoding: found, as: UTF8.self).contains(#""body":"Hello""#))
    }

    @Test func `each language has a sample`() throws {
        let names = try Self.samples().map(\.name)
        #expect(
            names == [
                "send.sh", "test.sh", "test_push.py", "test.php", "push.test.mjs", "test_push.rb", "PushTest.java",
            ]
        )
    }

    @Test(arguments: ["test.sh", "test_push.py"])
    func `the sample works`(_ name: String) async throws { try await Self.run(name) }

    @Test(.enabled(if: Self.isInstalled("php"), "php is not installed"))
    func `the sample in PHP works`() async throws { try await Self.run("test.php") }

    @Test(.enabled(if: Self.isInstalled("node"), "node is not installed"))
    func `the sample in JavaScript works`() async throws { try await Self.run("push.test.mjs") }

    @Test(.enabled(if: Self.isInstalled("ruby"), "ruby is not installed"))
    func `the sample in Ruby works`() async throws { try await Self.run("test_push.rb") }

    @Test(.enabled(if: Self.isInstalled("javac"), "a JDK is not installed"))
    func `the sample in Java works`() async throws { try await Self.run("PushTest.java") }

    @Test func `a sample fails if nothing arrives`() async throws {
        let scene = try SendScene()
        for sample in try Self.samples() {
            _ = try scene.write(sample.name, sample.name == "send.sh" ? "exit 0\n" : sample.text)
        }
        try await SimulatorPeerTests.copyFiles(to: scene.path("simulator"))
        let arguments = ["simulator", "--folder", scene.path("simulator")]
        let (child, line) = try await Child.start(arguments, log: scene.path("log"))
        defer { child.send(SIGKILL) }
        let port = try SimulatorCommandTests.Ready(line).control_port
        let work = URL(filePath: scene.path("test.sh")).deletingLastPathComponent().path
        await #expect(throws: Program.Failure.self) {
            _ = try await Program.run(
                "/usr/bin/env",
                ["SIMULATOR=http://127.0.0.1:\(port)", "sh", "-ec", "cd '\(work)' && exec sh test.sh"],
                deadlineSeconds: 30
            )
        }
    }

    @Test func `the example of faults is accepted, and each of them occurs`() async throws {
        let text = try Self.document("simulator.md")
        let yaml = try #require(text.firstMatch(of: #/(?s)<!-- faults example.*?```yaml\n(.*?)```/#)?.1)
        let scene = try SendScene()
        let enabled = yaml.replacing("isEnabled: false", with: "isEnabled: true")
        let file = try scene.write("faults.yaml", String(enabled))
        try await SimulatorPeerTests.copyFiles(to: scene.path("simulator"))
        let arguments = ["simulator", "--folder", scene.path("simulator"), "--faults", file]
        let (child, line) = try await Child.start(arguments, log: scene.path("log"))
        defer { child.send(SIGKILL) }
        let ready = try SimulatorCommandTests.Ready(line)
        let tokens = (0..<12).map { _ in SendScene.line(1) } + [SendScene.line(0xff)]
        let path = try scene.write("batch.jsonl", tokens.joined())
        let folder = scene.path("simulator")
        let common = [
            "send", path, "--host", "localhost", "--trust", folder + "/authority.pem", "--certificate",
            folder + "/provider.pem", "--key", folder + "/provider.key.pem",
        ]
        _ = try await scene.run(common + ["--port", "\(ready.gateway_port)"])
        _ = try await scene.run(common + ["--port", "\(ready.http2_port)", "--transport", "http2"])
        // The seed selects about one of ten connections, so this number is sufficient.
        for _ in 0..<30 {
            _ = try? await Program.run(
                "/usr/bin/env",
                [
                    "curl", "--silent", "--http2", "--cacert", folder + "/authority.pem", "--cert",
                    folder + "/provider.pem", "--key", folder + "/provider.key.pem", "--data", "{}",
                    "https://localhost:\(ready.http2_port)/3/device/\(String(repeating: "ff", count: 32))",
                ],
                deadlineSeconds: 10
            )
        }
        let answer = try await Program.run(
            "/usr/bin/env",
            ["curl", "--silent", "--fail", "http://127.0.0.1:\(ready.control_port)/faults"],
            deadlineSeconds: 10
        )
        struct Faults: Decodable {
            struct Fault: Decodable { var occurrenceCount: Int }
            var faults: [Fault]
        }
        let counts = try JSONDecoder().decode(Faults.self, from: answer).faults.map(\.occurrenceCount)
        #expect(counts.count == 3)
        #expect(counts.allSatisfy { $0 > 0 }, "\(counts)")
    }

    @Test func `the tables of faults have exactly the existing effects`() throws {
        let text = try Self.document("simulator.md")
        let table = try #require(text.firstRange(of: "What (`effect`)"))
        let end = try #require(text.firstRange(of: "How it is reported (`report`)"))
        let names = text[table.upperBound..<end.lowerBound].matches(of: #/\n\| `(\w+)` \|/#).map { String($0.1) }
        let known = try Self.knownEffects()
        #expect(Set(names) == known)
        #expect(known.count == 17)
    }

    /// The names in the description of the API.
    private static func knownEffects() throws -> Set<String> {
        let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        let path = root.appending(path: "Sources/SimulatorService/openapi.yaml")
        let text = try String(contentsOf: path, encoding: .utf8)
        let list = try #require(text.firstMatch(of: #/(?s)    Effect:\n.*?enum:\n(.*?)\n        status:/#)?.1)
        return Set(list.matches(of: #/- (\w+)/#).map { String($0.1) })
    }
}
