// SPDX-License-Identifier: Apache-2.0

import APNSServer
import APNSSimulator
import APNSWire
import Foundation
import OpenSSLTLS
import TestSupport
import Testing

/// `send --transport http2` with the input, results and exit codes of the binary protocol.
@Suite(.timeLimit(.minutes(2))) struct SendHTTP2Tests {
    static let count = TestEffort.count(300, long: 2000)
    static let bad: Set<Int> = [1, 2, TestEffort.count(201, long: 701), count]
    static let dead = TestEffort.count(155, long: 555)
    static let good = (1...Self.count).filter { !Self.bad.contains($0) && $0 != Self.dead }

    static func device(_ line: Int) -> Int { Self.bad.contains(line) ? 1_000_000 + line : line }

    let scene: SendScene

    init() throws { self.scene = try SendScene() }

    private func writeBatch() throws -> String {
        try self.scene.write(
            "batch.jsonl",
            (1...Self.count).map { SendScene.line(Self.device($0), id: "\"n\($0)\"") }.joined()
        )
    }

    private func arguments(_ path: String, _ more: [String] = []) -> [String] {
        [path, "--transport", "http2", "--results", self.scene.path("results.jsonl"), "--summary", "json"] + more
    }

    private static func withService<Value: Sendable>(
        _ faults: [Fault] = [],
        _ body: @escaping @Sendable (Simulator) async throws -> Value
    ) async throws -> Value {
        let token = try DeviceToken(SendScene.token(Self.dead))
        return try await SendScene.withGateway(
            deviceCount: Self.count,
            change: { configuration in
                configuration.faults = faults
                configuration.devices.removeAll { $0.apps.first?.token == token }
                configuration.devices.append(
                    SimulatedDevice(
                        token: token,
                        topic: SendScene.topic,
                        removalTimestamp: Timestamp(secondsSince1970: 1_700_000_000)
                    )
                )
            },
            body
        )
    }

    @Test(arguments: ["http", "socks5"]) func `requests go through a proxy`(kind: String) async throws {
        let path = try self.scene.write("few.jsonl", (1...20).map { SendScene.line($0) }.joined())
        let (scene, arguments) = (self.scene, self.arguments(path))
        try await Self.withService { simulator in
            let proxy = try await ScriptedProxy.start(
                kind == "http" ? .http : .socks5,
                .open,
                upstream: simulator.http2Port
            )
            let way = ["--proxy", "\(kind)://127.0.0.1:\(proxy.port)"]
            let run = try await scene.send(arguments + way, port: simulator.http2Port)
            #expect(run.ending.code == 0, "\(run.ending) \(run.error)")
            #expect(!proxy.requests.isEmpty)
            for device in 1...20 { #expect(try simulator.count(device) == 1) }
            try await proxy.stop()
        }
    }

    @Test func `a proxy that rejects the credentials ends the run`() async throws {
        let path = try self.scene.write("few.jsonl", SendScene.line(1))
        let answer = "HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n"
        let proxy = try await ScriptedProxy.start(.http, .say(answer), upstream: 1)
        let way = ["--proxy", "http://127.0.0.1:\(proxy.port)"]
        let run = try await self.scene.send(self.arguments(path) + way, port: 1)
        #expect(run.failed(77, .proxyAuthentication), "\(run.ending) \(run.error)")
        try await proxy.stop()
    }

    @Test func `bad and dead tokens are named, and every other notification is processed once`() async throws {
        let (scene, path) = (self.scene, try self.writeBatch())
        let arguments = self.arguments(path)
        try await Self.withService { simulator in
            let run = try await scene.send(arguments, port: simulator.http2Port)
            #expect(run.ending.code == 1, "\(run.ending) \(run.error)")
            let summary = try SummaryObject.last(of: run.output)
            #expect(summary.accepted == Self.count - 5 && summary.rejected == 5 && summary.addsUp)
            #expect(summary.rejectedByStatus == ["400": 4, "410": 1])
            let results = try scene.results()
            #expect(results.map(\.line).sorted() == Array(1...Self.count))
            for result in results {
                #expect(result.token == SendScene.token(Self.device(result.line)))
                if Self.bad.contains(result.line) {
                    #expect(result.status == 400 && result.reason == "BadDeviceToken")
                } else if result.line == Self.dead {
                    #expect(result.status == 410 && result.reason == "Unregistered")
                } else {
                    #expect(result.outcome == "accepted" && !result.isFlagged)
                    #expect(try simulator.count(result.line) == 1)
                }
            }
        }
    }

    @Test func `notifications that the service rejects or drops with the connection are sent again, once`() async throws
    {
        let (scene, path) = (self.scene, try self.writeBatch())
        let faults = [
            Fault(at: .notificationOverall(50), .goAway(.shutdown)),
            Fault(at: .notificationOverall(TestEffort.count(150, long: 900)), .refuseStream),
            Fault(at: .notificationOverall(TestEffort.count(250, long: 1500)), .shutDown),
        ]
        let arguments = self.arguments(path, ["--connections", "2"])
        try await Self.withService(faults) { simulator in
            let run = try await scene.send(arguments, port: simulator.http2Port)
            #expect(run.ending.code == 1, "\(run.ending) \(run.error)")
            let summary = try SummaryObject.last(of: run.output)
            #expect(summary.accepted == Self.count - 5 && summary.possibleDuplicates == 0 && summary.addsUp)
            let counts = try Self.good.map { try simulator.count($0) }
            #expect(counts.allSatisfy { $0 == 1 })
        }
    }

    @Test func `with at least once, lost connections lose nothing, and all duplicates are flagged`() async throws {
        let (scene, path) = (self.scene, try self.writeBatch())
        let requests: [UInt64] = TestEffort.isLong ? [300, 301, 1200] : [100, 101, 200]
        let faults = requests.map {
            Fault(at: .notificationOverall($0), .closeBefore, report: FaultReport(ending: .fin))
        }
        let arguments = self.arguments(path)
        try await Self.withService(faults) { simulator in
            let run = try await scene.send(arguments, port: simulator.http2Port)
            #expect(run.ending.code == 1, "\(run.ending) \(run.error)")
            for result in try scene.results() where result.outcome == "accepted" {
                let count = try simulator.count(result.line)
                #expect(count == 1 || (count > 1 && result.isFlagged), "line \(result.line) went \(count) times")
            }
            #expect(try SummaryObject.last(of: run.output).possibleDuplicates > 0)
        }
    }

    @Test func `a batch that the service ended continues with its journal`() async throws {
        let (scene, path) = (self.scene, try self.writeBatch())
        let arguments = self.arguments(
            path,
            ["--journal", scene.path("journal"), "--delivery", "at-most-once", "--give-up-after", "2"]
        )
        let request: UInt64 = TestEffort.count(100, long: 500)
        let away = [Fault(at: .notificationOverall(request), .goAway(.badCertificate))]
        let taken = try await Self.withService(away) { simulator in
            let run = try await scene.send(arguments, port: simulator.http2Port)
            #expect(run.ending.code == 77, "\(run.ending) \(run.error)")
            return try (1...Self.count).map { Self.bad.contains($0) ? 0 : try simulator.count($0) }
        }
        #expect(taken.reduce(0, +) > 0)
        try await Self.withService { simulator in
            let run = try await scene.send(arguments, port: simulator.http2Port)
            #expect(run.ending.code == 1, "\(run.ending) \(run.error)")
            let results = try scene.results()
            #expect(results.map(\.line).sorted() == Array(1...Self.count))
            let counts = try Self.good.map { taken[$0 - 1] + (try simulator.count($0)) }
            #expect(counts.allSatisfy { $0 == 1 })
        }
    }

    @Test func `a refused connection exits with 69, a certificate of an unknown authority with 77`() async throws {
        let scene = self.scene
        let path = try self.scene.write("one.jsonl", SendScene.line(1))
        let gone = try await Self.withService { $0.http2Port }
        let run = try await scene.send(self.arguments(path, ["--give-up-after", "2"]), port: gone)
        #expect(run.ending.code == 69, "\(run.ending) \(run.error)")
        #expect(try scene.results().map(\.outcome) == ["unsent"])
        try await SendScene.withGateway(change: { $0.http2.clientTrust = .nothing }) { simulator in
            let arguments = [path, "--transport", "http2", "--give-up-after", "2"]
            let refused = try await scene.send(arguments, port: simulator.http2Port)
            #expect(refused.ending.code == 77, "\(refused.ending) \(refused.error)")
        }
    }
}
