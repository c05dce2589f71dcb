// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import APNSProviderHTTP2
import APNSServer
import APNSSimulator
import APNSSession
import APNSWire
import NIOConcurrencyHelpers
import NIOCore
import TestSupport
import Testing

/// Goal: the same sender sends a batch over HTTP/2 and over the binary protocol, with one outcome for each
/// notification.
@Suite("A batch over HTTP/2", .timeLimit(.minutes(TestEffort.isLong ? 10 : 1)))
struct HTTP2BatchTests {
    /// A source with this many notifications, which stores their outcomes.
    final class Source: NotificationSource {
        struct Record: Sendable {
            var given = 0
            var outcomes: [UInt64: [DeliveryOutcome]] = [:]
            var attempts: [UInt64: Int] = [:]
            var isStopped = false
        }

        let record = NIOLockedValueBox(Record())
        private let count: Int

        init(count: Int) { self.count = count }

        func fill(_ batch: inout NotificationBatch) -> ProviderSupply {
            let payload = Array(#"{"aps":{}}"#.utf8)
            return self.record.withLockedValue { record in
                while record.given < self.count {
                    guard !record.isStopped else { return .ended }
                    guard let token = try? PushFixture.token(record.given) else { return .ended }
                    let isAppended = payload.withUnsafeBytes { payload in
                        batch.append(
                            token: token,
                            payload: payload,
                            expiry: .immediately,
                            priority: 5,
                            tag: UInt64(record.given)
                        )
                    }
                    guard isAppended else { return .available }
                    record.given += 1
                }
                return .ended
            }
        }

        func settle(_ settled: borrowing SettledNotifications) {
            let (outcome, attempts) = (settled.outcome, settled.report.attempts)
            self.record.withLockedValue { record in
                settled.forEach { tag, token, _ in
                    #expect(token.count == 32)
                    record.outcomes[tag, default: []].append(outcome)
                    record.attempts[tag] = attempts
                }
            }
        }

        func stop() { self.record.withLockedValue { $0.isStopped = true } }
    }

    private static var options: HTTP2BatchOptions {
        var options = HTTP2BatchOptions(requests: RequestRules(topic: PushFixture.topic))
        options.sendCountMax = 3
        return options
    }

    /// Sends a batch to a service.
    private func send(
        _ source: Source,
        to service: ScriptedService,
        _ change: @escaping @Sendable (inout HTTP2Configuration) -> Void = { _ in }
    ) async throws {
        let configuration = try PushFixture.serverConfiguration()
        try await Listener(configuration, service: service, logger: PushFixture.quiet).withRunning { server in
            var configuration = try PushFixture.clientConfiguration(
                port: try await server.boundAddress.port
            )
            change(&configuration)
            try await BatchSender(http2: configuration, Self.options, logger: PushFixture.quiet).run(source)
        }
    }

    @Test(arguments: [1, 3]) func `each notification has one outcome`(connectionCount: Int) async throws {
        let count = TestEffort.count(600, long: 3000)
        let (bad, passing) = (try PushFixture.token(17), try PushFixture.token(18))
        let dead = try PushFixture.token(19)
        let tries = NIOLockedValueBox(0)
        let service = ScriptedService(dead: [dead: 1_700_000_000_123]) { request, _ in
            if request.token == bad { return .reject(.http2(PushRejection(status: 400, reason: .badDeviceToken))) }
            guard request.token == passing else { return nil }
            let isFirst = tries.withLockedValue { tries in
                tries += 1
                return tries == 1
            }
            return isFirst ? .reject(.http2(PushRejection(status: 503, reason: .serviceUnavailable))) : nil
        }
        let source = Source(count: count)
        try await self.send(source, to: service) { configuration in
            configuration.connectionCount = connectionCount
            // Thousands of answers under a sanitizer, on a busy machine; this does not test deadlines.
            configuration.responseTimeout = .seconds(240)
        }
        let record = source.record.withLockedValue(\.self)
        #expect(record.outcomes.count == count && record.outcomes.values.allSatisfy { $0.count == 1 })
        #expect(record.isStopped)
        let badAnswer = PushRejection(status: 400, reason: .badDeviceToken)
        #expect(record.outcomes[17] == [.rejected(.http2(badAnswer))])
        #expect(record.outcomes[18] == [.accepted] && record.attempts[18] == 2)
        let deadAnswer = PushRejection(status: 410, reason: .unregistered, timestampNumber: 1_700_000_000_123)
        #expect(record.outcomes[19] == [.rejected(.http2(deadAnswer))])
        #expect(record.outcomes.values.count { $0 == [.accepted] } == count - 2)
        // The values of the source arrive at the service.
        #expect(service.requests.allSatisfy { $0.priority == 5 && $0.expiration == 0 && $0.topic == PushFixture.topic })
    }

    @Test func `a service that permits nothing ends the batch, and nothing is lost`() async throws {
        let answer = PushRejection(status: 403, reason: .invalidProviderToken)
        let service = ScriptedService { _, _ in .reject(.http2(answer)) }
        let source = Source(count: 5000)
        let error = await #expect(throws: ProviderError.self) {
            try await self.send(source, to: service) { $0.streamCountMax = TestEffort.count(100, long: 1000) }
        }
        #expect(error?.kind == .senderRefused(answer))
        #expect(error?.description.contains("403 InvalidProviderToken") == true)
        let record = source.record.withLockedValue(\.self)
        #expect(record.outcomes.count == record.given && record.given < 5000)
        #expect(record.outcomes.values.allSatisfy { $0.count == 1 && $0[0].kind == .unsent })
    }

    @Test func `a service with only 5xx answers ends the batch after the maximum number of attempts`() async throws {
        let answer = PushRejection(status: 500, reason: .internalServerError)
        let service = ScriptedService { _, _ in .reject(.http2(answer)) }
        let source = Source(count: 10)
        let error = await #expect(throws: ProviderError.self) { try await self.send(source, to: service) }
        #expect(error?.kind == .serviceTrouble(answer))
        let record = source.record.withLockedValue(\.self)
        #expect(record.outcomes.count == 10 && record.outcomes.values.allSatisfy { $0.count == 1 })
        #expect(record.outcomes.values.allSatisfy { $0[0].kind == .unsent })
    }

    @Test func `an empty batch opens no connection`() async throws {
        let service = ScriptedService()
        try await self.send(Source(count: 0), to: service) {
            $0.onFirstAnswer = { Issue.record("a connection was opened") }
        }
        #expect(service.requests.isEmpty)
    }

    @Test func `a cancelled batch has its outcomes`() async throws {
        // No request is answered.
        let service = ScriptedService(holding: .max)
        let source = Source(count: 2000)
        let sending = Task { try await self.send(source, to: service) }
        try await service.wait(requestCount: 1)
        sending.cancel()
        _ = await sending.result
        let record = source.record.withLockedValue(\.self)
        #expect(record.outcomes.count == record.given && record.outcomes.values.allSatisfy { $0.count == 1 })
        #expect(record.outcomes.values.contains { $0[0].kind == .indeterminate })
    }
}
