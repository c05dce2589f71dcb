// SPDX-License-Identifier: Apache-2.0

import APNSCertificates
import APNSSession
import APNSTestKit
import Foundation
import ListenerFixtures
import Logging
import NIOCore
import NIOHTTP1
import OpenSSLTLS
import TestSupport
import Testing

@testable import GatewayService

/// Goal: a webhook gets each outcome at least once, in order, whatever it does to the requests.
@Suite(.timeLimit(.minutes(1))) struct OutcomeWebhookTests {
    private let folder: TemporaryFolder
    private let lines = LogLines()
    private let options: GatewayFile.Outcomes

    init() throws {
        self.folder = try TemporaryFolder()
        self.options = OutcomeScene.options(self.folder)
    }

    private func log() throws -> OutcomeLog {
        var options = self.options
        options.webhook = GatewayFile.Webhook()
        return try OutcomeLog(options, logger: self.lines.logger(.debug))
    }

    private func settings(port: Int) -> GatewayFile.Webhook {
        var settings = GatewayFile.Webhook()
        settings.url = "http://127.0.0.1:\(port)/outcomes?a=b"
        settings.batch = 4
        settings.timeout = .milliseconds(200)
        return settings
    }

    /// Sends the outcomes of a log while `body` runs.
    private func send(
        _ log: OutcomeLog,
        _ settings: GatewayFile.Webhook,
        until body: () async throws -> Void
    ) async throws {
        let webhook = try OutcomeWebhook(
            settings,
            version: "1.2",
            backoff: Backoff(first: .milliseconds(1), max: .milliseconds(5)),
            logger: self.lines.logger(.debug)
        )
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { await webhook.run(log) }
            try await body()
            group.cancelAll()
        }
    }

    @Test func `each kind of failure is followed by another attempt with the same outcomes`() async throws {
        let answers: [ScriptedWebhook.Answer] = [
            .status(500), .status(200), .cut, .refuse, .stall, .deaf, .status(302), .status(429, retryAfter: 0),
            .status(404), .status(200), .status(204), .cut, .status(413), .status(413),
        ]
        let server = ScriptedWebhook(answers)
        try await server.run { port in
            let log = try self.log()
            try await OutcomeScene.record(1...10, in: log)
            try await self.send(log, self.settings(port: port)) {
                try await server.wait(for: 1...10)
                try await OutcomeScene.record(11...40, in: log)
                try await server.wait(for: 1...40)
                try await eventually("the position") { log.status.position == 40 }
            }
            #expect(server.accepted == Array(1...40))
            #expect(log.status.waitingSince == nil)
            let first = try #require(server.requests.current.first)
            #expect(first.head.method == .POST && first.head.uri == "/outcomes?a=b")
            let headers = first.head.headers
            #expect(headers["content-type"] == ["application/json"] && headers["user-agent"] == ["apns-legacy/1.2"])
            #expect(headers["webhook-id"] == ["outcomes-1-4"] && headers["webhook-signature"] == [])
            #expect(self.lines.of("outcomes not sent to the webhook; trying again until it accepts them").count >= 1)
            #expect(self.lines.of("webhook accepts outcomes again").count >= 1)
            await log.flush()
        }
    }

    @Test func `a request is signed as Standard Webhooks prescribes`() async throws {
        var settings = self.settings(port: 1)
        settings.secretFile = try self.folder.write("secret", Array("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\nx".utf8))
        let webhook = try OutcomeWebhook(settings, version: "1", logger: self.lines.logger(.debug))
        let batch = OutcomeLog.Batch(firstNumber: 1, lastNumber: 2, count: 2, seconds: 0, body: Array("[]".utf8))
        let headers = webhook.headers(of: batch, seconds: 1_614_265_330)
        // Computed by Python's modules hmac and base64.
        #expect(headers["webhook-signature"] == ["v1,m5Cmfvb/mzDjSVlNRRrvE1JXFJY1C1Aqe3lGI/56OjU="])
        #expect(headers["webhook-timestamp"] == ["1614265330"])
    }

    @Test(arguments: ["short", "whsec_!!!", "whsec_AAAA", ""]) func `a secret that is no key is refused`(text: String)
        throws
    {
        var settings = self.settings(port: 1)
        settings.secretFile = try self.folder.write("secret", Array(text.utf8))
        let failure = #expect(throws: GatewayFailure.self) {
            _ = try OutcomeWebhook(settings, version: "1", logger: self.lines.logger(.debug))
        }
        #expect("\(failure as Any)".contains("at least 16 bytes"))
    }

    @Test func `a server with TLS is verified`() async throws {
        let authority = try CertificateAuthority()
        let identity = try authority.issueServer().identity
        let context = try TLSContext(.server(identity: identity, trust: nil))
        let server = ScriptedWebhook()
        try await server.run(tls: { try TLSHandler.server(context) }) { port in
            let log = try self.log()
            try await OutcomeScene.record(1...3, in: log)
            var settings = self.settings(port: port)
            settings.url = "https://localhost:\(port)/"
            settings.timeout = .seconds(5)
            // Without its authority, nothing is sent.
            try await self.send(log, settings) {
                try await eventually("a failure") {
                    self.lines.all.contains { "\($0.metadata)".contains("certificate") }
                }
            }
            #expect(server.requests.current.isEmpty)
            settings.trust = try self.folder.write("ca.pem", authority.certificatePEM)
            try await self.send(log, settings) { try await server.wait(for: 1...3) }
            await log.flush()
        }
    }

    @Test func `after any end of the process, nothing is left out`() async throws {
        for seed in TestEffort.seeds(6, long: 300) {
            var random = SplitMix64(seed: seed)
            var answers: [ScriptedWebhook.Answer] = []
            for _ in 0..<30 {
                answers.append([.status(200), .status(200), .cut, .status(503), .refuse][random.below(5)])
            }
            let server = ScriptedWebhook(answers)
            let folder = try TemporaryFolder()
            var options = OutcomeScene.options(folder)
            options.webhook = GatewayFile.Webhook()
            try await server.run { port in
                var last = 0
                for round in 1...5 {
                    let log = try await OutcomeScene.open(options, self.lines)
                    let next = last + 1 + random.below(15)
                    try await OutcomeScene.record(last + 1...next, in: log)
                    last = next
                    let wanted = round == 5 ? last : random.below(last + 1)
                    try await self.send(log, self.settings(port: port)) {
                        try await eventually("\(wanted) of \(last), seed \(seed)") {
                            round == 5 ? log.status.position == UInt64(last) : server.accepted.count >= wanted
                        }
                    }
                    await log.flush()
                }
                var highest = 0
                for identifier in server.accepted {
                    #expect(identifier <= highest + 1, "seed \(seed): \(server.accepted)")
                    highest = max(highest, identifier)
                }
                #expect(highest == last, "seed \(seed)")
            }
        }
    }
}
