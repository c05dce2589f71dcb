// SPDX-License-Identifier: Apache-2.0

import APNSServer
import APNSTestKit
import APNSWire
import Foundation
import NIOCore
import TestSupport
import Testing
import TokenStore

/// Goal: who reads the files, or has a webhook, learns what became of each notification, even if the gateway is killed.
@Suite(.timeLimit(.minutes(TestEffort.count(2, long: 20)))) struct GatewayOutcomesTests {
    /// What the service answers for a token.
    private static func reply(_ number: UInt32) -> PushReply {
        switch number {
        case _ where number % 11 == 0:
            .rejected(
                PushRejection(status: 410, reason: .unregistered, timestamp: Timestamp(secondsSince1970: 1_700_000_000))
            )
        case _ where number % 7 == 0: .rejected(PushRejection(status: 400, reason: .badDeviceToken))
        default: .accepted
        }
    }

    /// The status in the outcome of a token.
    private static func status(_ number: UInt32) -> Int? { number % 11 == 0 ? 410 : number % 7 == 0 ? 400 : nil }

    /// The keys of docs/schemas, all of them and those that each line has.
    private static let schema = Result {
        let text = try DocumentedMetrics.text("schemas/outcome-line.schema.json")
        let schema = try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any]
        let properties = try #require(schema?["properties"] as? [String: Any])
        return (properties: Set(properties.keys), required: Set(try #require(schema?["required"] as? [String])))
    }

    /// A line of the files, or an element of a request.
    private struct Line: Hashable {
        var number: Int
        var identifier: UInt32
        var outcome: String
        var cause: String
        var status: Int?
        var token: String
        var apnsID: String?

        init(_ fields: [String: Any]) throws {
            let schema = try GatewayOutcomesTests.schema.get()
            #expect(Set(fields.keys).isSubset(of: schema.properties), "\(fields.keys)")
            #expect(Set(fields.keys).isSuperset(of: schema.required), "\(fields.keys)")
            self.number = try #require(fields["number"] as? Int)
            self.identifier = try #require(fields["identifier"] as? UInt32)
            self.outcome = try #require(fields["outcome"] as? String)
            self.cause = try #require(fields["cause"] as? String)
            self.status = fields["status"] as? Int
            self.token = fields["token"] as? String ?? ""
            self.apnsID = fields["apnsId"] as? String
        }

        /// Whether it is what the service answered.
        var isTrue: Bool {
            let expected = GatewayOutcomesTests.status(self.identifier)
            return self.status == expected && (self.outcome == "accepted") == (expected == nil)
                && (try? DeviceToken(self.token)).map { GatewayProgram.number(of: $0) } == self.identifier
        }
    }

    private static func settings(_ webhook: Int?, tokens: String = "plain", include: String = "all") -> String {
        let address = webhook.map { ", webhook: {url: \"http://127.0.0.1:\($0)/\", batch: 20, timeout: 2s}" } ?? ""
        return "{shutdown: 10s}\noutcomes: {folder: outcomes, tokens: \(tokens), include: \(include)\(address)}"
    }

    private static let clients = "{authority: ca.pem}\n    rejections: ignore"

    /// The lines of all files, in the order of their names.
    private static func lines(_ folder: GatewayProgram.Folder) throws -> [Line] {
        let names = try FileManager.default.contentsOfDirectory(atPath: folder.path("outcomes"))
            .filter { $0.hasPrefix("outcomes-") }.sorted()
        return try names.flatMap { name in
            try folder.read("outcomes/\(name)").split(separator: "\n").map { line in
                try Line(JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any] ?? [:])
            }
        }
    }

    private static func lines(_ request: ScriptedWebhook.Request) throws -> [Line] {
        let values = try JSONSerialization.jsonObject(with: Data(request.body)) as? [[String: Any]]
        return try #require(values).map { try Line($0) }
    }

    /// A notification whose payload is longer than the limit.
    private static func longFrame(_ identifier: UInt32) throws -> ByteBuffer {
        var bytes = ByteBuffer()
        let text = String(repeating: "x", count: 2050)
        let frame = NotificationFrame(
            token: try GatewayProgram.token(identifier),
            payload: ByteBuffer(string: "{\"aps\":{\"alert\":\"\(text)\"}}"),
            expiry: 0,
            identifier: identifier,
            command: .enhanced
        )
        try frame.write(into: &bytes)
        return bytes
    }

    @Test func `the files have one line for each notification, with what the service answered`() async throws {
        let upstream = GatewayUpstream { number, _ in Self.reply(number) }
        let folder = try GatewayProgram.Folder()
        try await upstream.run(folder) { port in
            try folder.configure(upstreamPort: port, limits: Self.settings(nil), clients: Self.clients)
            let gateway = try await GatewayProgram(folder)
            try await gateway.connect { provider in
                try await provider.send(try GatewayProgram.frames(1...300))
                try await provider.send(try Self.longFrame(301))
                try await upstream.wait(count: 300)
                try await gateway.lines("not delivered", "the payload is longer than 2048 bytes")
            }
            #expect(try await gateway.end().code == 0)
        }
        let lines = try Self.lines(folder)
        #expect(lines.map(\.number) == Array(1...301))
        #expect(Set(lines.map(\.identifier)) == Set(1...301))
        #expect(lines.filter { $0.identifier <= 300 }.allSatisfy { $0.isTrue && $0.apnsID != nil })
        let long = try #require(lines.first { $0.identifier == 301 })
        #expect(long.outcome == "rejected" && long.status == 7 && long.apnsID == nil)
        #expect(Set(lines.map(\.cause)) == ["accepted", "dead", "ignored"])
        let mode = try FileManager.default.attributesOfItem(atPath: folder.path("outcomes"))[.posixPermissions] as? Int
        #expect(mode == 0o750)
    }

    @Test func `with a spool, each notification has an outcome, also after SIGKILL and an end`() async throws {
        let upstream = GatewayUpstream { number, _ in Self.reply(number) }
        let folder = try GatewayProgram.Folder()
        let spool = folder.path("database/spool")
        try await upstream.run(folder) { port in
            let clients = Self.clients + "\n    spool: database/spool"
            try folder.configure(upstreamPort: port, limits: Self.settings(nil), clients: clients)
            for (round, isKilled) in [true, false].enumerated() {
                let gateway = try await GatewayProgram(folder)
                let first = UInt32(round * 300 + 1)
                try await gateway.connect { provider in
                    try await provider.send(try GatewayProgram.frames(first...first + 299))
                    // The answer to a probe comes when everything before it is stored.
                    try await provider.send(try GatewayProgram.probe(1))
                    let answer = try await provider.received(byteCount: 6)
                    #expect(answer == GatewayProgram.response(.missingDeviceToken, 1))
                    if isKilled { gateway.child.send(SIGKILL) }
                }
                guard !isKilled else {
                    _ = try await gateway.child.end()
                    continue
                }
                let ending = try await gateway.end()
                #expect(ending.code == 0)
            }
            // An outcome that is on the disk at an orderly end has left the spool.
            let identifiers = Set(try Self.lines(folder).map(\.identifier))
            let spooledCount = try SQLiteNotificationSpool.count(folder: spool)
            #expect(spooledCount.map { identifiers.count + $0 } == 600)
            let gateway = try await GatewayProgram(folder)
            try await eventually("an empty spool") { try SQLiteNotificationSpool.count(folder: spool) == 0 }
            #expect(try await gateway.end().code == 0)
        }
        let lines = try Self.lines(folder)
        #expect(Set(lines.map(\.identifier)) == Set(1...600))
        // They have expiry 0: what is in doubt after SIGKILL is not sent again.
        #expect(lines.filter { !$0.isTrue && $0.cause != "unknown" } == [])
    }

    @Test func `a program that never reads errors prunes its table with one command`() async throws {
        let upstream = GatewayUpstream { number, _ in Self.reply(number) }
        let folder = try GatewayProgram.Folder()
        try await upstream.run(folder) { port in
            let settings = Self.settings(nil, include: "failures")
            try folder.configure(upstreamPort: port, limits: settings, clients: Self.clients)
            let gateway = try await GatewayProgram(folder)
            try await gateway.connect { provider in
                try await provider.send(try GatewayProgram.frames(1...100))
                try await upstream.wait(count: 100)
            }
            #expect(try await gateway.end().code == 0)
        }
        let name = try FileManager.default.contentsOfDirectory(atPath: folder.path("outcomes"))
            .first { $0.hasPrefix("outcomes-") }
        let file = folder.path("outcomes/\(try #require(name))")
        let list = folder.path("dead.sqlite")
        let arguments = ["purge", "import", file, "--purge-list", list, "--include-bad-device-tokens"]
        let printed = try await Program.run(try Child.program, arguments, deadlineSeconds: 20)
        let deadCount = (1...100).count { Self.status($0) != nil }
        #expect(String(decoding: printed, as: UTF8.self).contains("\(deadCount) tokens added"))
    }

    @Test func `after SIGKILL at any time, files and webhook have the same outcomes, in order, and none is wrong`()
        async throws
    {
        for seed in TestEffort.seeds(1, long: 60) {
            var random = SplitMix64(seed: seed)
            let upstream = GatewayUpstream { number, _ in Self.reply(number) }
            let folder = try GatewayProgram.Folder()
            var answers: [ScriptedWebhook.Answer] = []
            // The gateway waits longer after each failure in a row.
            for _ in 0..<6 {
                for _ in 0..<random.below(3) { answers.append([.cut, .status(500), .refuse][random.below(3)]) }
                for _ in 0...random.below(3) { answers.append(.status(200)) }
            }
            let webhook = ScriptedWebhook(answers)
            let counts = (0..<3).map { _ in 1 + random.below(180) }
            try await webhook.run { webhookPort in
                try await upstream.run(folder) { port in
                    try folder.configure(
                        upstreamPort: port,
                        limits: Self.settings(webhookPort),
                        clients: Self.clients
                    )
                    for (round, count) in counts.enumerated() {
                        let gateway = try await GatewayProgram(folder)
                        let first = UInt32(round * 200 + 1)
                        let before = upstream.counts.count
                        try await gateway.connect { provider in
                            try await provider.send(try GatewayProgram.frames(first...first + 199))
                            try await upstream.wait(count: before + count)
                            gateway.child.send(SIGKILL)
                        }
                        _ = try await gateway.child.end()
                    }
                    let gateway = try await GatewayProgram(folder)
                    try await gateway.connect { provider in
                        try await provider.send(try GatewayProgram.frames(601...700))
                        try await webhook.wait(for: 601...700)
                    }
                    try await eventually("the position") {
                        try await GatewayOperatorTests.get("/metrics", gateway).body
                            .contains("\napns_legacy_outcomes_webhook_waiting 0\n")
                    }
                    #expect(try await gateway.end().code == 0)
                }
            }
            let lines = try Self.lines(folder)
            #expect(lines.map(\.number) == Array(1...lines.count), "seed \(seed)")
            #expect(!lines.contains { !$0.isTrue }, "seed \(seed)")
            let identifiers = Set(lines.map(\.identifier))
            #expect(identifiers.count == lines.count, "seed \(seed)")
            #expect(identifiers.isSuperset(of: 601...700), "seed \(seed)")
            // The webhook accepted each line at least once, and none before an earlier one.
            var highest = 0
            var received: Set<Line> = []
            for request in webhook.requests.current where request.isAccepted {
                for line in try Self.lines(request) {
                    #expect(line.number <= highest + 1, "seed \(seed)")
                    highest = max(highest, line.number)
                    received.insert(line)
                }
            }
            #expect(received == Set(lines), "seed \(seed)")
        }
    }
}
