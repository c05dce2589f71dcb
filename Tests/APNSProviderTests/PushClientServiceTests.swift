// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import APNSSession
import APNSTestKit
import APNSWire
import Logging
import NIOConcurrencyHelpers
import NIOCore
import NIOPosix
import ServiceLifecycle
import TestSupport
import Testing

/// Goal: a long-running client verifies in time, survives outages and bad tokens, and ends on request, whatever else
/// ends at the same time.
///
/// Method: scripted gateways on loopback that start and stop; every wait has a deadline.
@Suite(.serialized, .timeLimit(.minutes(2)))
struct PushClientServiceTests {
    // MARK: Verification

    @Test func `concurrent sends share a checkpoint`() async throws {
        try await Sending.withGateway { gateway in
            let configuration = try PushClientLifeTests.service(port: gateway.port)
            try await PushClient.withClient(configuration) { client in
                let outcomes = try await Self.sendAtOnce(0..<1000, client)
                #expect(outcomes.count { $0 == .accepted } == 1000)
            }
            #expect(gateway.records.map(\.probes.count).reduce(0, +) <= 20)
        }
    }

    private static func sendAtOnce(_ numbers: Range<Int>, _ client: PushClient) async throws -> [DeliveryOutcome] {
        try await withThrowingTaskGroup { group in
            for number in numbers {
                let notification = try Sending.notification(number)
                group.addTask { await client.send(notification) }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
    }

    @Test func `a requested checkpoint is made without its delay`() async throws {
        try await Sending.withGateway { gateway in
            let configuration = try PushClientLifeTests.service(port: gateway.port) {
                $0.limits.verificationDelay = .seconds(3600)
            }
            try await PushClient.withClient(configuration) { client in
                let notification = try Sending.notification(0)
                async let outcome = client.send(notification)
                try await gateway.wait { $0.contains { $0.accepted.count == 1 } }
                client.checkpoint()
                #expect(await outcome == .accepted)
            }
        }
    }

    // MARK: Outages

    @Test func `a client that reaches another protocol reports unsent notifications with the reason`() async throws {
        let answer = Array("HTTP/1.1 400 Bad Request\r\n\r\n".utf8)
        try await Sending.withGateway(script: { _ in GatewayScript { $0.action = { _, _ in .send(answer) } } }) {
            gateway in
            let client = try PushClient(PushClientLifeTests.service(port: gateway.port))
            let running = Task { try await client.run() }
            let report = await client.report(of: try Sending.notification(0))
            guard case .unsent(.notPermitted(let failure)) = report.outcome else {
                Issue.record("\(report)")
                return
            }
            #expect(failure.kind == .wrongProtocol && !report.isPossibleDuplicate)
            await #expect(throws: ProviderError.self) { try await running.value }
        }
    }

    @Test func `unsent notifications of an outage have the reason, and the client continues when the gateway is back`()
        async throws
    {
        let port = try await Sending.withGateway { $0.port }
        let client = try PushClient(
            PushClientLifeTests.service(port: port) { $0.queueTimeout = .milliseconds(400) }
        )
        async let running: Void = client.run()
        for number in 0..<3 {
            let clock = ContinuousClock()
            let start = clock.now
            guard case .unsent(.unavailable(let failure)) = await client.send(try Sending.notification(number)) else {
                Issue.record("no reason")
                continue
            }
            #expect(failure.kind == .refused)
            #expect(start.duration(to: clock.now) < .seconds(5))
        }
        let gateway = try await ScriptedGateway.start(tls: Certificates.gateway(), port: port) { _ in GatewayScript() }
        #expect(await client.send(try Sending.notification(3)) == .accepted)
        client.finish()
        try await running
        #expect(gateway.takenInOrder == [3])
        try await gateway.stop()
    }

    /// Goal: notifications sent when the gateway is back are accepted, however long the outage was.
    ///
    /// Method: the time between two attempts is virtual, with the longest delays.
    @Test func `in an outage, there is an attempt within the waiting time of any notification`() throws {
        let failure = ConnectionFailure(.refused, "connection refused")
        var session = ProviderSession(limits: .service)
        var (now, lastTry, longest) = (Duration.zero, Duration.zero, Duration.zero)
        while now < .seconds(3600) {
            switch session.step(now: now) {
            case .connect(let number):
                longest = max(longest, now - lastTry)
                lastTry = now
                session.closed(number, failure: failure, now: now, jitter: 1)
            case .wait(.some(let due)): now = due
            default:
                Issue.record("It neither connects nor waits.")
                return
            }
        }
        let client = try Sending.configuration(port: 1)
        let patience = try #require(client.queueTimeout)
        // The clock is checked often enough that a notification waits at least seven eighths of its time; then there is
        // TLS.
        #expect(longest < patience * 0.5, "\(longest)")
    }

    @Test func `what was written before an outage is settled in time`() async throws {
        let gateway = try await ScriptedGateway.start(tls: Certificates.gateway()) { _ in
            GatewayScript { $0.probeReply = .never }
        }
        let client = try PushClient(
            PushClientLifeTests.service(port: gateway.port) {
                $0.limits.verificationDelay = .seconds(3600)
                $0.limits.outageTimeout = .milliseconds(300)
            }
        )
        async let running: Void = client.run()
        let notification = try Sending.notification(0)
        async let report = client.report(of: notification)
        try await gateway.wait { $0.contains { $0.accepted.count == 1 } }
        try await gateway.stop()
        guard case .indeterminate(.unavailable) = await report.outcome else {
            Issue.record("\(await report)")
            return
        }
        #expect(await report.isPossibleDuplicate)
        client.finish()
        try await running
    }

    // MARK: Bad tokens

    @Test func `a thousand bad tokens slow it down, but do not end it`() async throws {
        let count = TestEffort.count(200, long: 1000)
        try await Sending.withGateway(script: { _ in
            GatewayScript {
                $0.action = { frame, _ in Sending.number(frame) < UInt64(count) ? .refuse(.invalidToken) : .accept }
            }
        }) { gateway in
            let configuration = try PushClientLifeTests.service(port: gateway.port) {
                $0.limits.invalidTokenRunCountMax = 50
                $0.limits.verificationIntervalMin = .milliseconds(1)
            }
            try await PushClient.withClient(configuration) { client in
                var rejectedCount = 0
                for try await record in client.send(Sending.Rows(count)) where record.outcome.isDeadToken {
                    rejectedCount += 1
                }
                #expect(rejectedCount == count)
                #expect(await client.send(try Sending.notification(count)) == .accepted)
                // Many are written at a time again.
                let outcomes = try await Self.sendAtOnce((count + 1)..<(count + 100), client)
                #expect(outcomes.allSatisfy { $0 == .accepted })
            }
            // The probe after it may be there.
            let alone = gateway.records.filter { $0.accepted.isEmpty && $0.refused != nil && $0.discardedCount <= 1 }
            #expect(alone.count >= count - 60, "\(alone.count)")
        }
    }

    // MARK: With other services

    /// Sends until it is stopped, and once more after that.
    private struct Sender: Service {
        let client: PushClient
        let outcomes: NIOLockedValueBox<[DeliveryOutcome]>

        func run() async throws {
            try await cancelWhenGracefulShutdown {
                var number = 0
                while !Task.isCancelled {
                    let outcome = await self.client.send(try Sending.notification(number))
                    self.outcomes.withLockedValue { $0.append(outcome) }
                    number += 1
                }
            }
            let last = await self.client.send(try Sending.notification(.max))
            self.outcomes.withLockedValue { $0.append(last) }
        }
    }

    @Test(arguments: [true, false])
    func `a group of services ends in any order`(isClientFirst: Bool) async throws {
        try await Sending.withGateway { gateway in
            let client = try PushClient(PushClientLifeTests.service(port: gateway.port))
            let sender = Sender(client: client, outcomes: NIOLockedValueBox([]))
            let services: [any Service] = isClientFirst ? [client, sender] : [sender, client]
            let group = ServiceGroup(services: services, logger: PushClientLifeTests.quiet)
            async let running: Void = group.run()
            try await gateway.wait { $0.contains { $0.accepted.count > 0 } }
            await group.triggerGracefulShutdown()
            try await running
            let outcomes = sender.outcomes.withLockedValue { $0 }
            // The shutdown cancels the task that sends, which then stops waiting.
            let allowed: [DeliveryOutcome] = [
                .accepted, .unsent(.stopped), .unsent(.cancelled), .indeterminate(.cancelled),
            ]
            #expect(outcomes.allSatisfy { allowed.contains($0) }, "\(outcomes)")
            let (accepted, unknown) = (outcomes.count { $0 == .accepted }, outcomes.count { $0.kind == .indeterminate })
            #expect((accepted...(accepted + unknown)).contains(gateway.takenCounts.count))
        }
    }
}
