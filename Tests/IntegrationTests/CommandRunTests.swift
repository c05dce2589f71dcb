// SPDX-License-Identifier: Apache-2.0

import APNSLegacyCommands
import Foundation
import Testing

/// Commands that run within this process, each with its own console.
@Suite(.timeLimit(.minutes(1))) struct CommandRunTests {
    @Test func `a command uses its console for input, output and messages, and returns its exit code`() async throws {
        let scene = try SendScene()
        let input = open(try scene.write("tokens", "\(SendScene.token(1))\nxyz\n"), O_RDONLY | O_CLOEXEC)
        defer { close(input) }
        let options = ["--topic", "com.example.app", "--environment", "sandbox", "--failed-at", "now"]
        let importing = ["purge", "import", "-", "--format", "tokens", "--purge-list", scene.purgeList] + options
        let run = try await CommandRun(importing, input: input)
        #expect(run.code == 1)
        #expect(run.output == "1 token added, 0 updated, 0 already listed, 1 invalid line\n")
        #expect(run.warned(at: "standard input", line: 2), "\(run.error)")
        let stats = try await CommandRun(["purge", "stats", "--purge-list", scene.purgeList])
        #expect(stats.code == 0 && stats.output.hasPrefix("1 token\n") && stats.error.isEmpty, "\(stats)")
    }

    @Test func `help is printed, and an unknown word and a failure are reported`() async throws {
        let scene = try SendScene()
        let help = try await CommandRun(["purge", "--help"])
        #expect(
            help.code == 0 && help.output.hasPrefix("OVERVIEW: Keep a list of dead tokens") && help.error.isEmpty,
            "\(help)"
        )
        let wrong = try await CommandRun(["purge", "stats", "--purge-list", scene.purgeList, "--no-such"])
        #expect(wrong.failed(64, naming: "--no-such") && wrong.output.isEmpty, "\(wrong)")
        let missing = try await CommandRun(["purge", "stats", "--purge-list", scene.purgeList])
        let said = "apns-legacy purge stats: purge list \(scene.purgeList) does not exist\n"
        #expect(missing.code == 66 && missing.output.isEmpty && missing.error == said, "\(missing)")
    }

    @Test(
        arguments: [
            "--version", "help", "help exit-codes", "send --help", "--generate-completion-script bash", "quickstart",
            "certificate new authority --output FOLDER", "purge stats --purge-list LIST",
            "purge apply --purge-list LIST --exec true", "payload build --alert Hello", "quickstart --summary json",
            "purge apply --purge-list LIST --exec true --summary json",
        ]
    ) func `results that cannot be written are an error, and never lost silently`(_ line: String) async throws {
        let scene = try SendScene()
        try scene.addDead([1])
        let full = open("/dev/full", O_WRONLY | O_CLOEXEC)
        defer { close(full) }
        let line = line.replacing("LIST", with: scene.purgeList).replacing("FOLDER", with: scene.path("new"))
        let run = try await CommandRun(line.split(separator: " ").map(String.init), output: full)
        #expect(run.failed(74, naming: "standard output") && run.failures.count == 1, "\(run)")
    }

    @Test(
        arguments: [
            "purge import PAYLOAD --purge-list NEW --topic a.b --failed-at now --environment sandbox",
            "purge apply --purge-list LIST --exec false",
            "feedback --host localhost --port 1 --certificate PAYLOAD --purge-list NEW",
        ]
    ) func `the summary of a command that failed contains the error`(_ line: String) async throws {
        let scene = try SendScene()
        try scene.addDead([1])
        let payload = try scene.write("payload.json", "{\n  \"aps\": {}\n}\n")
        let words = line.replacing("LIST", with: scene.purgeList).replacing("NEW", with: scene.path("new.sqlite"))
            .replacing("PAYLOAD", with: payload)
        let run = try await CommandRun((words + " --summary json").split(separator: " ").map(String.init))
        #expect(run.code >= 64, "\(run)")
        let summary = try #require(run.output.split(separator: "\n").last)
        let object = try JSONSerialization.jsonObject(with: Data(summary.utf8)) as? [String: Any]
        let error = try #require(object?["error"] as? String, "\(run)")
        #expect(!error.isEmpty && run.error.contains(error), "\(run)")
    }

    @Test func `the time is that of the environment`() async throws {
        let scene = try SendScene()
        try scene.addDead([1])
        func expire(now: Int64) async throws -> String {
            let words = ["purge", "expire", "--purge-list", scene.purgeList, "--older-than", "1d"]
            return try await CommandRun(words) { $0.now = { now } }.output
        }
        // The failure is at 1,700,000,000.
        #expect(try await expire(now: 1_700_000_000 + 86_400) == "0 tokens expired\n")
        #expect(try await expire(now: 1_700_000_000 + 86_401) == "1 token expired\n")
    }
}
