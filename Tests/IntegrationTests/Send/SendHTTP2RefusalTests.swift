// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import APNSServer
import APNSSimulator
import APNSTestKit
import APNSWire
import Foundation
import OpenSSLTLS
import TestSupport
import Testing

/// `send --transport http2` with a service that fails or rejects the provider.
@Suite(.timeLimit(.minutes(2))) struct SendHTTP2RefusalTests {
    static let count = TestEffort.count(150, long: 500)
    static let unavailable = Fault.Effect.reject(reason: .serviceUnavailable)
    static let throttled = Fault.Effect.reject(reason: .tooManyRequests)
    static let (keyId, teamId) = ("KEY0000001", "TEAM000001")

    let scene: SendScene

    init() throws {
        self.scene = try SendScene()
        try self.scene.write("batch.jsonl", (1...Self.count).map { SendScene.line($0) }.joined())
    }

    private func arguments(_ more: [String] = []) -> [String] {
        [
            self.scene.path("batch.jsonl"), "--transport", "http2", "--results", self.scene.path("results.jsonl"),
            "--summary", "json",
        ] + more
    }

    private func journal(_ more: [String] = []) -> [String] {
        self.arguments(["--journal", self.scene.path("journal")] + more)
    }

    private static func withService<Value: Sendable>(
        _ faults: [Fault] = [],
        change: (inout SimulatorConfiguration) -> Void = { _ in },
        _ body: @escaping @Sendable (Simulator) async throws -> Value
    ) async throws -> Value {
        try await SendScene.withGateway(
            deviceCount: Self.count,
            change: {
                $0.faults = faults
                change(&$0)
            },
            body
        )
    }

    // MARK: Failures

    @Test(arguments: [unavailable, throttled])
    func `notifications that the service defers are sent again, once`(_ effect: Fault.Effect) async throws {
        let (scene, arguments) = (self.scene, self.arguments())
        let storm = Fault(at: .always, effect, occurrenceCountMax: Self.count)
        try await Self.withService([storm]) { simulator in
            let run = try await scene.send(arguments, port: simulator.http2Port)
            #expect(run.ending.code == 0, "\(run)")
            let summary = try SummaryObject.last(of: run.output)
            #expect(summary.accepted == Self.count && summary.addsUp && summary.possibleDuplicates == 0)
            for device in 1...Self.count { #expect(try simulator.count(device) == 1) }
            #expect(try scene.results().contains { $0.attempts > 1 })
        }
    }

    @Test func `a failing service exits with 69, and the journal sends everything later`() async throws {
        let (scene, arguments) = (self.scene, self.journal(["--give-up-after", "2", "--delivery", "at-most-once"]))
        try await Self.withService([Fault(at: .always, Self.unavailable)]) { simulator in
            let run = try await scene.send(arguments, port: simulator.http2Port)
            #expect(run.ending.code == 69 && run.error.contains("503 ServiceUnavailable"), "\(run)")
            let summary = try SummaryObject.last(of: run.output)
            #expect(summary.unsent == summary.total && summary.addsUp)
            let reasons = Set(try scene.results().map(\.reason))
            #expect(reasons.contains("503 ServiceUnavailable"))
        }
        try await Self.withService { simulator in
            let run = try await scene.send(arguments, port: simulator.http2Port)
            #expect(run.ending.code == 0, "\(run)")
            #expect(simulator.statistics.processedCount == Self.count)
            let results = try scene.results()
            #expect(results.map(\.line).sorted() == Array(1...Self.count))
            #expect(results.allSatisfy { $0.outcome == "accepted" && !$0.isFlagged })
        }
    }

    @Test func `too many notifications for one device affect only its own lines`() async throws {
        let (scene, arguments) = (self.scene, self.arguments(["--give-up-after", "3"]))
        let fault = Fault(at: .token(prefix: SendScene.token(7)), Self.throttled)
        try await Self.withService([fault]) { simulator in
            let run = try await scene.send(arguments, port: simulator.http2Port)
            #expect(run.ending.code == 75, "\(run)")
            let summary = try SummaryObject.last(of: run.output)
            #expect(summary.accepted == Self.count - 1 && summary.unsent == 1 && !summary.interrupted)
            let line = try #require(try scene.results().first { $0.outcome == "unsent" })
            #expect(line.line == 7 && line.attempts == 3 && line.reason == "429 TooManyRequests")
        }
    }

    // MARK: Rejections

    /// Writes a key for provider tokens to a file.
    private func key(_ name: String) throws -> (path: String, key: ES256PublicKey) {
        let pem = try SendScene.authority.get().issueClient(topic: SendScene.topic).keyPEM
        return (try self.scene.write(name, pem), try ES256PrivateKey(bytes: pem).publicKey)
    }

    private func proof(_ path: String, topic: String = SendScene.topic) -> [String] {
        ["--p8-key", path, "--key-id", Self.keyId, "--team-id", Self.teamId, "--topic", topic]
    }

    @Test func `an unknown key exits with 77, and the right key then sends everything`() async throws {
        let (wrong, right) = (try self.key("wrong.p8"), try self.key("right.p8"))
        let scene = self.scene
        let common = ["send", "--host", "localhost", "--trust", scene.path("ca.pem")] + self.journal()
        let (bad, good) = (common + self.proof(wrong.path), common + self.proof(right.path))
        try await Self.withService(
            change: { $0.http2.tokenKeys = [Self.keyId: .init(key: right.key, teamID: Self.teamId)] },
            { simulator in
                let port = ["--port", "\(simulator.http2Port)"]
                let refused = try await scene.run(bad + port)
                #expect(refused.ending.code == 77, "\(refused)")
                #expect(refused.error.contains("403 InvalidProviderToken"), "\(refused)")
                #expect(try SummaryObject.last(of: refused.output).rejected == 0)
                #expect(try scene.results().allSatisfy { $0.outcome == "unsent" })
                let run = try await scene.run(good + port)
                #expect(run.ending.code == 0, "\(run)")
                #expect(simulator.statistics.processedCount == Self.count)
            }
        )
    }

    @Test func `a topic of another provider exits with 77, with nothing rejected`() async throws {
        let (scene, arguments) = (self.scene, self.arguments(["--topic", "org.example"]))
        try await Self.withService(
            change: { configuration in
                configuration.devices = []
                configuration.acceptsUnknownTokens = true
            },
            { simulator in
                let run = try await scene.send(arguments, port: simulator.http2Port)
                #expect(run.ending.code == 77 && run.error.contains("400 TopicDisallowed"), "\(run)")
                let summary = try SummaryObject.last(of: run.output)
                #expect(summary.rejected == 0 && summary.accepted == 0 && summary.unsent > 0)
            }
        )
    }

    @Test func `a service that rejects the provider ends the wait for standard input`() async throws {
        let ends = try SendExitTests.pipe()
        defer { close(ends.writing) }
        let scene = self.scene
        try await Self.withService(change: { $0.http2.clientTrust = .nothing }) { simulator in
            let streams = Child.Streams(input: ends.reading, output: scene.path("out"), error: scene.path("err"))
            let arguments = ["send", "-", "--transport", "http2"] + scene.endpoint(simulator.http2Port)
            let child = try Child(arguments, streams, deadline: 30)
            close(ends.reading)
            let line = Array(SendScene.line(1).utf8)
            #expect(line.withUnsafeBytes { write(ends.writing, $0.baseAddress, $0.count) } == line.count)
            let ending = try await child.end()
            #expect(ending.code == 77, "\(ending) \(scene.read("err"))")
        }
    }

    @Test func `the circuit breaker stops a batch of the other environment`() async throws {
        let lines = (0..<TestEffort.count(2000, long: 20_000)).map { SendScene.line(1_000_000 + $0) }
        let path = try self.scene.write("bad.jsonl", lines.joined())
        let scene = self.scene
        try await Self.withService { simulator in
            let arguments = [path, "--transport", "http2", "--summary", "json"]
            let window = TestEffort.isLong ? [] : ["--window", "100"]
            let run = try await scene.send(arguments + window, port: simulator.http2Port)
            #expect(run.failed(65, .tooManyInvalidTokens), "\(run.error)")
            let summary = try SummaryObject.last(of: run.output)
            #expect(summary.rejected >= 50 && summary.rejected <= 4000 && summary.addsUp)
            #expect(summary.interrupted || summary.unsent > 0)
        }
    }

    // MARK: Without a service

    @Test func `a dry run reads the key without connecting; unusable keys exit with 78`() async throws {
        let good = try self.key("good.p8")
        let path = self.scene.path("batch.jsonl")
        let common = ["send", path, "--transport", "http2", "--dry-run"]
        let run = try await self.scene.run(common + self.proof(good.path) + ["--summary", "json"])
        #expect(try run.ending.code == 0 && run.counts["ready"] == Self.count, "\(run)")
        try self.scene.write("text.p8", "no key\n")
        for file in [self.scene.path("text.p8"), self.scene.path("missing.p8")] {
            for arguments in [common, ["send", path, "--transport", "http2", "--host", "localhost", "--port", "1"]] {
                let refused = try await self.scene.run(arguments + self.proof(file))
                #expect(refused.ending.code == 78 && refused.error.contains(file), "\(refused)")
            }
        }
    }
}
