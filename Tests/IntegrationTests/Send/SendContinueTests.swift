// SPDX-License-Identifier: Apache-2.0

import APNSSimulator
import APNSWire
import Foundation
import TestSupport
import Testing

/// Goal: the printed command of a stopped run continues the batch without changes.
@Suite(.timeLimit(.minutes(3))) struct SendContinueTests {
    let scene: SendScene

    init() throws { self.scene = try SendScene() }

    static let count = TestEffort.count(1500, long: 3000)

    enum Form: CaseIterable {
        case jsonLines, csv, tokens
    }

    /// Writes a batch with blank lines, and in CSV with records of several lines.
    ///
    /// - Returns: the arguments that name it.
    private func writeBatch(_ form: Form) throws -> [String] {
        let devices = 1...Self.count
        switch form {
        case .jsonLines:
            let text = devices.map { SendScene.line($0) + ($0.isMultiple(of: 7) ? "\n" : "") }.joined()
            return [try self.scene.write("a batch.jsonl", text)]
        case .csv:
            let rows = devices.map { device in
                let payload = device.isMultiple(of: 5) ? "{\n\"\"aps\"\":\n{}}" : "{\"\"aps\"\":{}}"
                return "\(SendScene.token(device)),\"\(payload)\"\n"
            }
            return [try self.scene.write("it's.csv", "\ntoken,payload\n" + rows.joined())]
        case .tokens:
            let text = "# devices\n" + devices.map { SendScene.token($0) + "\n" }.joined()
            return ["--tokens", try self.scene.write("t.txt", text), "--alert", "it's $HOME"]
        }
    }

    /// The command after `to continue: `.
    private static func command(in text: String) -> String? {
        text.split(separator: "\n").compactMap { line in
            line.firstRange(of: "to continue: ").map { String(line[$0.upperBound...]) }
        }.first
    }

    /// Runs the program, and interrupts it when the gateway has accepted this many notifications.
    private func interrupt(_ arguments: [String], at count: Int, _ simulator: Simulator) async throws -> SendScene.Run {
        let scene = self.scene
        let streams = Child.Streams(output: scene.path("out"), error: scene.path("err"))
        let child = try Child(["send"] + scene.endpoint(simulator.gatewayPort) + arguments, streams)
        try await eventually("the gateway has taken \(count)", within: .seconds(60)) {
            simulator.statistics.processedCount >= count || child.hasEnded
        }
        child.send(SIGINT)
        let ending = try await child.end()
        return SendScene.Run(ending: ending, output: scene.read("out"), error: scene.read("err"))
    }

    private func runShell(_ command: String) async throws -> SendScene.Run {
        let streams = Child.Streams(output: self.scene.path("out"), error: self.scene.path("err"))
        let ending = try await Child(["-c", command], streams, program: "/bin/sh").end()
        return SendScene.Run(ending: ending, output: self.scene.read("out"), error: self.scene.read("err"))
    }

    @Test(arguments: Form.allCases)
    func `without a journal, the printed command sends the rest, and nothing twice`(_ form: Form) async throws {
        let seed = UInt64.random(in: 0 ... .max)
        var random = SplitMix64(seed: seed)
        let results = self.scene.path("results.jsonl")
        let options = ["--results", results, "--window", "300", "--connections", "\(1 + random.next() % 2)"]
        let arguments = try self.writeBatch(form) + options
        let stopCount = Int(random.next() % UInt64(Self.count / 2)) + 1
        let pace = TransferPace(byteCount: 256, interval: .milliseconds(10))
        let test = self
        try await SendScene.withGateway(deviceCount: Self.count, faults: [Fault(at: .always, .slowReading(pace))]) {
            simulator in
            let first = try await test.interrupt(arguments, at: stopCount, simulator)
            #expect(first.ending.code == 75, "\(first), seed \(seed)")
            #expect(first.error.contains("Stopping: "), "\(first.error)")
            #expect(first.error.contains("--journal FILE"))
            let command = try #require(Self.command(in: first.error), "\(first.error), seed \(seed)")
            let second = try await test.runShell(command)
            #expect(second.ending.code == 0, "\(command): \(second), seed \(seed)")
            for device in 1...Self.count {
                let count = try simulator.count(device)
                #expect(count == 1, "Device \(device) got \(count), seed \(seed)")
            }
            let parts = [try test.scene.results(), try test.scene.results("results.jsonl.2")]
            #expect(parts.allSatisfy { $0.allSatisfy { $0.outcome == "accepted" && !$0.isFlagged } })
            #expect(parts.reduce(0) { $0 + $1.count } == Self.count && !parts[0].isEmpty)
            #expect(Set(parts.flatMap { $0.map(\.line) }).count == Self.count, "lines are those of the file")
        }
    }

    @Test func `a continued run that is stopped names a line of the same file`() async throws {
        let arguments = try self.writeBatch(.csv) + ["--window", "100"]
        let pace = TransferPace(byteCount: 2048, interval: .milliseconds(10))
        let test = self
        try await SendScene.withGateway(deviceCount: Self.count, faults: [Fault(at: .always, .slowReading(pace))]) {
            simulator in
            let first = try await test.interrupt(arguments, at: Self.count / 6, simulator)
            let line = try #require(first.error.firstMatch(of: /--from-line ([0-9]+)/)?.1, "\(first)")
            let second = try await test.interrupt(
                ["--from-line", String(line)] + arguments,
                at: Self.count / 2,
                simulator
            )
            let command = try #require(Self.command(in: second.error), "\(second)")
            let third = try await test.runShell(command)
            #expect(third.ending.code == 0, "\(command): \(third)")
            for device in 1...Self.count { #expect(try simulator.count(device) == 1, "Device \(device)") }
        }
    }

    @Test func `a signal at the end of a pipe stops the batch, and an incomplete line is not sent`() async throws {
        let scene = self.scene
        try await SendScene.withGateway(deviceCount: 3) { simulator in
            let pipe = Pipe()
            let streams = Child.Streams(
                input: pipe.fileHandleForReading.fileDescriptor,
                output: scene.path("out"),
                error: scene.path("err")
            )
            let arguments = ["send", "--tokens", "-", "--alert", "a"] + scene.endpoint(simulator.gatewayPort)
            let child = try Child(arguments, streams)
            let text = SendScene.token(1) + "\n" + SendScene.token(2) + "\n" + SendScene.token(3).prefix(40)
            pipe.fileHandleForWriting.write(Data(text.utf8))
            try await eventually("the first tokens are there") { simulator.statistics.processedCount >= 2 }
            // Like Ctrl-C: the writer ends, and the signal arrives.
            try pipe.fileHandleForWriting.close()
            child.send(SIGINT)
            #expect(try await child.end().code == 75)
            #expect(scene.read("err").contains("--from-line 3"), "\(scene.read("err"))")
            #expect(simulator.statistics.processedCount == 2 && simulator.statistics.rejectedCount <= 1)
        }
    }

    @Test func `a line after the end of the batch is an error, and --from-line excludes a journal`() async throws {
        let path = try self.scene.write("short.jsonl", SendScene.line(1) + SendScene.line(2))
        let scene = self.scene
        try await SendScene.withGateway(deviceCount: 3) { simulator in
            let run = try await scene.send([path, "--from-line", "4"], port: simulator.gatewayPort)
            #expect(run.failed(65, naming: "--from-line 4"), "\(run)")
            // A run that was stopped after its last line is continued there.
            let end = try await scene.send([path, "--from-line", "3"], port: simulator.gatewayPort)
            #expect(end.ending.code == 0 && end.error.contains("nothing to send"), "\(end)")
            let last = try await scene.send([path, "--from-line", "2"], port: simulator.gatewayPort)
            #expect(last.ending.code == 0 && last.error.contains("1 notification"), "\(last)")
            let both = try await scene.send([path, "--from-line", "2", "--journal", scene.path("j")], port: 1)
            #expect(both.failed(64, naming: "--from-line", "--journal"), "\(both)")
        }
    }

    @Test func `the rest of a compressed batch is sent, too`() async throws {
        let plain = try self.writeBatch(.csv)[0].replacing("'", with: "'\\''")
        let compressing = try await self.runShell("gzip '\(plain)'")
        #expect(compressing.ending.code == 0, "\(compressing)")
        let arguments = [self.scene.path("it's.csv.gz"), "--window", "300"]
        let pace = TransferPace(byteCount: 2048, interval: .milliseconds(10))
        let test = self
        try await SendScene.withGateway(deviceCount: Self.count, faults: [Fault(at: .always, .slowReading(pace))]) {
            simulator in
            let first = try await test.interrupt(arguments, at: Self.count / 3, simulator)
            let command = try #require(Self.command(in: first.error), "\(first)")
            let second = try await test.runShell(command)
            #expect(second.ending.code == 0 && command.contains(" --from-line "), "\(command): \(second)")
            for device in 1...Self.count { #expect(try simulator.count(device) == 1, "Device \(device)") }
        }
    }

    @Test func `with a journal, the printed command resumes, again and again`() async throws {
        let seed = UInt64.random(in: 0 ... .max)
        var random = SplitMix64(seed: seed)
        let scene = self.scene
        let arguments =
            try self.writeBatch(.jsonLines) + [
                "--journal", scene.path("j'1"), "--results", scene.path("results.jsonl"),
            ]
        let stopCount = Int(random.next() % UInt64(Self.count / 2)) + 1
        let pace = TransferPace(byteCount: 2048, interval: .milliseconds(10))
        let test = self
        try await SendScene.withGateway(deviceCount: Self.count, faults: [Fault(at: .always, .slowReading(pace))]) {
            simulator in
            let options = arguments + ["--window", "300"]
            let first = try await test.interrupt(options, at: stopCount, simulator)
            #expect(first.ending.code == 75 && !first.error.contains("--journal FILE"), "\(first), seed \(seed)")
            let command = try #require(Self.command(in: first.error), "\(first.error), seed \(seed)")
            let second = try await test.runShell(command)
            #expect(second.ending.code == 0 && second.error.contains("Resuming: "), "\(second), seed \(seed)")
            for device in 1...Self.count { #expect(try simulator.count(device) == 1, "\(device), seed \(seed)") }
            #expect(try scene.results().map(\.line).count == Self.count)
        }
    }

    @Test func `at the second signal, notifications that may have arrived are counted, and the next run resolves them`()
        async throws
    {
        let scene = self.scene
        let journal = ["--journal", scene.path("journal"), "--results", scene.path("results.jsonl")]
        let arguments = try self.writeBatch(.jsonLines) + journal + ["--summary", "json"]
        // So slow that a drain takes longer than the time in which signals are one request, even after a few lines.
        let faults = [
            Fault(at: .always, .slowReading(TransferPace(byteCount: 2048, interval: .seconds(1))))
        ]
        let first = try await SendScene.withGateway(deviceCount: Self.count, faults: faults) { simulator in
            let streams = Child.Streams(output: scene.path("out"), error: scene.path("err"))
            let child = try Child(["send"] + scene.endpoint(simulator.gatewayPort) + arguments, streams)
            try await eventually("some arrive") { simulator.statistics.processedCount > 0 }
            child.send(SIGINT)
            try await eventually("the signal is reported") { scene.read("err").contains("Stopping: ") }
            child.sendAnother(SIGINT)
            let ending = try await child.end()
            return SendScene.Run(ending: ending, output: scene.read("out"), error: scene.read("err"))
        }
        #expect(try first.ending.code == 75 && first.counts["indeterminate"] ?? 0 > 0, "\(first)")
        try await SendScene.withGateway(deviceCount: Self.count) { simulator in
            let second = try await scene.send(arguments, port: simulator.gatewayPort)
            #expect(second.ending.code == 0, "\(second)")
        }
        #expect(try scene.results().map(\.line).count == Self.count)
    }

    @Test func `after a second signal, the printed command sends what cannot have arrived, and counts the rest`()
        async throws
    {
        let scene = self.scene
        let results = scene.path("results.jsonl")
        let arguments = try self.writeBatch(.jsonLines) + ["--results", results, "--window", "300"]
        // On the first connection, nothing has an outcome from this one on.
        let faults = [Fault(at: .token(prefix: SendScene.token(200)), .ignore, occurrenceCountMax: 1)]
        let test = self
        try await SendScene.withGateway(deviceCount: Self.count, faults: faults) { simulator in
            let streams = Child.Streams(output: scene.path("out"), error: scene.path("err"))
            let child = try Child(["send"] + scene.endpoint(simulator.gatewayPort) + arguments, streams)
            try await eventually("some arrive") { simulator.statistics.processedCount == 199 }
            child.send(SIGINT)
            try await eventually("the signal is reported") { scene.read("err").contains("Stopping: ") }
            child.sendAnother(SIGINT)
            let ending = try await child.end()
            let said = scene.read("err")
            #expect(ending.code == 75 && said.contains("Stopped at once"), "\(ending) \(said)")
            #expect(said.contains("\(results).\n"), "\(said)")
            let command = try #require(Self.command(in: said), "\(said)")
            let second = try await test.runShell(command)
            #expect(second.ending.code == 0, "\(command): \(second)")
            let first = try scene.results()
            let rest = try scene.results("results.jsonl.2")
            let open = Set(first.filter { ["indeterminate", "unsent"].contains($0.outcome) }.compactMap(\.token))
                .subtracting(rest.compactMap(\.token))
            #expect(!open.isEmpty && said.contains("skips"), "\(said)")
            for device in 1...Self.count {
                let count = try simulator.count(device)
                let isOpen = open.contains(SendScene.token(device))
                #expect(isOpen ? count <= 1 : count == 1, "Device \(device) got \(count)")
            }
        }
    }

    @Test func `if nothing was sent, the same command starts again`() async throws {
        let arguments = try self.writeBatch(.csv) + ["--give-up-after", "1", "--summary", "json"]
        // Connections to port 1 are refused.
        let run = try await self.scene.send(arguments, port: 1)
        #expect(try run.ending.code == 69 && run.counts["continueFromLine"] == 1, "\(run)")
    }
}
