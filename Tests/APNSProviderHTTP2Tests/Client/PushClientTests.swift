// SPDX-License-Identifier: Apache-2.0

import APNSProviderHTTP2
import APNSServer
import APNSSession
import APNSSimulator
import APNSTestKit
import APNSWire
import NIOConcurrencyHelpers
import NIOCore
import OpenSSLTLS
import TestSupport
import Testing

@Suite("A client and the service", .timeLimit(.minutes(1)))
struct PushClientTests {
    @Test func `a request arrives with all its values`() async throws {
        let service = ScriptedService()
        var request = try PushFixture.request(7, topic: PushFixture.topic)
        request.pushType = .background
        request.priority = 5
        request.expiry = .at(secondsSince1970: 1_700_000_000)
        request.collapseID = "game-1"
        let sent = request
        let report = try await PushFixture.withPair(service) { await $0.report(of: sent) }
        #expect(report.outcome == .accepted)
        #expect(report.attempts == 1)
        #expect(report.latency.map { $0 > .zero } == true)
        let arrived = try #require(service.requests.first)
        #expect(arrived.apnsID == sent.apnsID && report.apnsID == sent.apnsID)
        #expect(arrived.apnsUniqueID != nil && report.apnsUniqueID == arrived.apnsUniqueID)
        #expect(arrived.token == sent.token)
        #expect(arrived.payload == sent.payload)
        #expect(arrived.topic == PushFixture.topic)
        #expect(arrived.pushType == .background)
        #expect(arrived.priority == 5)
        #expect(arrived.expiration == 1_700_000_000)
        #expect(arrived.collapseID == "game-1")
    }

    @Test func `many requests each have one report`() async throws {
        let count = TestEffort.count(500, long: 1500)
        let service = ScriptedService()
        let reports = NIOLockedValueBox<[PushIdentifier: Int]>([:])
        let body = try PushFixture.request()
        try await PushFixture.withPair(service, client: { $0.connectionCount = 3 }) { client in
            for _ in 0..<count {
                var request = body
                request.apnsID = PushIdentifier()
                let identifier = request.apnsID
                let receipt = client.submit(request) { report in
                    #expect(report.outcome == .accepted)
                    reports.withLockedValue { $0[identifier, default: 0] += 1 }
                }
                guard case .submitted = receipt else {
                    Issue.record("not accepted: \(receipt)")
                    continue
                }
            }
        }
        #expect(reports.withLockedValue(\.count) == count)
        #expect(reports.withLockedValue { $0.values.allSatisfy { $0 == 1 } })
        #expect(service.counts == reports.withLockedValue(\.self))
    }

    @Test func `a dead token is rejected with the time`() async throws {
        let service = ScriptedService(dead: [try PushFixture.token(9): 1_700_000_000_123])
        let request = try PushFixture.request(9)
        let outcome = try await PushFixture.withPair(service) { await $0.send(request) }
        let rejection = PushRejection(status: 410, reason: .unregistered, timestampNumber: 1_700_000_000_123)
        #expect(outcome == .rejected(.http2(rejection)))
        #expect(rejection.secondsSince1970 == 1_700_000_000)
    }

    @Test(arguments: PushReason.allDocumented)
    func `every documented reason is received`(_ reason: PushReason) async throws {
        let rejection = PushRejection(status: reason.status ?? 0, reason: reason)
        let service = ScriptedService { _, _ in .reject(.http2(rejection)) }
        let request = try PushFixture.request()
        let outcome = try await PushFixture.withPair(service) { await $0.send(request) }
        #expect(outcome == .rejected(.http2(rejection)))
    }

    @Test func `an unknown reason is kept as text`() async throws {
        let rejection = PushRejection(status: 418, reason: .other("Teapot"))
        let service = ScriptedService { _, _ in .reject(.http2(rejection)) }
        let request = try PushFixture.request()
        let outcome = try await PushFixture.withPair(service) { await $0.send(request) }
        #expect(outcome == .rejected(.http2(rejection)))
    }

    @Test func `requests unprocessed at a GOAWAY are sent again on another connection`() async throws {
        let service = ScriptedService { _, count in count == 3 ? .goAway(.shutdown) : nil }
        let reports = try await self.reports(of: 20, service)
        #expect(reports.allSatisfy { $0.outcome == .accepted && !$0.isPossibleDuplicate })
        #expect(reports.contains { $0.attempts == 2 })
        #expect(Set(service.requests.map(\.connectionNumber)).count == 2)
    }

    @Test func `requests processed before a GOAWAY are not sent again`() async throws {
        let service = ScriptedService { _, count in count == 3 ? .shutDown : nil }
        let reports = try await self.reports(of: 20, service)
        #expect(reports.allSatisfy { $0.outcome == .accepted })
        let first = service.requests.filter { $0.connectionNumber == 1 }.map(\.apnsID)
        let second = service.requests.filter { $0.connectionNumber == 2 }.map(\.apnsID)
        #expect(first.count >= 3)
        #expect(Set(first).isDisjoint(with: second))
    }

    @Test func `a refused stream is sent again`() async throws {
        let service = ScriptedService { _, count in count.isMultiple(of: 3) ? .refuseStream : nil }
        let reports = try await self.reports(of: 30, service)
        #expect(reports.allSatisfy { $0.outcome == .accepted && !$0.isPossibleDuplicate })
    }

    @Test func `a repeatedly refused request is unsent`() async throws {
        let service = ScriptedService { _, _ in .refuseStream }
        let request = try PushFixture.request()
        let report = try await PushFixture.withPair(service, client: { $0.attemptCountMax = 4 }) {
            await $0.report(of: request)
        }
        #expect(report.outcome == .unsent(.refusedTooOften))
        #expect(report.attempts == 4)
    }

    @Test func `a stream that is reset is indeterminate`() async throws {
        let service = ScriptedService { _, _ in .resetStream(code: 2) }
        let request = try PushFixture.request()
        let outcome = try await PushFixture.withPair(service) { await $0.send(request) }
        #expect(outcome == .indeterminate(.streamReset(code: 2)))
    }

    @Test func `after a lost connection, written requests are indeterminate, and the client continues`() async throws {
        let service = ScriptedService { _, count in count == 1 ? .closeBefore : nil }
        let request = try PushFixture.request()
        let outcomes = try await PushFixture.withPair(service) { [await $0.send(request), await $0.send(request)] }
        guard case .indeterminate(.connectionLost) = outcomes[0] else {
            Issue.record("\(outcomes[0])")
            return
        }
        #expect(outcomes[1] == .accepted)
    }

    @Test func `as an option, unknown ones are sent again, with a flag`() async throws {
        let service = ScriptedService { _, count in count == 1 ? .closeBefore : nil }
        let request = try PushFixture.request()
        let report = try await PushFixture.withPair(service, client: { $0.resendsUnknown = true }) {
            await $0.report(of: request)
        }
        #expect(report.outcome == .accepted)
        #expect(report.isPossibleDuplicate)
        #expect(report.attempts == 2)
        #expect(service.counts[request.apnsID] == 2)
    }

    @Test func `a request without an answer is indeterminate in time`() async throws {
        let service = ScriptedService { request, _ in request.priority == 5 ? .ignore : nil }
        var silent = try PushFixture.request()
        silent.priority = 5
        let (first, second) = (silent, try PushFixture.request())
        let outcomes = try await PushFixture.withPair(
            service,
            client: { $0.responseTimeout = .milliseconds(200) },
            { client in
                async let unanswered = client.send(first)
                return [await client.send(second), await unanswered]
            }
        )
        #expect(outcomes == [.accepted, .indeterminate(.deadline)])
    }

    @Test func `the limit of streams is respected`() async throws {
        let service = ScriptedService(holding: 3)
        let reports = try await self.reports(of: 40, service) { $0.streamCountMax = 4 }
        #expect(reports.allSatisfy { $0.outcome == .accepted })
        #expect(service.waitingCountMax == 4)
    }

    @Test func `after a rejection the limit may decrease to one`() async throws {
        let rejection = PushRejection(status: 400, reason: .badTopic)
        let service = ScriptedService { _, count in count.isMultiple(of: 5) ? .reject(.http2(rejection)) : nil }
        let reports = try await self.reports(of: 50, service) { $0.limitsStreamsAfterRejection = true }
        #expect(reports.count { $0.outcome == .accepted } == 40)
        #expect(service.requests.count == 50)
    }

    @Test func `a reason with quotes and control characters is parsed`() async throws {
        let reason = PushReason.other("a \"quote\", a \\ and \u{1}\n")
        // Invisible characters are replaced, see `PushReason.init(text:)`.
        let read = PushReason.other("a \"quote\", a \\ and ??")
        let service = ScriptedService { _, count in
            count == 1 ? .goAway(reason) : .reject(.http2(PushRejection(status: 400, reason: reason)))
        }
        let failures = NIOLockedValueBox<[ConnectionFailure]>([])
        let request = try PushFixture.request()
        let outcome = try await PushFixture.withPair(
            service,
            client: { $0.onConnectFailure = { failure in failures.withLockedValue { $0.append(failure) } } },
            { await $0.send(request) }
        )
        #expect(outcome == .rejected(.http2(PushRejection(status: 400, reason: read))))
        let found = failures.withLockedValue(\.self)
        #expect(found.map(\.kind) == [.closed(read)])
        #expect(found.first?.detail.hasSuffix(" closed the connection: \(read.text)") == true)
    }

    @Test func `a payload over the limit is refused locally`() async throws {
        let service = ScriptedService()
        var request = try PushFixture.request()
        request.payload = ByteBuffer(repeating: 0x20, count: 4097)
        let tooLong = request
        request.pushType = .voip
        request.topic = PushFixture.topic + ".voip"
        let voip = request
        request.payload = ByteBuffer()
        let empty = request
        let outcomes = try await PushFixture.withPair(
            service,
            server: { $0.topics = { _ in [PushFixture.topic, PushFixture.topic + ".voip"] } },
            { [await $0.send(tooLong), await $0.send(voip), await $0.send(empty)] }
        )
        #expect(
            outcomes == [.invalid(.payloadTooLong(byteCount: 4097, limit: 4096)), .accepted, .invalid(.payloadEmpty)]
        )
        #expect(service.requests.count == 1)
    }

    /// Sends this many requests at the same time, and collects their reports.
    private func reports(
        of count: Int,
        _ service: ScriptedService,
        server change: (inout HTTP2ListenerConfiguration) throws -> Void = { _ in }
    ) async throws -> [DeliveryReport] {
        let request = try PushFixture.request()
        return try await PushFixture.withPair(service, server: change) { client in
            await withTaskGroup(of: DeliveryReport.self) { group in
                for _ in 0..<count {
                    var request = request
                    request.apnsID = PushIdentifier()
                    group.addTask { [request] in await client.report(of: request) }
                }
                return await group.reduce(into: []) { $0.append($1) }
            }
        }
    }
}
