// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import APNSSimulator
import APNSWire
import Foundation
import TestSupport
import TokenStore
import Testing

/// `send --transport http2` with a purge list.
@Suite(.timeLimit(.minutes(2))) struct SendHTTP2PurgeTests {
    private static let deadSince: UInt32 = 1_700_000_123

    let scene: SendScene

    init() throws { self.scene = try SendScene() }

    /// Devices 1 to 100; device 50 is dead, and 60 has another app.
    private static func withService<Value: Sendable>(
        _ body: @escaping @Sendable (Simulator) async throws -> Value
    ) async throws -> Value {
        let (dead, foreign) = (try DeviceToken(SendScene.token(50)), try DeviceToken(SendScene.token(60)))
        return try await SendScene.withGateway(
            change: { configuration in
                configuration.devices.removeAll { [dead, foreign].contains($0.apps.first?.token) }
                configuration.devices += [
                    SimulatedDevice(
                        token: dead,
                        topic: SendScene.topic,
                        removalTimestamp: Timestamp(secondsSince1970: Int64(Self.deadSince))
                    ),
                    SimulatedDevice(token: foreign, topic: "org.example"),
                ]
            },
            body
        )
    }

    private func arguments(_ devices: [Int], _ more: [String] = []) throws -> [String] {
        let path = try self.scene.write("batch.jsonl", devices.map { SendScene.line($0) }.joined())
        return [
            path, "--transport", "http2", "--results", "-", "--purge-list", self.scene.purgeList,
            "--purge-environment", "sandbox",
        ] + more
    }

    @Test func `tokens on the list are not sent`() async throws {
        try self.scene.addDead([2, 4], environment: .sandbox)
        try self.scene.addDead([3], environment: .sandbox, topic: "org.example")
        let (scene, arguments) = (self.scene, try self.arguments([1, 2, 3, 4]))
        try await Self.withService { simulator in
            let run = try await scene.send(arguments, port: simulator.http2Port)
            #expect(run.ending.code == 1, "\(run)")
            let lines = try run.lines.sorted { $0.line < $1.line }
            #expect(lines.map(\.outcome) == ["accepted", "suppressed", "accepted", "suppressed"])
            #expect(lines[1].reason == "it is on the purge list" && lines[1].attempts == 0)
            for device in 1...4 { #expect(try simulator.count(device) == device % 2) }
        }
    }

    @Test func `rejected tokens are added if requested, dead ones with the service's time`() async throws {
        let scene = self.scene
        try scene.addDead([])
        let plain = try self.arguments([1, 1_000_000, 50, 60])
        try await Self.withService { simulator in
            #expect(try await scene.send(plain, port: simulator.http2Port).ending.code == 1)
            #expect(try scene.purged().isEmpty)
            let run = try await scene.send(plain + ["--purge-rejected"], port: simulator.http2Port)
            #expect(run.ending.code == 1 && run.error.contains("2 rejected tokens"), "\(run)")
            let lines = try run.lines.sorted { $0.line < $1.line }
            #expect(lines.map(\.reason) == [nil, "BadDeviceToken", "Unregistered", "DeviceTokenNotForTopic"])
            #expect(lines.map(\.status) == [nil, 400, 410, 400])
            #expect(lines.map(\.timestamp) == [nil, nil, Int(Self.deadSince) * 1000, nil])
        }
        var times: [[UInt8]: Int64] = [:]
        try PurgeList(path: scene.purgeList).entries {
            #expect($0.source == "send" && $0.topic == SendScene.topic && $0.environment == .sandbox)
            times[$0.token] = $0.failedAtSeconds
            #expect($0.firstSeenSeconds > 1_750_000_000, "The time of this run, whatever the service reports.")
        }
        #expect(Set(times.keys) == [SendScene.bytes(1_000_000), SendScene.bytes(50)])
        #expect(times[SendScene.bytes(50)] == Int64(Self.deadSince))
        #expect(times[SendScene.bytes(1_000_000)] ?? 0 > 1_750_000_000)
    }

    @Test(arguments: [2, 100]) func `if none is accepted, only dead tokens are added`(breaker: Int) async throws {
        let scene = self.scene
        let more = ["--purge-rejected", "--stop-after-invalid-tokens", "\(breaker)"]
        let arguments = try self.arguments([50, 1_000_000, 1_000_001], more)
        try await Self.withService { simulator in
            let run = try await scene.send(arguments, port: simulator.http2Port)
            #expect(breaker == 2 ? run.failed(65, .tooManyInvalidTokens) : run.ending.code == 1, "\(run)")
            #expect(run.error.contains("1 rejected token"), "\(run)")
            #expect(try scene.purged() == [SendScene.bytes(50)])
        }
    }

    @Test func `after a killed run, dead tokens are added, and what the journal does not tell is reported`()
        async throws
    {
        let scene = self.scene
        try scene.addDead([])
        let plain = try self.arguments(
            [1, 50, 60, 1_000_000],
            ["--purge-rejected", "--journal", scene.path("journal")]
        )
        let arguments = plain.map { $0 == "-" ? scene.path("results.jsonl") : $0 }
        try await Self.withService { simulator in
            let begin = Int64(time(nil))
            _ = try await scene.send(arguments, port: simulator.http2Port)
            try scene.cutJournal(before: "listed ")
            _ = try await scene.purge("forget", [50, 1_000_000].flatMap { ["--token", SendScene.token($0)] })
            let run = try await scene.send(arguments, port: simulator.http2Port)
            #expect(run.error.contains("1 rejected token"), "\(run)")
            // Status 400 has many reasons.
            #expect(run.error.contains("2 notifications rejected"), "\(run)")
            #expect(run.error.contains("  apns-legacy purge import '"), "\(run)")
            try PurgeList(path: scene.purgeList).entries {
                #expect($0.token == SendScene.bytes(50) && $0.failedAtSeconds >= begin)
            }
            #expect(try scene.purged() == [SendScene.bytes(50)])
        }
    }

    @Test func `imported results keep the service's time`() async throws {
        let scene = self.scene
        try scene.addDead([])
        let arguments = try self.arguments([1, 50], ["--purge-rejected"])
        let results = try await Self.withService { simulator in
            try await scene.send(arguments, port: simulator.http2Port).output
        }
        let (path, list) = (try scene.write("results.jsonl", results), scene.purgeList)
        // Like the command that a killed run suggests.
        let more = ["--topic", SendScene.topic, "--environment", "sandbox", "--failed-at", "2026-01-02T03:04:05Z"]
        let run = try await CommandRun(["purge", "import", path, "--purge-list", list] + more)
        #expect(run.code == 0, "\(run)")
        var times: [Int64] = []
        try PurgeList(path: list).entries { times.append($0.failedAtSeconds) }
        #expect(times == [Int64(Self.deadSince)])
    }

    @Test func `a token is not sent again after its rejection`() async throws {
        let scene = self.scene
        try scene.addDead([])
        let ends = try SendExitTests.pipe()
        let arguments = ["-"] + (try self.arguments([])).dropFirst()
        try await Self.withService { simulator in
            let streams = Child.Streams(input: ends.reading, output: scene.path("out"), error: scene.path("err"))
            let child = try Child(["send"] + scene.endpoint(simulator.http2Port) + arguments, streams)
            close(ends.reading)
            for text in [SendScene.line(50), SendScene.line(50) + SendScene.line(1)] {
                let bytes = Array(text.utf8)
                #expect(bytes.withUnsafeBytes { write(ends.writing, $0.baseAddress, $0.count) } == bytes.count)
                try await eventually("the rejection") { scene.read("out").contains("Unregistered") || child.hasEnded }
            }
            close(ends.writing)
            let ending = try await child.end()
            #expect(ending.code == 1, "\(ending) \(scene.read("err"))")
            let lines = try ResultLine.parse(scene.read("out")).sorted { $0.line < $1.line }
            #expect(lines.map(\.outcome) == ["rejected", "suppressed", "accepted"])
        }
    }
}
