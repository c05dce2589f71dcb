// SPDX-License-Identifier: Apache-2.0

import APNSProviderHTTP2
import APNSServer
import APNSSession
import APNSSimulator
import APNSTestKit
import APNSWire
import NIOCore
import OpenSSLTLS
import TestSupport
import Testing

/// The same faults at each listener that supports them.
@Suite(.timeLimit(.minutes(1)))
struct FaultListenerTests {
    typealias Fixture = SimulatorFixture

    /// Runs a simulator with faults, and a client of its HTTP/2 listener.
    private func withClient<Value: Sendable>(
        _ faults: [Fault],
        responseTimeout: Duration = .seconds(20),
        _ body: @escaping @Sendable (Simulator, RequestClient) async throws -> Value
    ) async throws -> Value {
        try await Simulator.withRunning(try Fixture.configuration(faults)) { simulator in
            var configuration = HTTP2Configuration(
                endpoint: HTTP2Endpoint(host: "127.0.0.1", port: simulator.http2Port),
                identity: try Fixture.provider.get().identity,
                trust: .pem(try Fixture.authority.get().certificatePEM)
            )
            configuration.backoff.first = .milliseconds(5)
            configuration.responseTimeout = responseTimeout
            return try await RequestClient.withClient(configuration) { try await body(simulator, $0) }
        }
    }

    private static func request(_ device: Int) throws -> PushRequest {
        PushRequest(token: try Fixture.token(device), payload: ByteBuffer(string: "{\"aps\":{}}"))
    }

    private func count(_ simulator: Simulator, _ device: Int) throws -> Int {
        simulator.receivedCount(of: try Fixture.token(device))
    }

    // MARK: HTTP/2

    @Test(arguments: [Fault.Effect.closeBefore, .closeAfter], FaultReport.Ending.allCases)
    func `a connection that ends at a request leaves it indeterminate, accepted or not`(
        _ effect: Fault.Effect,
        _ ending: FaultReport.Ending
    ) async throws {
        let fault = Fault(at: .notificationOverall(2), effect, report: FaultReport(ending: ending))
        try await self.withClient([fault]) { simulator, client in
            #expect(try await client.send(Self.request(1)) == .accepted)
            let second = try await client.send(Self.request(2))
            guard case .indeterminate(.connectionLost) = second else {
                Issue.record("\(second)")
                return
            }
            #expect(try await client.send(Self.request(3)) == .accepted)
            let counts = try (1...3).map { try self.count(simulator, $0) }
            #expect(counts == [1, effect == .closeAfter ? 1 : 0, 1])
        }
    }

    @Test func `an ignored request has no response, and later ones have theirs`() async throws {
        let fault = Fault(at: .notification(1), .ignore)
        try await self.withClient([fault], responseTimeout: .milliseconds(300)) { simulator, client in
            let (first, second) = (try Self.request(1), try Self.request(2))
            async let unanswered = client.send(first)
            let answered = await client.send(second)
            let outcomes = [await unanswered, answered]
            #expect(outcomes.contains(.accepted) && outcomes.contains(.indeterminate(.deadline)), "\(outcomes)")
            #expect(simulator.statistics.processedCount == 1)
        }
    }

    @Test func `a delayed request is accepted late, and later ones are not delayed`() async throws {
        let fault = Fault(at: .token(prefix: try Fixture.token(1).hexadecimal), .delay(.milliseconds(500)))
        try await self.withClient([fault]) { simulator, client in
            let (start, slow) = (ContinuousClock.now, try Self.request(1))
            async let late = client.send(slow)
            #expect(try await client.send(Self.request(2)) == .accepted)
            #expect(try self.count(simulator, 1) == 0)
            #expect(await late == .accepted)
            #expect(ContinuousClock.now - start >= .milliseconds(500))
            #expect(try self.count(simulator, 1) == 1)
        }
    }

    @Test func `a rejection is sent after the delay of its report`() async throws {
        let report = FaultReport(delay: .milliseconds(300))
        let fault = Fault(at: .always, .reject(reason: .badDeviceToken), report: report)
        try await self.withClient([fault]) { _, client in
            let start = ContinuousClock.now
            let outcome = try await client.send(Self.request(1))
            #expect(outcome == .rejected(.http2(PushRejection(status: 400, reason: .badDeviceToken))))
            #expect(ContinuousClock.now - start >= .milliseconds(300))
        }
    }

    @Test func `a stream limit applies from its notification on`() async throws {
        // The first response tells the client the limit, and the delays make the others wait for each other.
        let faults = [
            Fault(at: .notification(1), .limitStreams(1)),
            Fault(at: .always, .delay(.milliseconds(50))),
        ]
        try await self.withClient(faults) { simulator, client in
            #expect(try await client.send(Self.request(1)) == .accepted)
            let start = ContinuousClock.now
            try await withThrowingTaskGroup(of: DeliveryOutcome.self) { group in
                for device in 2...7 {
                    let request = try Self.request(device)
                    group.addTask { await client.send(request) }
                }
                for try await outcome in group { #expect(outcome == .accepted) }
            }
            #expect(ContinuousClock.now - start >= .milliseconds(6 * 50))
            #expect(simulator.statistics.processedCount == 7)
        }
    }

    @Test func `a refused handshake costs a client only time`() async throws {
        let fault = Fault(at: .connection(1), .refuseHandshake, listener: .http2)
        try await self.withClient([fault]) { simulator, client in
            let outcome = try await client.send(Self.request(1))
            #expect(outcome == .accepted && simulator.statistics.processedCount == 1)
        }
    }

    @Test(arguments: FaultReport.Ending.allCases)
    func `a refused connection accepts nothing, and the next one does`(
        _ ending: FaultReport.Ending
    ) async throws {
        let fault = Fault(at: .connection(1), .refuseConnection, report: FaultReport(ending: ending))
        try await self.withClient([fault]) { simulator, client in
            // Whether the client had written the first when the connection ended is random.
            let outcomes = [try await client.send(Self.request(1)), try await client.send(Self.request(2))]
            #expect(outcomes[1] == .accepted, "\(outcomes)")
            #expect(simulator.statistics.processedCount == outcomes.filter { $0 == .accepted }.count)
        }
    }

    // MARK: Feedback

    /// Adds devices 1 to 3 to the list, and reads it on several connections that end before it is acknowledged.
    private func lists(_ faults: [Fault], connectionCount: Int) async throws -> [ScriptedProvider.Ending] {
        try await Simulator.withRunning(try Fixture.configuration(faults)) { simulator in
            for device in 1...3 { simulator.remove(try Fixture.token(device), at: 1_700_000_000_000) }
            var bytes = try Fixture.messages(3)
            bytes.writeImmutableBuffer(try Fixture.probe(4))
            #expect(try await Fixture.send(bytes, to: simulator).bytes == Fixture.response(2, 4))
            var endings: [ScriptedProvider.Ending] = []
            for _ in 0..<connectionCount {
                let ending = try await ScriptedProvider.withConnection(
                    port: simulator.feedbackPort,
                    tls: try Fixture.client()
                ) { try await $0.end() }
                endings.append(ending)
            }
            return endings
        }
    }

    @Test(arguments: FaultReport.Ending.allCases)
    func `a list is cut within a tuple on the chosen connection`(_ ending: FaultReport.Ending) async throws {
        let cut = Fault(at: .connection(1), .cutList(byteCount: 50), report: FaultReport(ending: ending))
        let endings = try await self.lists([cut], connectionCount: 2)
        #expect(endings.map(\.bytes.count) == [50, 3 * 38])
        #expect(endings.map(\.hasCloseNotify) == [ending == .orderly || ending == .abrupt, true])
    }

    @Test func `a list is both slowed down and cut`() async throws {
        let faults = [
            Fault(at: .always, .slowWriting(TransferPace(byteCount: 9, interval: .milliseconds(1)))),
            Fault(at: .always, .cutList(byteCount: 40)),
        ]
        #expect(try await self.lists(faults, connectionCount: 1).map(\.bytes.count) == [40])
    }

    @Test func `a feedback connection is refused after its handshake, and the list is kept`() async throws {
        let refused = Fault(at: .connection(1), .refuseConnection, listener: .feedback)
        #expect(try await self.lists([refused], connectionCount: 2).map(\.bytes.count) == [0, 3 * 38])
    }

    // MARK: The binary protocol

    @Test func `a delayed notification is accepted late, and later ones wait`() async throws {
        let fault = Fault(at: .notification(2), .delay(.milliseconds(300)))
        let start = ContinuousClock.now
        try await Simulator.withRunning(try Fixture.configuration([fault])) { simulator in
            var bytes = try Fixture.messages(5)
            bytes.writeImmutableBuffer(try Fixture.probe(6))
            #expect(try await Fixture.send(bytes, to: simulator).bytes == Fixture.response(2, 6))
            #expect(simulator.receivedNotifications.map(\.identifier) == [1, 2, 3, 4, 5])
        }
        #expect(ContinuousClock.now - start >= .milliseconds(300))
    }

    @Test func `after an ignored notification nothing is accepted or answered`() async throws {
        let fault = Fault(at: .notification(3), .ignore)
        try await Simulator.withRunning(
            try Fixture.configuration([fault]) { $0.listener.outcomeTimeout = .milliseconds(200) }
        ) { simulator in
            var bytes = try Fixture.messages(5)
            bytes.writeImmutableBuffer(try Fixture.probe(6))
            // The listener gives up the outcome, and its response names 2 as the last one.
            #expect(try await Fixture.send(bytes, to: simulator).bytes == Fixture.response(10, 2))
            #expect(simulator.statistics.processedCount == 2)
        }
    }

    @Test func `a connection ends before a notification is accepted, without a response`() async throws {
        let fault = Fault(at: .notification(3), .closeBefore)
        try await Simulator.withRunning(try Fixture.configuration([fault])) { simulator in
            let ending = try await Fixture.send(try Fixture.messages(5), to: simulator)
            #expect(ending.bytes == [] && ending.hasCloseNotify)
            #expect(simulator.statistics.processedCount == 2)
            #expect(simulator.statistics.rejectedCount == 0)
        }
    }

    @Test func `a connection is closed instead of a handshake`() async throws {
        let fault = Fault(at: .connection(1), .refuseHandshake, listener: .binary)
        try await Simulator.withRunning(try Fixture.configuration([fault])) { simulator in
            let bytes = try Fixture.probe(1)
            // `withConnection` mistakes the end of a connection for the end of its handshake.
            let first = try? await Fixture.send(bytes, to: simulator)
            #expect(first?.bytes ?? [] == [] && first?.hasCloseNotify != true)
            #expect(simulator.statistics.connectionCount == 0)
            #expect(try await Fixture.send(bytes, to: simulator).bytes == Fixture.response(2, 1))
        }
    }
}
