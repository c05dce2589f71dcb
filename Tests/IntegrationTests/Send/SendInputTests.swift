// SPDX-License-Identifier: Apache-2.0

import APNSSimulator
import APNSWire
import Foundation
import NIOConcurrencyHelpers
import NIOCore
import TestSupport
import Testing

/// Every kind of input and report.
@Suite(.timeLimit(.minutes(2))) struct SendInputTests {
    let scene: SendScene

    init() throws { self.scene = try SendScene() }

    /// The payloads that a gateway took, in order.
    static func payloads(_ simulator: Simulator) -> [String] {
        simulator.receivedNotifications.map(\.payloadText)
    }

    @Test(arguments: [0, 1, 2], TestEffort.isLong ? [1, 3] : [3])
    func `JSON lines go out in every format of the protocol`(_ command: Int, _ connections: Int) async throws {
        let path = try self.scene.write("a.jsonl", (1...60).map { SendScene.line($0) }.joined())
        let scene = self.scene
        try await SendScene.withGateway { simulator in
            let run = try await scene.send(
                [path, "--command", "\(command)", "--connections", "\(connections)", "--window", "7"],
                port: simulator.gatewayPort
            )
            #expect(run.ending.code == 0, "\(run.error)")
            for device in 1...60 { #expect(try simulator.count(device) == 1) }
        }
    }

    @Test func `a result carries the line, the id as it was written, and the token`() async throws {
        let ids = ["\"a\\u00e9\\n\"", "12345678901234567890.50", "{\"k\":[1,null]}", "true", "null"]
        let lines = ids.enumerated().map { SendScene.line($0.offset + 1, id: $0.element) } + [SendScene.line(6)]
        let path = try self.scene.write("a.jsonl", lines.joined())
        let scene = self.scene
        try await SendScene.withGateway { simulator in
            let run = try await scene.send(
                [path, "--results", scene.path("results.jsonl")],
                port: simulator.gatewayPort
            )
            #expect(run.ending.code == 0 && run.output.isEmpty)
        }
        let expected = (1...6).map { number in
            let id = number <= ids.count ? "\"id\":\(ids[number - 1])," : ""
            let token = SendScene.token(number)
            return "{\"line\":\(number),\(id)\"token\":\"\(token)\",\"outcome\":\"accepted\",\"attempts\":1}\n"
        }
        #expect(scene.read("results.jsonl") == expected.joined())
    }

    @Test func `CSV with quotes and a common payload is sent`() async throws {
        let csv = """
            id,token,payload,expiry,priority
            1,\(SendScene.token(1)),"{""aps"":{""alert"":""a, b""}}",+1h,5
            "2",\(SendScene.token(2).uppercased()),,,10
            three,\(SendScene.token(1_000_000)),,,

            """
        let input = try self.scene.write("a.csv", csv)
        let common = try self.scene.write("common.json", "{ \"aps\" : { \"badge\" : 1 } }\n")
        let scene = self.scene
        try await SendScene.withGateway { simulator in
            let run = try await scene.send(
                [input, "--payload", common, "--results", "-", "--command", "2"],
                port: simulator.gatewayPort
            )
            #expect(run.ending.code == 1, "\(run.error)")
            #expect(Self.payloads(simulator) == ["{\"aps\":{\"alert\":\"a, b\"}}", "{\"aps\":{\"badge\":1}}"])
            #expect(try run.lines.sorted { $0.line < $1.line }.map(\.outcome) == ["accepted", "accepted", "rejected"])
        }
    }

    @Test func `what came of a line does not wait for the next one`() async throws {
        let ends = try SendExitTests.pipe()
        let scene = self.scene
        try await SendScene.withGateway { simulator in
            let streams = Child.Streams(input: ends.reading, output: scene.path("out"), error: scene.path("err"))
            let child = try Child(["send", "-", "--results", "-"] + scene.endpoint(simulator.gatewayPort), streams)
            close(ends.reading)
            #expect(write(ends.writing, "{}\n", 3) == 3)
            try await eventually("the bad line is reported") { scene.read("out").contains("invalid") || child.hasEnded }
            #expect(!child.hasEnded)
            close(ends.writing)
            #expect(try await child.end().code == 1)
        }
    }

    @Test func `a slow pipe is sent as it comes`() async throws {
        let ends = try SendExitTests.pipe()
        let scene = self.scene
        let arrivals = AsyncStream<Int>.makeStream()
        let taken = NIOLockedValueBox(0)
        try await SendScene.withGateway(change: { configuration in
            configuration.onReceive = { _ in
                arrivals.continuation.yield(
                    taken.withLockedValue { count in
                        count += 1
                        return count
                    }
                )
            }
        }) { simulator in
            let streams = Child.Streams(input: ends.reading, output: scene.path("out"), error: scene.path("err"))
            let arguments = ["send", "-"] + scene.endpoint(simulator.gatewayPort)
            let child = try Child(arguments + ["--results", "-"], streams, deadline: 30)
            close(ends.reading)
            var arrived = arrivals.stream.makeAsyncIterator()
            for device in 1...5 {
                // In two parts, each after what was before it has arrived at the gateway.
                let line = Array(SendScene.line(device).utf8)
                for part in [line[..<50], line[50...]] {
                    #expect(part.withUnsafeBytes { write(ends.writing, $0.baseAddress, $0.count) } == part.count)
                }
                #expect(await arrived.next() == device)
            }
            close(ends.writing)
            let ending = try await child.end()
            #expect(ending.code == 0, "\(ending) \(scene.read("err"))")
            #expect(try scene.results("out").map(\.line) == [1, 2, 3, 4, 5])
        }
    }

    @Test func `tokens share a payload, or an alert with quotes, line breaks and emoji`() async throws {
        let tokens = try self.scene.write("tokens.txt", (1...3).map { SendScene.token($0) + "\n" }.joined())
        let payload = try self.scene.write("payload.json", "{\"aps\":{\"sound\":\"x\"}}")
        let text = "He said \"hi\" \\ \n\t\u{1F600} caf\u{E9} \u{1}"
        let scene = self.scene
        try await SendScene.withGateway { simulator in
            for arguments in [["--payload", payload], ["--alert", text]] {
                let run = try await scene.send(["--tokens", tokens] + arguments, port: simulator.gatewayPort)
                #expect(run.ending.code == 0, "\(run.error)")
            }
            let payloads = Self.payloads(simulator)
            #expect(payloads.prefix(3).allSatisfy { $0 == "{\"aps\":{\"sound\":\"x\"}}" } && payloads.count == 6)
            for payload in payloads.suffix(3) {
                let object = try JSONDecoder().decode([String: [String: String]].self, from: Data(payload.utf8))
                #expect(object == ["aps": ["alert": text]])
            }
        }
    }

    @Test func `only exceptions are written where that is asked for, and the summary adds up`() async throws {
        let path = try self.scene.write("a.jsonl", SendScene.line(1) + "x\n" + SendScene.line(1_000_000))
        let scene = self.scene
        try await SendScene.withGateway { simulator in
            let run = try await scene.send(
                [
                    path, "--results", scene.path("results.jsonl"), "--results-only-exceptions", "--summary", "json",
                    "--quiet",
                ],
                port: simulator.gatewayPort
            )
            #expect(run.ending.code == 1 && run.error.isEmpty, "\(run.error)")
            #expect(try scene.results().map(\.outcome).sorted() == ["invalid", "rejected"])
            let summary = try SummaryObject.last(of: run.output)
            #expect(summary.addsUp && summary.total == 3 && summary.accepted == 1 && !summary.interrupted)
            #expect(run.output.split(separator: "\n").count == 1)
        }
    }

    @Test func `of many invalid lines the first ten are reported, and all are in the results`() async throws {
        let path = try self.scene.write("a.jsonl", String(repeating: "x\n", count: 30) + SendScene.line(1))
        let scene = self.scene
        try await SendScene.withGateway { simulator in
            let run = try await scene.send([path, "--results", "-"], port: simulator.gatewayPort)
            #expect(run.ending.code == 1)
            #expect(run.error.contains("line 10") && !run.error.contains("line 11"))
            #expect(run.warned(naming: "20", "standard output"), "\(run.error)")
            #expect(try run.lines.count == 31)
        }
    }

    @Test func `a dry run sends nothing and needs no gateway`() async throws {
        let path = try self.scene.write("a.jsonl", SendScene.line(1) + "x\n" + SendScene.line(2))
        let run = try await self.scene.run(["send", path, "--dry-run", "--summary", "json"])
        #expect(try run.ending.code == 1 && run.counts["ready"] == 2 && run.counts["invalid"] == 1, "\(run)")
        let good = try self.scene.write("b.jsonl", SendScene.line(1))
        let journal = self.scene.path("journal")
        let clean = try await self.scene.run(["send", good, "--dry-run", "--journal", journal])
        #expect(clean.ending.code == 0, "\(clean.error)")
        #expect(!FileManager.default.fileExists(atPath: journal))
        let scene = self.scene
        try await SendScene.withGateway { simulator in
            let run = try await scene.send([good, "--dry-run"], port: simulator.gatewayPort)
            #expect(run.ending.code == 0 && simulator.statistics.connectionCount == 0)
        }
    }

    @Test func `what is said never shows a token or a payload`() async throws {
        let lines = [SendScene.line(1, text: "sesame"), SendScene.line(1_000_000, text: "sesame"), "{\"sesame\":1}\n"]
        let path = try self.scene.write("a.jsonl", lines.joined())
        let scene = self.scene
        let faults = [Fault(at: .notificationOverall(1), .closeAfter, report: FaultReport(ending: .reset))]
        try await SendScene.withGateway(faults: faults) { simulator in
            let arguments = ["send", path, "--verbose"] + scene.endpoint(simulator.gatewayPort)
            let run = try await scene.start(arguments)
            #expect(run.ending.code == 1 && run.error.contains("debug"), "\(run.error)")
            for token in [SendScene.token(1), SendScene.token(1_000_000)] {
                #expect(!run.error.contains(token.prefix(16)) && !run.error.contains(token.suffix(12)))
            }
            #expect(!run.error.contains("alert"))
        }
    }
}
