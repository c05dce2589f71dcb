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

/// Received notifications as values and with waiting, and devices that change meanwhile.
@Suite(.timeLimit(.minutes(1)))
struct ReceivedNotificationTests {
    typealias Fixture = SimulatorFixture

    /// Sends a message to a device over the binary protocol, followed by a probe.
    private static func push(
        _ identifier: UInt32,
        to token: DeviceToken,
        _ simulator: Simulator
    ) async throws -> [UInt8] {
        var bytes = ByteBuffer()
        let frame = NotificationFrame(
            token: token,
            payload: ByteBuffer(string: "{\"aps\":{\"badge\":\(identifier)}}"),
            expiry: 1_700_000_000,
            priority: 5,
            identifier: identifier,
            command: .items
        )
        try frame.write(into: &bytes)
        bytes.writeImmutableBuffer(try Fixture.probe(identifier + 1))
        return try await Fixture.send(bytes, to: simulator).bytes
    }

    private static func withClient<Value: Sendable>(
        _ simulator: Simulator,
        _ body: @escaping @Sendable (RequestClient) async throws -> Value
    ) async throws -> Value {
        let configuration = HTTP2Configuration(
            endpoint: HTTP2Endpoint(host: "127.0.0.1", port: simulator.http2Port),
            identity: try Fixture.provider.get().identity,
            trust: .pem(try Fixture.authority.get().certificatePEM)
        )
        return try await RequestClient.withClient(configuration, body)
    }

    // MARK: Values

    @Test func `a notification of the binary protocol is recorded completely`() async throws {
        let configuration = try Fixture.configuration { $0.now = { 1_700_000_000_123 } }
        try await Simulator.withRunning(configuration) { simulator in
            let token = try Fixture.token(1)
            #expect(try await Self.push(7, to: token, simulator) == Fixture.response(2, 8))
            let received = try await simulator.next(for: token, within: .seconds(20))
            #expect(received.number == 1 && received.listener == .binary && received.token == token)
            #expect(received.payloadText == "{\"aps\":{\"badge\":7}}")
            #expect(received.payload == Array(received.payloadText.utf8))
            #expect(received.topic == Fixture.topic && received.priority == 5)
            #expect(received.expiry == .at(secondsSince1970: 1_700_000_000))
            #expect(received.identifier == 7 && received.apnsID == nil && received.pushType == nil)
            #expect(received.connectionNumber == 1 && received.notificationNumber == 1 && !received.isDead)
            #expect(received.timestamp == 1_700_000_000_123)
            #expect(received.isAccepted && received.duration.map { $0 > .zero && $0 < .seconds(20) } == true)
            #expect(simulator.receivedNotifications == [received])
        }
    }

    @Test func `bytes that are not a message end the connection without an error response, which is recorded`()
        async throws
    {
        try await Simulator.withRunning(try Fixture.configuration()) { simulator in
            #expect(try await Fixture.send(ByteBuffer(bytes: [0x16, 3, 1, 0]), to: simulator).bytes == [])
            let recorded = try #require(simulator.rejectedNotifications.first)
            #expect(recorded.isUnanswered && !recorded.isAccepted && recorded.rejection == nil)
            #expect(recorded.duration != nil && recorded.frame == [0x16, 3, 1, 0])
            #expect(simulator.receivedNotifications == [])
        }
    }

    @Test func `a delayed notification has the time of its arrival`() async throws {
        let now = NIOLockedValueBox<Int64>(1_000_000)
        let configuration = try Fixture.configuration { configuration in
            configuration.now = {
                now.withLockedValue { time in
                    time += 1
                    return Timestamp(millisecondsSince1970: time)
                }
            }
            configuration.faults = [Fault(at: .always, .delay(.milliseconds(20)), occurrenceCountMax: 1)]
        }
        try await Simulator.withRunning(configuration) { simulator in
            let token = try Fixture.token(1)
            _ = try await Self.push(7, to: token, simulator)
            let received = try await simulator.next(for: token, within: .seconds(20))
            guard case .delivered(let time)? = received.delivery else { throw CancellationError() }
            #expect(received.timestamp < time)
            #expect(received.duration.map { $0 >= .milliseconds(20) } == true)
        }
    }

    @Test func `a notification over HTTP/2 is recorded completely`() async throws {
        try await Simulator.withRunning(try Fixture.configuration()) { simulator in
            try await Self.withClient(simulator) { client in
                var request = PushRequest(token: try Fixture.token(2), payload: ByteBuffer(string: "{\"aps\":{}}"))
                request.pushType = .background
                request.priority = 5
                request.expiry = .immediately
                request.collapseID = "score"
                #expect(await client.send(request) == .accepted)
                let received = try await simulator.next(for: request.token, within: .seconds(20))
                #expect(received.listener == .http2 && received.apnsID == request.apnsID)
                #expect(received.pushType == .background && received.priority == 5 && received.expiry == .immediately)
                #expect(received.collapseID == "score" && received.identifier == nil)
                #expect(received.topic == Fixture.topic && received.payloadText == "{\"aps\":{}}")
                // The system's clock: after 2025, and before 2100.
                #expect((1_735_000_000_000..<4_100_000_000_000).contains(received.timestamp))
            }
        }
    }

    // MARK: Waiting

    @Test func `a later notification ends only the wait for it`() async throws {
        try await Simulator.withRunning(try Fixture.configuration()) { simulator in
            let clock = ManualClock()
            let (first, second) = (try Fixture.token(1), try Fixture.token(2))
            async let awaited = simulator.next(for: first, within: .seconds(5), clock: clock)
            try await clock.waitForSleepers()
            _ = try await Self.push(20, to: second, simulator)
            clock.advance(by: .seconds(4))
            _ = try await Self.push(10, to: first, simulator)
            #expect(try await awaited.identifier == 10)
            #expect(try await simulator.next(for: second, within: .zero).identifier == 20)
        }
    }

    @Test func `a wait that times out reports what arrived instead, and consumes nothing`() async throws {
        try await Simulator.withRunning(try Fixture.configuration()) { simulator in
            let clock = ManualClock()
            let (first, second) = (try Fixture.token(1), try Fixture.token(2))
            for (identifier, token) in [(1, first), (2, second)] as [(UInt32, DeviceToken)] {
                _ = try await Self.push(identifier, to: token, simulator)
            }
            #expect(try await Self.push(3, to: Fixture.token(999), simulator) == Fixture.response(8, 3))
            #expect(try await simulator.next(for: first, within: .seconds(20)).identifier == 1)
            async let overdue = simulator.next(for: first, within: .seconds(5), clock: clock)
            try await clock.waitForSleepers()
            clock.advance(by: .seconds(5))
            var error: SimulatorError?
            do { _ = try await overdue } catch let caught as SimulatorError { error = caught }
            let expected = SimulatorError.notReceived(
                within: .seconds(5),
                count: 1,
                overallCount: 2,
                rejectedCount: 1
            )
            #expect(error == expected)
            let text = "\(expected)"
            #expect(text.hasPrefix("no further notification for the device token within 5.0 seconds"), "\(text)")
            _ = try await Self.push(4, to: first, simulator)
            #expect(try await simulator.next(for: first, within: .seconds(20)).identifier == 4)
        }
    }

    @Test func `a cancelled task stops waiting`() async throws {
        try await Simulator.withRunning(try Fixture.configuration()) { simulator in
            let (clock, token) = (ManualClock(), try Fixture.token(1))
            let waiting = Task { try await simulator.next(for: token, within: .seconds(5), clock: clock) }
            try await clock.waitForSleepers()
            waiting.cancel()
            await #expect(throws: CancellationError.self) { try await waiting.value }
            _ = try await Self.push(1, to: token, simulator)
            #expect(try await simulator.next(for: token, within: .seconds(20)).identifier == 1)
        }
    }

    @Test func `the end of a simulator ends all waits`() async throws {
        let clock = ManualClock()
        let waits = try await Simulator.withRunning(try Fixture.configuration()) { simulator in
            let token = try Fixture.token(1)
            let next = Task { try await simulator.next(for: token, within: .seconds(5), clock: clock) }
            let all = Task { try await simulator.notifications.reduce(0) { count, _ in count + 1 } }
            try await clock.waitForSleepers()
            _ = try await Self.push(1, to: try Fixture.token(2), simulator)
            return (next, all)
        }
        let error = await #expect(throws: SimulatorError.self) { try await waits.0.value }
        #expect(error == .ended)
        #expect(try await waits.1.value == 1)
    }

    @Test func `a sequence returns stored and new notifications to each of its readers`() async throws {
        let configuration = try Fixture.configuration { $0.receivedCountMax = 2 }
        try await Simulator.withRunning(configuration) { simulator in
            let token = try Fixture.token(1)
            var (first, second) = (
                simulator.notifications.makeAsyncIterator(), simulator.notifications.makeAsyncIterator()
            )
            for identifier in 1...2 { _ = try await Self.push(UInt32(identifier), to: token, simulator) }
            #expect(try await first.next()?.identifier == 1)
            #expect(try await simulator.next(for: token, within: .zero).identifier == 1)
            for identifier in 3...4 { _ = try await Self.push(UInt32(identifier), to: token, simulator) }
            await #expect(throws: SimulatorError.notificationsMissed(count: 2)) { try await second.next() }
            #expect(try await second.next()?.identifier == 3)
            #expect(try await second.next()?.identifier == 4)
            _ = try await Self.push(5, to: token, simulator)
            #expect(try await second.next()?.identifier == 5)
        }
    }

    // MARK: Devices

    @Test func `an app is registered, removed and registered again, and all three listeners follow`() async throws {
        let configuration = try Fixture.configuration { $0.now = { 1_700_000_000_123 } }
        try await Simulator.withRunning(configuration) { simulator in
            let token = simulator.register(topic: Fixture.topic)
            #expect(token.byteCount == 32 && simulator.register(topic: Fixture.topic) != token)
            let device = SimulatedDevice(token: token, topic: Fixture.topic)
            #expect(simulator.device(of: token)?.apps == device.apps)
            try await Self.withClient(simulator) { client in
                let request = PushRequest(token: token, payload: ByteBuffer(string: "{\"aps\":{}}"))
                #expect(await client.send(request) == .accepted)
                #expect(try await Self.push(1, to: token, simulator) == Fixture.response(2, 2))
                #expect(simulator.remove(token) && !simulator.remove(token))
                #expect(!simulator.remove(try Fixture.token(999)))
                // HTTP/2 responds with the time, the gateway accepts silently, and feedback lists it only after that.
                let gone = Rejection.http2(
                    PushRejection(status: 410, reason: .unregistered, timestamp: 1_700_000_000_123)
                )
                #expect(await client.send(PushRequest(token: token, payload: request.payload)) == .rejected(gone))
                #expect(try await Self.feedback(simulator) == [])
                #expect(try await Self.push(3, to: token, simulator) == Fixture.response(2, 4))
                #expect(simulator.receivedNotifications.map(\.isDead) == [false, false, true])
                let tuple = FeedbackTuple(token: token, failedAt: Timestamp(secondsSince1970: 1_700_000_000))
                #expect(simulator.feedback(topic: Fixture.topic, environment: .sandbox) == [tuple])
                var bytes = ByteBuffer()
                tuple.write(into: &bytes)
                #expect(try await Self.feedback(simulator) == Array(bytes.readableBytesView))
                // An entry that was read is not listed again until there is another notification.
                try await eventually("the list is taken off") {
                    simulator.feedback(topic: Fixture.topic, environment: .sandbox) == []
                }
                #expect(try await Self.feedback(simulator) == [])
                _ = try await Self.push(5, to: token, simulator)
                simulator.register(device)
                #expect(try await Self.feedback(simulator) == [])
                #expect(await client.send(PushRequest(token: token, payload: request.payload)) == .accepted)
                #expect(try await Self.push(7, to: token, simulator) == Fixture.response(2, 8))
                #expect(simulator.receivedNotifications.last?.isDead == false)
            }
        }
    }

    /// Reads the feedback to its end.
    private static func feedback(_ simulator: Simulator) async throws -> [UInt8] {
        try await ScriptedProvider.withConnection(port: simulator.feedbackPort, tls: try Fixture.client()) {
            let bytes = try await $0.end().bytes
            // The list is acknowledged when the provider has closed in order.
            try await $0.closeOutput()
            return bytes
        }
    }

    @Test func `a device that is removed at a time has that time`() async throws {
        try await Simulator.withRunning(try Fixture.configuration()) { simulator in
            #expect(simulator.remove(try Fixture.token(1), at: 5_000_000_000_999))
            let device = simulator.devices.flatMap(\.apps).first { $0.removalTimestamp == 5_000_000_000_999 }
            #expect(device?.token == (try Fixture.token(1)))
            // Feedback has 32 bits of seconds.
            _ = try await Self.push(1, to: try Fixture.token(1), simulator)
            #expect(simulator.feedback(topic: Fixture.topic, environment: .sandbox).map(\.failedAtSeconds) == [.max])
        }
    }

    @Test func `devices can be changed by many tasks concurrently`() async throws {
        try await Simulator.withRunning(try Fixture.configuration()) { simulator in
            await withTaskGroup(of: Void.self) { group in
                for _ in 0..<8 {
                    group.addTask {
                        for _ in 0..<50 {
                            let token = simulator.register(topic: Fixture.topic)
                            simulator.remove(token)
                        }
                    }
                }
            }
            #expect(simulator.devices.flatMap(\.apps).filter { $0.removalTimestamp != nil }.count == 401)
        }
    }
}
