// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import APNSProviderHTTP2
import APNSServer
import APNSSession
import APNSTestKit
import APNSWire
import NIOConcurrencyHelpers
import NIOCore
import NIOPosix
import TestSupport
import Testing

/// A client with a service that answers every PING but never accepts a complete request.
@Suite("A service that blocks sending", .timeLimit(.minutes(1)))
struct PushClientStallTests {
    typealias Script = HTTP2FrameService.Script

    private static func configuration(_ service: HTTP2FrameService) throws -> HTTP2Configuration {
        var configuration = try PushFixture.clientConfiguration(port: service.port)
        configuration.responseTimeout = .milliseconds(600)
        configuration.queueTimeout = nil
        return configuration
    }

    private static func requests(_ count: Int, payload: String) throws -> [PushRequest] {
        try (1...count).map { number in
            var request = try PushFixture.request(number)
            request.payload = ByteBuffer(string: "\(number) \(payload)")
            return request
        }
    }

    private static func reports(_ requests: [PushRequest], _ client: RequestClient) async -> [DeliveryReport] {
        await withTaskGroup(of: DeliveryReport.self) { group in
            for request in requests { group.addTask { await client.report(of: request) } }
            return await group.reduce(into: []) { $0.append($1) }
        }
    }

    @Test(arguments: [3, 4] as [UInt16])
    func `each connection counts as a failure, and the client ends with all unsent`(_ setting: UInt16) async throws {
        let identity = try PushFixture.server.get().identity
        let script = Script(settings: [(setting, 0)])
        try await HTTP2FrameService.withRunning(script, tls: .server(identity: identity)) { service in
            var configuration = try Self.configuration(service)
            configuration.connectFailureCountMax = 3
            let failures = NIOLockedValueBox(0)
            configuration.onConnectFailure = { _ in failures.withLockedValue { $0 += 1 } }
            configuration.resendsUnknown = true
            let requests = try Self.requests(5, payload: "{}")
            let reports = NIOLockedValueBox<[DeliveryReport]>([])
            await #expect(throws: ProviderError.self) {
                try await RequestClient.withClient(configuration, logger: PushFixture.quiet) { client in
                    let all = await Self.reports(requests, client)
                    reports.withLockedValue { $0 = all }
                }
            }
            #expect(reports.withLockedValue(\.count) == 5)
            for report in reports.withLockedValue(\.self) {
                guard case .unsent(.unavailable) = report.outcome else {
                    Issue.record("\(report)")
                    continue
                }
                #expect(!report.isPossibleDuplicate)
            }
            #expect(service.record.connectionCount == 3)
            #expect(failures.withLockedValue(\.self) == 3)
            #expect(service.record.bodies.isEmpty)
        }
    }

    @Test func `incompletely sent requests are sent on the next connection, each once`() async throws {
        let identity = try PushFixture.server.get().identity
        try await HTTP2FrameService.withRunning(.fixedWindow, tls: .server(identity: identity)) { service in
            let requests = try Self.requests(40, payload: String(repeating: "x", count: 4000))
            var configuration = try Self.configuration(service)
            // Long enough for answers on a busy machine.
            configuration.responseTimeout = .seconds(1)
            let reports = try await RequestClient.withClient(configuration, logger: PushFixture.quiet) {
                await Self.reports(requests, $0)
            }
            #expect(reports.allSatisfy { $0.outcome == .accepted && !$0.isPossibleDuplicate })
            let record = service.record
            #expect(record.connectionCount == 3, "each accepts 16 complete requests")
            #expect(record.bodies.sorted() == requests.map { String(buffer: $0.payload) }.sorted())
        }
    }

    @Test func `a service that answers nothing is also a failure of its connections`() async throws {
        let identity = try PushFixture.server.get().identity
        try await HTTP2FrameService.withRunning(.silent, tls: .server(identity: identity)) { service in
            var configuration = try Self.configuration(service)
            configuration.connectFailureCountMax = 2
            let requests = try Self.requests(3, payload: "{}")
            let reports = NIOLockedValueBox<[DeliveryReport]>([])
            await #expect(throws: ProviderError.self) {
                try await RequestClient.withClient(configuration, logger: PushFixture.quiet) { client in
                    var all: [DeliveryReport] = []
                    for request in requests { all.append(await client.report(of: request)) }
                    reports.withLockedValue { [all] in $0 = all }
                }
            }
            let outcomes = reports.withLockedValue { $0.map(\.outcome) }
            #expect(outcomes.prefix(2) == [.indeterminate(.deadline), .indeterminate(.deadline)])
            guard case .unsent(.unavailable) = outcomes.last else {
                Issue.record("\(outcomes)")
                return
            }
        }
    }

    @Test func `a slow connection is kept`() async throws {
        // One at a time, and the last waits longer for its turn than any answer may take.
        let requests = try Self.requests(12, payload: "{}")
        let connections = NIOLockedValueBox(0)
        let reports = try await PushFixture.withPair(
            SlowService(),
            server: { $0.streamCountMax = 1 },
            client: { configuration in
                configuration.responseTimeout = .seconds(2)
                configuration.onFirstAnswer = { connections.withLockedValue { $0 += 1 } }
            },
            { await Self.reports(requests, $0) }
        )
        #expect(reports.allSatisfy { $0.outcome == .accepted && $0.attempts == 1 })
        #expect(connections.withLockedValue(\.self) == 1)
    }

    /// Accepts each request after a delay.
    private struct SlowService: PushService {
        func handle(_ request: borrowing InboundPush) -> PushReply? {
            let ticket = request.ticket
            MultiThreadedEventLoopGroup.singleton.any()
                .scheduleTask(in: .milliseconds(200)) { ticket.reply(.accepted) }
            return nil
        }
    }

    @Test func `a stopped client ends immediately, with all unsent`() async throws {
        let identity = try PushFixture.server.get().identity
        try await HTTP2FrameService.withRunning(.noStreams, tls: .server(identity: identity)) { service in
            let requests = try Self.requests(3, payload: "{}")
            var configuration = try Self.configuration(service)
            configuration.responseTimeout = .seconds(30)
            let reports = try await RequestClient.withClient(configuration, logger: PushFixture.quiet) { client in
                async let reports = Self.reports(requests, client)
                try await service.wait { $0.connectionCount == 1 }
                client.stop()
                return await reports
            }
            #expect(reports.map(\.outcome) == Array(repeating: .unsent(.stopped), count: 3))
        }
    }
}
