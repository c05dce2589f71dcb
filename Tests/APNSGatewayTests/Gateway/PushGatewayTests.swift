// SPDX-License-Identifier: Apache-2.0

import APNSTestKit
import ListenerFixtures
import Logging
import NIOConcurrencyHelpers
import TestSupport
import Testing

@testable import APNSGateway

/// Goal: what an author's admission, store and upstream do, or fail to do, never loses or doubles a notification.
@Suite(.timeLimit(.minutes(2))) struct PushGatewayTests {
    private typealias Own = PushGatewayFixture
    private typealias Fixture = ListenerFixture

    @Test func `a binary client sends through the author's upstream`() async throws {
        let upstream = Own.Upstream()
        try await Own.gateway(upstream).withRunning { gateway in
            try await Own.connect(try await gateway.port) {
                try await $0.send(try Fixture.frames(1...50))
                try await $0.send(try Fixture.probe(51))
                #expect(try await $0.end().bytes == Fixture.response(.missingDeviceToken, 51))
            }
        }
        #expect(upstream.numbers == Array(1...50))
        #expect(Set(upstream.delivered.compactMap(\.apnsID)).count == 50)
        let first = try #require(upstream.delivered.first { ScriptedUpstream.number($0.token) == 1 })
        #expect(first.topic == Fixture.topic && first.pushType == .alert && first.expiry == .immediately)
        #expect(first.payloadText == #"{"aps":{"alert":"number 1"}}"#)
    }

    @Test func `a client is an upstream`() async throws {
        let authority = try CertificateAuthority()
        var simulated = try SimulatorConfiguration(tls: authority.makeServerTLS())
        simulated.acceptsUnknownTokens = true
        try await Simulator.withRunning(simulated) { simulator in
            let configuration = PushClientConfiguration.binary(
                host: "localhost",
                port: simulator.gatewayPort,
                identity: try authority.issueClient(topic: Fixture.topic).identity,
                trust: authority.trust
            )
            try await PushClient.withClient(configuration) { client in
                try await Own.gateway(client).withRunning { gateway in
                    try await Own.connect(try await gateway.port) {
                        try await $0.send(try Fixture.frames(1...5))
                        try await $0.send(try Fixture.probe(6))
                        #expect(try await $0.end().bytes == Fixture.response(.missingDeviceToken, 6))
                    }
                }
            }
            #expect(simulator.receivedNotifications.count == 5)
        }
    }

    @Test func `what was delivered after a rejected notification is not delivered again, even after a restart`()
        async throws
    {
        let latch = Own.Latch()
        let upstream = Own.Upstream { number in
            if number == 6 { latch.open() }
            guard number == 2 else { return .accepted }
            await latch.wait()
            return .rejected(.binary(.invalidToken))
        }
        let (rows, lines) = (Own.Rows { $0 < 3 }, LogLines())
        try await Own.gateway(upstream, store: rows, logger: lines.logger(.info)).withRunning { gateway in
            try await Own.connect(try await gateway.port) {
                try await $0.send(try Fixture.frames(1...6))
                #expect(try await $0.end().bytes == Fixture.response(.invalidToken, 2))
            }
        }
        #expect(await rows.failedCount == 3 && lines.of("gateway store not written, retrying").count == 3)
        #expect(await rows.count("resend/") == 4 && upstream.numbers == Array(1...6))
        try await Own.gateway(upstream, store: rows).withRunning { gateway in
            try await Own.connect(try await gateway.port) {
                try await $0.send(try Fixture.frames(3...7))
                try await $0.send(try Fixture.probe(8))
                #expect(try await $0.end().bytes == Fixture.response(.missingDeviceToken, 8))
            }
        }
        #expect(upstream.numbers == Array(1...7))
        #expect(await rows.count("resend/") == 0)
    }

    @Test func `no error response is sent before the store has what was delivered`() async throws {
        let upstream = Own.Upstream { $0 == 1 ? .rejected(.binary(.invalidToken)) : .accepted }
        let latch = Own.Latch()
        let rows = Own.Rows(beforeSave: { await latch.wait() })
        let gateway = try Own.gateway(upstream, store: rows) {
            $0.listener.outcomeTimeout = .milliseconds(200)
            $0.listener.shutdownTimeout = .milliseconds(100)
        }
        try await gateway.withRunning { gateway in
            try await Own.connect(try await gateway.port) {
                // The second one is delivered first.
                try await $0.send(try Fixture.frames(1...2))
                try await upstream.wait(count: 2)
                #expect(try await $0.end().bytes == [])
            }
            latch.open()
        }
        #expect(upstream.numbers == [1, 2])
    }

    @Test func `a dead token is on the list of the feedback service, even after a restart`() async throws {
        let upstream = Own.Upstream {
            $0 == 2 ? .rejected(.unregistered(at: Timestamp(secondsSince1970: 1_700_000_000))) : .accepted
        }
        let rows = Own.Rows { $0 < 1 }
        try await Own.gateway(upstream, store: rows).withRunning { gateway in
            try await Own.connect(try await gateway.port) {
                try await $0.send(try Fixture.frames(1...3))
                try await $0.send(try Fixture.probe(4))
                #expect(try await $0.end().bytes == Fixture.response(.missingDeviceToken, 4))
            }
            // It counts as accepted only when its token is stored.
            #expect(await rows.count("dead/") == 1)
        }
        let tuple = FeedbackTuple(token: try Fixture.token(2), failedAt: 1_700_000_000)
        try await Own.gateway(upstream, store: rows).withRunning { gateway in
            let port = try #require(try await gateway.feedbackPort)
            let bytes = try await Own.connect(port) { try await $0.end().bytes }
            #expect(bytes == tuple.bytes)
            try await eventually("the row is removed") { await rows.count("dead/") == 0 }
        }
    }

    /// Method: a provider sends until everything is accepted, and after each error response again what follows it, to a
    /// new gateway with the same store, of which every second call fails after it stored a part.
    @Test(arguments: 0..<8) func `with a failing store and restarts, each notification is delivered once`(
        seed: UInt64
    ) async throws {
        let count: UInt32 = 60
        var seeded = SplitMix64(seed: seed)
        let rejected = Set((0..<6).map { _ in Int.random(in: 1...Int(count), using: &seeded) })
        let random = NIOLockedValueBox(seeded)
        let rows = Own.Rows { _ in random.withLockedValue { Bool.random(using: &$0) } }
        let upstream = Own.Upstream { number in
            for _ in 0..<random.withLockedValue({ Int.random(in: 0...20, using: &$0) }) { await Task.yield() }
            return rejected.contains(number) ? .rejected(.binary(.invalidToken)) : .accepted
        }
        var first: UInt32 = 1
        while first <= count {
            let gateway = try Own.gateway(upstream, store: rows)
            let bytes = try await gateway.withRunning { [first] gateway in
                try await Own.connect(try await gateway.port) {
                    try await $0.send(try Fixture.frames(first...count))
                    try await $0.send(try Fixture.probe(count + 1))
                    return try await $0.end().bytes
                }
            }
            first = try ErrorResponse(bytes).identifier + 1
        }
        // A rejected one may be sent again, since nothing of it was delivered.
        let accepted = Set(1...Int(count)).subtracting(rejected).sorted()
        #expect(upstream.numbers.filter { !rejected.contains($0) } == accepted)
        #expect(rejected.isSubset(of: upstream.numbers))
        #expect(await rows.count("resend/") == 0)
    }

    @Test func `what arrives during a slow admission is delivered once`() async throws {
        let (upstream, latch) = (Own.Upstream(), Own.Latch())
        let entered = Own.Latch()
        let admission = Own.Admission {
            entered.open()
            await latch.wait()
            return $0.identity.topic.map { GatewayProvider(name: "shop", topic: $0) }
        }
        try await Own.gateway(upstream, admission: admission).withRunning { gateway in
            try await Own.connect(try await gateway.port) {
                try await $0.send(try Fixture.frames(1...500))
                await entered.wait()
                #expect(upstream.numbers == [])
                latch.open()
                try await $0.send(try Fixture.probe(501))
                #expect(try await $0.end().bytes == Fixture.response(.missingDeviceToken, 501))
            }
        }
        #expect(upstream.numbers == Array(1...500))
    }

    enum Refusal: CaseIterable { case none, error, hanging }

    @Test(arguments: Refusal.allCases)
    func `a provider that is not admitted delivers nothing, and the reason is logged`(refusal: Refusal) async throws {
        let (upstream, lines, latch) = (Own.Upstream(), LogLines(), Own.Latch())
        let isRefusing = NIOLockedValueBox(true)
        let admission = Own.Admission {
            let provider = $0.identity.topic.map { GatewayProvider(name: "shop", topic: $0) }
            guard isRefusing.withLockedValue({ $0 }) else { return provider }
            switch refusal {
            case .none: return nil
            case .error: throw Own.Failure()
            case .hanging:
                await latch.wait()
                return provider
            }
        }
        let gateway = try Own.gateway(upstream, admission: admission, logger: lines.logger(.info)) {
            $0.admissionTimeout = refusal == .hanging ? .milliseconds(50) : .seconds(60)
        }
        try await gateway.withRunning { gateway in
            for port in [try await gateway.port, try #require(try await gateway.feedbackPort)] {
                try await Own.connect(port) {
                    $0.push(try Fixture.frames(1...2))
                    #expect(try await $0.end().bytes == [])
                }
            }
            latch.open()
            isRefusing.withLockedValue { $0 = false }
            try await Own.connect(try await gateway.port) {
                try await $0.send(try Fixture.frames(1...2))
                try await $0.send(try Fixture.probe(3))
                #expect(try await $0.end().bytes == Fixture.response(.missingDeviceToken, 3))
            }
        }
        #expect(upstream.numbers == [1, 2])
        let reason =
            switch refusal {
            case .none: "the admission does not admit it"
            case .error: "the admission failed: Failure()"
            case .hanging: "the admission failed: no decision within 0.05 seconds"
            }
        let reasons = lines.of("provider refused").map { "\($0.metadata["apns.legacy.refusal.reason"] ?? "")" }
        #expect(reasons == [reason, reason])
    }

    @Test func `pending decisions are limited`() async throws {
        let (lines, latch) = (LogLines(), Own.Latch())
        let admission = Own.Admission { _ in
            await latch.wait()
            return nil
        }
        let gateway = try Own.gateway(admission: admission, logger: lines.logger(.info)) {
            $0.admissionCountMax = 1
            $0.admissionTimeout = .milliseconds(1)
        }
        try await gateway.withRunning { gateway in
            for _ in 0..<2 {
                let bytes = try await Own.connect(try await gateway.port) { try await $0.end().bytes }
                #expect(bytes == [])
            }
            latch.open()
        }
        let reasons = lines.of("provider refused").map { "\($0.metadata["apns.legacy.refusal.reason"] ?? "")" }
        #expect(reasons.last == "1 decisions about providers are pending")
    }

    @Test func `an outcome that is unsent or indeterminate causes another attempt with the same identifier`()
        async throws
    {
        let counts = NIOLockedValueBox<[Int: Int]>([:])
        let upstream = Own.Upstream { number in
            let attempt = counts.withLockedValue { counts in
                counts[number, default: 0] += 1
                return counts[number] ?? 0
            }
            guard attempt == 1 else { return .accepted }
            return number == 1 ? .unsent(.deadline) : number == 2 ? .indeterminate(nil) : .accepted
        }
        try await Own.gateway(upstream).withRunning { gateway in
            try await Own.connect(try await gateway.port) {
                try await $0.send(try Fixture.frames(1...3))
                try await $0.send(try Fixture.probe(4))
                #expect(try await $0.end().bytes == Fixture.response(.missingDeviceToken, 4))
            }
        }
        #expect(upstream.numbers == [1, 1, 2, 2, 3])
        #expect(Set(upstream.delivered.compactMap(\.apnsID)).count == 3)
    }

    @Test func `providers are read only while there is room for deliveries`() async throws {
        let latch = Own.Latch()
        let upstream = Own.Upstream { _ in
            await latch.wait()
            return .accepted
        }
        try await Own.gateway(upstream) { $0.deliveryCountMax = 5 }.withRunning { gateway in
            try await Own.connect(try await gateway.port) {
                try await $0.send(try Fixture.frames(1...20))
                try await upstream.wait(count: 5)
                #expect(upstream.delivered.count == 5)
                latch.open()
                try await $0.send(try Fixture.probe(21))
                #expect(try await $0.end().bytes == Fixture.response(.missingDeviceToken, 21))
            }
        }
        #expect(upstream.numbers == Array(1...20))
    }

    @Test func `a shutdown waits for deliveries in progress`() async throws {
        let latch = Own.Latch()
        let upstream = Own.Upstream { _ in
            await latch.wait()
            return .accepted
        }
        let gateway = try Own.gateway(upstream)
        try await gateway.withRunning { gateway in
            try await Own.connect(try await gateway.port) {
                try await $0.send(try Fixture.frames(1...3))
                try await upstream.wait(count: 3)
                gateway.stop()
                latch.open()
                // Everything was accepted, so nothing has to be sent again.
                let ending = try await $0.end()
                #expect(ending.bytes == [] && !ending.hasCloseNotify)
            }
        }
    }

    @Test func `a store that cannot be read ends the gateway before it listens`() async throws {
        let token = String(repeating: "ab", count: 32)
        let rows = Own.Rows(["dead/production/\(token)/com.example.app": "never"])
        let gateway = try Own.gateway(store: rows)
        let error = await #expect(throws: GatewayRow.Invalid.self) { try await gateway.withRunning { _ in } }
        #expect(error.map { !"\($0)".contains("abab") } == true)
        await #expect(throws: GatewayRow.Invalid.self) { try await gateway.port }
    }
}
