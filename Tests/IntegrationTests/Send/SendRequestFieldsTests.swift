// SPDX-License-Identifier: Apache-2.0

import APNSServer
import APNSSimulator
import APNSTestKit
import APNSWire
import Foundation
import OpenSSLTLS
import TestSupport
import Testing

/// Goal: the fields of a request that a line has reach the service, and the results name each request.
@Suite(.timeLimit(.minutes(2))) struct SendRequestFieldsTests {
    /// The identifiers in a line of the results.
    private struct Identifiers: Decodable {
        var line: Int
        var outcome: String
        var apnsId: String?
        var apnsUniqueId: String?
        var reason: String?
    }

    private static let identifier = "123e4567-e89b-42d3-a456-426614174000"

    let scene: SendScene

    init() throws { self.scene = try SendScene() }

    private func identifiers(_ name: String = "results.jsonl") throws -> [Identifiers] {
        try self.scene.read(name).split(separator: "\n").map {
            try JSONDecoder().decode(Identifiers.self, from: Data($0.utf8))
        }.sorted { $0.line < $1.line }
    }

    private func arguments(_ path: String, _ more: [String] = ["--transport", "http2"]) -> [String] {
        [path, "--results", self.scene.path("results.jsonl")] + more
    }

    private static func line(_ device: Int, _ fields: String) -> String {
        SendScene.line(device).replacing("{\"token\"", with: "{\(fields),\"token\"")
    }

    @Test func `fields of JSON lines and of CSV become headers, and the results name the requests`() async throws {
        let json = try self.scene.write(
            "batch.jsonl",
            Self.line(1, "\"collapseId\":\"news\",\"apnsId\":\"\(Self.identifier)\",\"pushType\":\"background\"")
                + SendScene.line(2) + Self.line(3, "\"topic\":\"\(SendScene.topic)\"")
                + SendScene.line(1_000_000) + Self.line(5, "\"topic\":\"com.example.other\"")
        )
        let csv = try self.scene.write(
            "batch.csv",
            "token,alert,collapse-id,push-type\n\(SendScene.token(6)),Hello,a,alert\n\(SendScene.token(7)),Hello,,\n"
        )
        let scene = self.scene
        try await SendScene.withGateway { simulator in
            let run = try await scene.send(self.arguments(json), port: simulator.http2Port)
            #expect(run.exitCode == 1, "\(run)")
            #expect(simulator.receivedNotifications.count == 3)
            let first = try #require(simulator.receivedNotifications.first { $0.collapseID != nil })
            #expect(first.collapseID == "news" && first.pushType == .background)
            #expect(first.apnsID == PushIdentifier(Self.identifier))
            let results = try self.identifiers()
            #expect(results.map(\.outcome) == ["accepted", "accepted", "accepted", "rejected", "invalid"])
            #expect(results[0].apnsId == Self.identifier && results[4].apnsId == nil)
            #expect(results[4].reason?.contains("the topic is not one of this run (com.example.app)") == true)
            let all = simulator.receivedNotifications + simulator.rejectedNotifications
            #expect(Set(results.compactMap(\.apnsId)) == Set(all.compactMap { $0.apnsID?.description }))
            let unique = Set(simulator.receivedNotifications.compactMap { $0.apnsUniqueID?.description })
            #expect(unique.count == 3 && Set(results.compactMap(\.apnsUniqueId)) == unique)

            simulator.removeNotifications()
            let second = try await scene.send(self.arguments(csv), port: simulator.http2Port)
            #expect(second.exitCode == 0, "\(second)")
            let fields = simulator.receivedNotifications.map { [$0.collapseID, $0.pushType?.rawValue] }
            #expect(Set(fields) == [["a", "alert"], [nil, "alert"]])
        }
    }

    @Test func `a service in production gives no second identifier`() async throws {
        let path = try self.scene.write("batch.jsonl", SendScene.line(1))
        let scene = self.scene
        let change: (inout SimulatorConfiguration) -> Void = { configuration in
            configuration.environment = .production
            configuration.acceptsUnknownTokens = true
            configuration.devices = []
        }
        try await SendScene.withGateway(change: change) { simulator in
            let run = try await scene.send(self.arguments(path), port: simulator.http2Port)
            #expect(run.exitCode == 0, "\(run)")
            let result = try self.identifiers()[0]
            #expect(result.apnsId != nil && result.apnsUniqueId == nil)
        }
    }

    @Test func `with a key, each line may have a topic of its own`() async throws {
        let key = try CertificateAuthority.makeKeyPEM(.p256)
        let publicKey = try ES256PrivateKey(bytes: key).publicKey
        let path = try self.scene.write("key.p8", key)
        let batch = try self.scene.write(
            "batch.jsonl",
            Self.line(1, "\"topic\":\"com.example.other\"") + Self.line(1, "\"topic\":\"com.example.app.voip\"")
                + SendScene.line(1)
        )
        let scene = self.scene
        let credentials = ["--p8-key", path, "--key-id", "ABCDEFGHIJ", "--team-id", "KLMNOPQRST"]
        let change: (inout SimulatorConfiguration) -> Void = { configuration in
            configuration.acceptsUnknownTokens = true
            configuration.devices = []
            configuration.http2.tokenKeys = ["ABCDEFGHIJ": .init(key: publicKey, teamID: "KLMNOPQRST")]
        }
        try await SendScene.withGateway(change: change) { simulator in
            let endpoint = ["--host", "localhost", "--port", "\(simulator.http2Port)", "--trust", scene.path("ca.pem")]
            let run = try await scene.run(
                ["send", "--transport", "http2", "--topic", SendScene.topic] + endpoint + credentials
                    + self.arguments(batch, [])
            )
            #expect(run.exitCode == 0, "\(run)")
            let topics = simulator.receivedNotifications.map { $0.topic ?? "" }.sorted()
            #expect(topics == ["com.example.app", "com.example.app.voip", "com.example.other"])
            let types = simulator.receivedNotifications.filter { $0.pushType == .voip }.map(\.topic)
            #expect(types == ["com.example.app.voip"])
        }
    }

    @Test func `a token that is not for one topic is tried with another`() async throws {
        let other = SendScene.topic + ".voip"
        let identity = try SendScene.authority.get().issueClient(
            topics: [SendScene.topic, other].map { CertificateTopics.Topic(name: $0) },
            keyKind: .p256,
            period: CertificateAuthority.Period(dayCount: 1, from: Int64(Date().timeIntervalSince1970))
        )
        try self.scene.write("provider.pem", identity.pem)
        let batch = try self.scene.write(
            "batch.jsonl",
            (1...3).map { _ in Self.line(1, "\"topic\":\"\(other)\"") + Self.line(1, "\"topic\":\"\(SendScene.topic)\"")
            }
            .joined()
        )
        let scene = self.scene
        try await SendScene.withGateway { simulator in
            let run = try await scene.send(
                self.arguments(batch, ["--transport", "http2", "--window", "1"]),
                port: simulator.http2Port
            )
            #expect(run.exitCode == 1, "\(run)")
            let outcomes = try self.identifiers().map(\.outcome)
            #expect(outcomes == ["rejected", "accepted", "rejected", "accepted", "rejected", "accepted"])
        }
    }

    @Test func `the binary protocol refuses them line by line, and accepts the topic of the certificate`() async throws
    {
        let path = try self.scene.write(
            "batch.jsonl",
            Self.line(1, "\"collapseId\":\"a\"") + Self.line(2, "\"apnsId\":\"\(Self.identifier)\"")
                + Self.line(3, "\"pushType\":\"alert\"") + Self.line(4, "\"topic\":\"com.example.other\"")
                + Self.line(5, "\"topic\":\"\(SendScene.topic)\"")
        )
        let scene = self.scene
        try await SendScene.withGateway { simulator in
            let run = try await scene.send(self.arguments(path, []), port: simulator.gatewayPort)
            #expect(run.exitCode == 1, "\(run)")
            let results = try self.identifiers()
            #expect(results.map(\.outcome) == ["invalid", "invalid", "invalid", "invalid", "accepted"])
            #expect(results.allSatisfy { $0.apnsId == nil && $0.apnsUniqueId == nil })
            #expect(results[..<3].allSatisfy { $0.reason?.contains("add --transport http2") == true }, "\(results)")
            #expect(results[3].reason?.contains("the topic is not that of the certificate") == true)
            #expect(simulator.statistics.processedCount == 1)
        }
    }

    @Test func `a journal continues with them, and doubles nothing`() async throws {
        let count = 40
        let path = try self.scene.write(
            "batch.jsonl",
            (1...count).map { Self.line($0, "\"collapseId\":\"c\($0)\"") }.joined()
        )
        let scene = self.scene
        let journal = ["--transport", "http2", "--journal", scene.path("journal"), "--give-up-after", "1"]
        let faults = [Fault(at: .notificationOverall(20), .closeAfter, report: FaultReport(ending: .reset))]
        try await SendScene.withGateway(faults: faults) { simulator in
            let first = try await scene.send(self.arguments(path, journal), port: simulator.http2Port)
            let second = try await scene.send(self.arguments(path, journal), port: simulator.http2Port)
            #expect(second.exitCode == 0, "\(first) \(second)")
            let results = try scene.results()
            #expect(results.map(\.line).sorted() == Array(1...count))
            for result in results where !result.isFlagged { #expect(try simulator.count(result.line) == 1) }
            for received in simulator.receivedNotifications {
                let device = try #require(received.token).hexadecimal
                #expect(received.collapseID == "c\(Int(device.suffix(8), radix: 16) ?? 0)")
            }
        }
    }

    @Test(.enabled(if: QueueScene.isPossible)) func `a queue refuses what it does not carry`() async throws {
        let path = try self.scene.write(
            "batch.jsonl",
            Self.line(1, "\"collapseId\":\"a\"") + Self.line(2, "\"topic\":\"\(SendScene.topic)\"")
        )
        try await QueueScene.with(self.scene) { queue in
            let run = try await queue.load(path)
            #expect(run.exitCode == 1 && run.error.contains("line 1, column 15: a queue does not carry"), "\(run)")
            #expect(run.output.contains("1 notification in 1 chunk; 1 invalid line left out"), "\(run)")
        }
    }
}
