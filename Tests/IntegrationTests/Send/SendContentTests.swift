// SPDX-License-Identifier: Apache-2.0

import APNSLegacyCommands
import APNSSimulator
import Batch
import Foundation
import TestSupport
import Testing

/// Goal: whatever a user gives as a batch is sent as meant, or refused in one line before anything is sent.
///
/// Method: the program as a separate process, where it refuses in this one, and a gateway that records what it gets.
@Suite(.timeLimit(.minutes(3))) struct SendContentTests {
    let scene: SendScene

    init() throws { self.scene = try SendScene() }

    /// Compresses a file with the system's program.
    private func gzip(_ name: String) throws -> String {
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = ["gzip", "--keep", "--force", self.scene.path(name)]
        try process.run()
        process.waitUntilExit()
        #expect(process.terminationStatus == 0)
        return self.scene.path(name + ".gz")
    }

    private func bytes(_ path: String) -> [UInt8] { Array(FileManager.default.contents(atPath: path) ?? Data()) }

    /// Runs a command in this process, with a file as its standard input.
    private func run(_ arguments: [String], input path: String) async throws -> SendScene.Run {
        let input = open(path, O_RDONLY | O_CLOEXEC)
        defer { close(input) }
        return try await self.scene.run(arguments, input: input)
    }

    @Test func `a gzip file is sent as its content is`() async throws {
        try self.scene.write("a.jsonl", (1...50).map { SendScene.line($0) }.joined())
        let first = try self.gzip("a.jsonl")
        try self.scene.write("b.jsonl", (51...100).map { SendScene.line($0) }.joined())
        // Two members, and a name that does not tell.
        let both = try self.scene.write("batch", self.bytes(first) + self.bytes(try self.gzip("b.jsonl")))
        let scene = self.scene
        try await SendScene.withGateway { simulator in
            let arguments = ["send"] + scene.endpoint(simulator.gatewayPort)
            let dryRun = try await scene.start(arguments + [both, "--dry-run", "--summary", "json"])
            #expect(try dryRun.counts["ready"] == 100 && dryRun.counts["invalid"] == 0, "\(dryRun)")
            #expect(simulator.statistics.connectionCount == 0)
            let run = try await scene.start(arguments + [both, "--results", scene.path("results.jsonl")])
            #expect(run.ending.code == 0, "\(run.error)")
            for device in 1...100 { #expect(try simulator.count(device) == 1) }
            #expect(try Set(scene.results().map(\.line)) == Set(1...100))
            let piped = try await self.run(arguments + ["-"], input: both)
            #expect(piped.ending.code == 0, "\(piped.error)")
            for device in 1...100 { #expect(try simulator.count(device) == 2) }
        }
    }

    @Test func `a journal that began with a file resumes with its gzip file`() async throws {
        let text = (1...60).map { SendScene.line($0) }.joined()
        let plain = try self.scene.write("a.jsonl", text)
        let compressed = try self.gzip("a.jsonl")
        let scene = self.scene
        let faults = [Fault(at: .notificationOverall(20), .closeAfter, report: FaultReport(ending: .reset))]
        try await SendScene.withGateway(faults: faults) { simulator in
            let arguments =
                ["send"] + scene.endpoint(simulator.gatewayPort)
                + ["--journal", scene.path("journal"), "--results", scene.path("results.jsonl"), "--window", "10"]
            let first = try await scene.start(arguments + ["--give-up-after", "1", plain])
            #expect(first.ending.code == 69, "\(first.ending) \(first.error)")
            let second = try await scene.start(arguments + [compressed])
            #expect(second.ending.code == 0, "\(second.ending) \(second.error)")
            for device in 1...60 { #expect(try simulator.count(device) >= 1) }
            #expect(try scene.results().map(\.line).sorted() == Array(1...60))
            let third = try await scene.start(arguments + [plain])
            #expect(third.ending.code == 0 && third.error.contains("complete"), "\(third)")
        }
    }

    @Test(arguments: [BatchFileError.Reason.truncated, .corrupt])
    func `a damaged gzip file is refused before anything is sent or created`(
        _ reason: BatchFileError.Reason
    ) async throws {
        try self.scene.write("a.jsonl", (1...80).map { SendScene.line($0, text: "text \($0 * 7919)") }.joined())
        var bytes = self.bytes(try self.gzip("a.jsonl"))
        if reason == .truncated { bytes.removeLast(9) } else { bytes[bytes.count - 5] ^= 1 }
        let path = try self.scene.write("a.jsonl.gz", bytes)
        let scene = self.scene
        try await SendScene.withGateway { simulator in
            let arguments = ["send"] + scene.endpoint(simulator.gatewayPort)
            let files = ["--journal", scene.path("journal"), "--results", scene.path("results.jsonl")]
            let run = try await scene.run(arguments + files + [path])
            #expect(run.failed(65, reason, of: path) && run.diagnostics.count == 1, "\(run)")
            #expect(simulator.statistics.connectionCount == 0)
            for name in ["journal", "results.jsonl"] {
                #expect(!FileManager.default.fileExists(atPath: scene.path(name)))
            }
            // A stream is found out at its end, and what came before has its outcome.
            let piped = try await self.run(arguments + ["-", "--results", scene.path("results.jsonl")], input: path)
            #expect(piped.failed(65, reason, of: "standard input"), "\(piped)")
            #expect(try scene.results().count == simulator.receivedNotifications.count)
        }
    }

    @Test func `what is not a batch is named, and nothing is sent or created`() async throws {
        let line = SendScene.line(1)
        let file = try FileHandle(forReadingFrom: URL(filePath: Child.program))
        let program = try file.read(upToCount: 4096) ?? Data()
        let contents: [(String, [UInt8], String)] = [
            ("a.json", Array("[\n\(line)]\n".utf8), "jq -c '.[]' "),
            ("b.json", Array("{\n\"token\": \"a\"\n}\n".utf8), "jq -c"),
            ("c.jsonl", [0x30, 0x82, 9, 1, 2, 1, 3, 0x30] + Array(repeating: 7, count: 30), "--certificate"),
            ("d.pem", Array(self.scene.read("provider.pem").utf8), "PEM"),
            ("e.plist", Array("<?xml version=\"1.0\"?>\n".utf8), "XML"),
            ("f.csv", [0xFF, 0xFE] + Array("t\0o\0k\0e\0n\0\n\0".utf8), "iconv -f UTF-16 -t UTF-8 "),
            ("g", Array(program), "executable"),
            ("h.xlsx", Array("PK\u{3}\u{4}".utf8) + [20, 0, 6, 0], "CSV"),
            ("i", Array("abc\0\0\n".utf8), "binary"),
        ]
        let scene = self.scene
        try await SendScene.withGateway { simulator in
            for (name, bytes, text) in contents {
                let path = try scene.write(name, bytes)
                let arguments = ["send"] + scene.endpoint(simulator.gatewayPort)
                let files = ["--journal", scene.path("journal"), "--results", scene.path("results.jsonl")]
                let run = try await scene.run(arguments + files + [path])
                #expect(run.failed(65, .otherContent, of: path) && run.output.isEmpty, "\(name): \(run)")
                #expect(run.error.contains(text), "\(run)")
                #expect(run.error.split(separator: "\n").count == 1, "\(run)")
                for file in ["journal", "results.jsonl"] {
                    #expect(!FileManager.default.fileExists(atPath: scene.path(file)), "\(name)")
                }
                let piped = try await self.run(arguments + ["-"], input: path)
                #expect(piped.failed(65, .otherContent, of: "standard input"), "\(piped)")
            }
            #expect(simulator.receivedNotifications.isEmpty)
            let tokens = try scene.write("a.tokens", "[\"\(SendScene.token(1))\"]")
            let run = try await scene.run(["send", "--tokens", tokens, "--alert", "x", "--dry-run"])
            #expect(run.failed(65, .otherContent, of: tokens) && run.error.contains("jq -r '.[]'"), "\(run)")
        }
    }

    @Test func `columns of an export are mapped, and others are skipped`() async throws {
        let csv =
            "\u{FEFF}User ID;Device_Token;Payload;Created\r\n"
            + "7;\(SendScene.token(1));\"{\"\"aps\"\":{\"\"alert\"\":\"\"a;b\"\"}}\";2020\r\n"
            + "8;\(SendScene.token(2));{};2021\r\n"
        let path = try self.scene.write("users.csv", csv)
        let tsv = try self.scene.write("users.tsv", "TOKEN\tid\n\(SendScene.token(3))\t\n")
        let scene = self.scene
        let refused = try await scene.run(["send", path, "--dry-run"])
        let (id, token) = ("--column \"id=User ID\"", "--column token=Device_Token")
        #expect(refused.failed(65, at: path, line: 1, naming: "\(id) \(token)", "--ignore-unknown-columns"))
        try await SendScene.withGateway { simulator in
            let arguments = ["send"] + scene.endpoint(simulator.gatewayPort) + ["--results", "-"]
            let mapping = ["--column", "token=device_token", "--column", "id=user id", "--ignore-unknown-columns"]
            let run = try await scene.start(arguments + mapping + [path])
            #expect(run.ending.code == 0, "\(run.error)")
            func result(_ line: Int, _ id: Int) -> Substring {
                let token = SendScene.token(line - 1)
                return #"{"line":\#(line),"id":"\#(id)","token":"\#(token)","outcome":"accepted","attempts":1}"#
            }
            #expect(run.output.split(separator: "\n").sorted() == [result(2, 7), result(3, 8)])
            #expect(SendInputTests.payloads(simulator) == ["{\"aps\":{\"alert\":\"a;b\"}}", "{}"])
            let tabs = try await scene.start(arguments + ["--alert", "x", tsv])
            #expect(tabs.ending.code == 0, "\(tabs.error)")
            #expect(try simulator.count(3) == 1)
        }
        for (mapping, text) in [
            ("tokn=x", "unknown column \"tokn\"; did you mean \"token\"?"), ("token", "expected COLUMN=NAME"),
        ] {
            let run = try await scene.start(["send", path, "--dry-run", "--column", mapping])
            #expect(run.ending.code == 64 && run.error.contains(text), "\(run)")
        }
    }

    @Test func `ten invalid lines are reported, then their number, and all are in the results`() async throws {
        let path = try self.scene.write("a.jsonl", String(repeating: "{\"tokn\":1}\n", count: 1213) + SendScene.line(1))
        let results = self.scene.path("results.jsonl")
        let run = try await self.scene.run(["send", path, "--dry-run", "--results", results])
        #expect(run.ending.code == 1 && run.diagnostics.count == 12, "\(run)")
        #expect(run.warned(at: path, line: 1, column: 2, naming: "\"tokn\"", "\"token\""), "\(run)")
        #expect(run.diagnostics.compactMap(\.place?.line) == Array(1...10), "\(run)")
        #expect(run.warned(naming: "1,203", results), "\(run)")
        #expect(try self.scene.results().count == 1213)
        let without = try await self.scene.run(["send", path, "--dry-run"])
        #expect(without.warned(naming: "1,203", "--results FILE"), "\(without)")
    }

    @Test func `what the binary protocol cannot carry as what it is is invalid`() async throws {
        let activity = #"{"aps":{"timestamp":1,"event":"update","content-state":{"score":1}}}"#
        let payloads = [
            activity, #"{"aps":{"alert":"a","event":"goal"}}"#, #"{"aps":{"content-changed":true}}"#,
            #"{ "aps" : { "event" : "end", "timestamp" : 5 } }"#, #"{"mdm":"x"}"#, #"{"order":1}"#,
        ]
        let lines = payloads.enumerated().map { #"{"token":"\#(SendScene.token($0 + 1))","payload":\#($1)}"# }
        let rows = payloads.enumerated().map {
            #"\#(SendScene.token($0 + 1)),"\#($1.replacing(#"""#, with: #""""#))""#
        }
        let path = try self.scene.write("a.jsonl", lines.joined(separator: "\n"))
        let csv = try self.scene.write("a.csv", (["token,payload"] + rows).joined(separator: "\n"))
        let common = try self.scene.write("activity.json", activity)
        let tokens = try self.scene.write("tokens.txt", SendScene.token(1))
        let scene = self.scene
        try await SendScene.withGateway { simulator in
            for (count, input) in [(1, path), (2, csv)] {
                let first = input == csv ? 2 : 1
                let run = try await scene.send([input, "--results", "-"], port: simulator.gatewayPort)
                #expect(run.ending.code == 1, "\(run)")
                let refused = try run.lines.filter { $0.outcome == "invalid" }.sorted { $0.line < $1.line }
                #expect(refused.map(\.line) == [0, 2, 3, 4].map { first + $0 }, "\(run)")
                #expect(run.diagnostics.compactMap(\.place?.line) == refused.map(\.line), "\(run)")
                #expect(run.warned(at: input, line: first, naming: "liveactivity", "--transport http2"), "\(run)")
                #expect(run.warned(at: input, line: first + 2, naming: "widgets", "--push-type"), "\(run)")
                #expect(run.warned(at: input, line: first + 4, naming: "mdm"), "\(run)")
                #expect(try simulator.count(1) == 0 && simulator.count(2) == count && simulator.count(6) == count)
            }
            let dryRun = try await scene.send([path, "--dry-run"], port: simulator.gatewayPort)
            #expect(
                dryRun.ending.code == 1 && dryRun.diagnostics.compactMap(\.place?.line) == [1, 3, 4, 5],
                "\(dryRun)"
            )
            let all = try await scene.send(["--tokens", tokens, "--payload", common], port: simulator.gatewayPort)
            #expect(all.ending.code == 65 && all.error.contains("liveactivity"), "\(all)")
            #expect(try simulator.count(1) == 0)
        }
        // Without a certificate, its topic is not known, unless it is an option.
        let unknown = try await self.scene.run(["send", path, "--dry-run"])
        #expect(unknown.ending.code == 0, "\(unknown)")
    }

    @Test func `a rejection has the name of its status`() async throws {
        let path = try self.scene.write("a.jsonl", SendScene.line(1_000_000) + SendScene.line(1))
        let scene = self.scene
        try await SendScene.withGateway { simulator in
            let arguments = ["send", path, "--results", "-", "--summary", "json"]
            let run = try await scene.start(arguments + scene.endpoint(simulator.gatewayPort))
            #expect(run.ending.code == 1, "\(run)")
            #expect(
                run.output.contains(
                    "\"outcome\":\"rejected\",\"status\":8,\"statusText\":\"invalid token\",\"attempts\":1"
                )
            )
            #expect(run.output.contains("\"statusTexts\":{\"8\":\"invalid token\"}"), "\(run.output)")
            #expect(run.error.contains("1 rejected"), "\(run.error)")
        }
    }

    @Test func `other commands read gzip, and refuse what is not theirs`() async throws {
        let list = self.scene.path("dead.sqlite")
        try self.scene.write("t.csv", "Device;Failed_At\n\(SendScene.token(1));5\n")
        let options = ["--purge-list", list, "--topic", "a", "--environment", "sandbox", "--column", "token=device"]
        let imported = try await self.scene.start(["purge", "import", try self.gzip("t.csv")] + options)
        #expect(
            imported.ending.code == 0 && imported.output == "1 token added, 0 updated, 0 already listed\n",
            "\(imported)"
        )
        try self.scene.write("t.tokens", "\(SendScene.token(1))\t2020-01-01\n")
        let forgotten = try await self.scene.start(
            ["purge", "forget", "--purge-list", list, "--tokens", try self.gzip("t.tokens")]
        )
        #expect(forgotten.ending.code == 0 && forgotten.output.hasPrefix("1 entry forgotten"), "\(forgotten)")
        try self.scene.write("p.jsonl", "{\"aps\":{}}\n")
        let checked = try await self.scene.start(["payload", "check", try self.gzip("p.jsonl")])
        #expect(checked.ending.code == 0 && checked.error.isEmpty, "\(checked)")
        let array = try self.scene.write("a.json", "[1]\n")
        let fresh = self.scene.path("fresh.sqlite")
        for arguments in [
            ["purge", "import", array, "--purge-list", fresh], ["payload", "check", "--jsonl", array],
            ["purge", "forget", "--tokens", array, "--purge-list", list],
        ] {
            let run = try await self.scene.run(arguments)
            #expect(run.failed(65, .otherContent, of: array), "\(run)")
        }
        #expect(!FileManager.default.fileExists(atPath: fresh))
    }
}
