// SPDX-License-Identifier: Apache-2.0

import APNSServer
import APNSTestKit
import APNSWire
import NIOCore
import OpenSSLTLS
import TestSupport
import Testing

@testable import APNSSimulator

/// Goal: messages recorded in batches are in the record as if each had been recorded individually.
@Suite(.timeLimit(.minutes(1)))
struct MessageBatchTests {
    typealias Fixture = SimulatorFixture

    /// Notifications in all commands for existing devices, a dead one and an offline one, and a probe.
    private static func messages(_ count: Int, _ random: inout SplitMix64) throws -> ByteBuffer {
        var bytes = ByteBuffer()
        for identifier in 1...count {
            let device = [1, 2, 3, 4, 5, 6, 7, 100, 101].randomElement(using: &random) ?? 1
            let text = String(repeating: "x", count: Int.random(in: 0...300, using: &random))
            let command = [Command.simple, .enhanced, .items].randomElement(using: &random) ?? .simple
            let frame = NotificationFrame(
                token: try Fixture.token(device),
                payload: ByteBuffer(string: "{\"aps\":{\"alert\":\"\(text)\"}}"),
                expiry: command == .simple ? nil : 4_000_000_000,
                priority: command == .items ? 5 : nil,
                identifier: command == .simple ? nil : UInt32(identifier),
                command: command
            )
            try frame.write(into: &bytes)
        }
        bytes.writeImmutableBuffer(try Fixture.probe(UInt32(count) + 1))
        return bytes
    }

    /// The simulator's record of what it received.
    private struct Account: Equatable {
        var record: [ReceivedNotification] = []
        var newest: [UInt64] = []
        var ofToken: [UInt64] = []
        var next: [UInt64] = []
        var counts: [Int] = []
        var statistics = SimulatorStatistics()
        var origins: [UInt64] = []
    }

    private static func account(_ bytes: ByteBuffer, _ configuration: SimulatorConfiguration) async throws -> Account {
        try await Simulator.withRunning(configuration) { simulator in
            let offline = try #require(simulator.device(of: try Fixture.token(100))?.id)
            #expect(simulator.setOnline(false, device: offline))
            _ = try await Fixture.send(bytes, to: simulator)
            var account = Account()
            account.record = simulator.receivedNotifications.map { notification in
                var notification = notification
                #expect(notification.duration.map { $0 > .zero } == true)
                notification.duration = nil
                return notification
            }
            var query = NotificationQuery()
            query.order = .newest
            account.newest = simulator.notifications(query, countMax: 7).map(\.number)
            query.order = .oldest
            query.token = try Fixture.token(2)
            account.ofToken = simulator.notifications(query).map(\.number)
            while let next = try? await simulator.next(for: try Fixture.token(3), within: .zero) {
                account.next.append(next.number)
            }
            account.counts = try (1...101).map { simulator.receivedCount(of: try Fixture.token($0)) }
            account.statistics = simulator.statistics
            // The provider has seen the end of the connection, which the listener may not have counted yet.
            account.statistics.closedConnectionCount = 0
            simulator.visitOrigins { account.origins += Array($0.numbers) }
            return account
        }
    }

    @Test(arguments: 0..<6 as Range<UInt64>) func `the record is the same in both cases`(_ seed: UInt64) async throws {
        var random = SplitMix64(seed: seed)
        let bytes = try Self.messages(300, &random)
        let countMax = seed.isMultiple(of: 2) ? 1000 : 113
        let configuration = try Fixture.configuration {
            $0.now = { 1_700_000_000_123 }
            $0.receivedCountMax = countMax
        }
        var oneByOne = configuration
        oneByOne.onNotification = { _ in }
        let account = try await Self.account(bytes, configuration)
        #expect(try await Self.account(bytes, oneByOne) == account)
        #expect(account.record.count == min(300, countMax) && account.origins == account.record.map(\.number))
        #expect(account.newest == account.record.suffix(7).reversed().map(\.number))
        let token = try Fixture.token(2)
        #expect(account.ofToken == account.record.filter { $0.token == token }.map(\.number))
    }

    @Test func `each change of devices and faults invalidates the token cache`() async throws {
        try await Simulator.withRunning(try Fixture.configuration { $0.now = { 1 } }) { simulator in
            let token = try Fixture.token(1)
            let device = try #require(simulator.device(of: token)?.id)
            let changes: [@Sendable () throws -> Void] = [
                {}, {},
                { simulator.setOnline(false, device: device) },
                { simulator.setOnline(true, device: device) },
                { simulator.remove(token) },
                { simulator.register(topic: Fixture.topic, on: device) },
                { _ = try simulator.add(Fault(at: .always, .closeBefore)) },
            ]
            let client = try Fixture.client()
            try await ScriptedProvider.withConnection(port: simulator.gatewayPort, tls: client) { provider in
                for (index, change) in changes.enumerated() {
                    try change()
                    provider.push(try Fixture.message(UInt32(index), to: 1))
                    try await eventually("it is there") { simulator.statistics.messageCount == index + 1 }
                }
                #expect(try await provider.end().bytes == [])
            }
            #expect(
                simulator.receivedNotifications.map(\.delivery) == [
                    .delivered(at: 1), .delivered(at: 1), .discarded, .delivered(at: 1), .appRemoved, .delivered(at: 1),
                ]
            )
        }
    }

    @Test func `a payload is checked if it differs from the previous one`() async throws {
        try await Simulator.withRunning(try Fixture.configuration()) { simulator in
            for (payloads, status, identifier) in [
                (["{\"a\":1}", "{\"a\":1}", "{\"a\":1]"], 1, 2), (["[1]", "[1]"], 1, 0),
                (["{\"a\":1}", "{\"b\":2}", "{\"b\":2}"], 2, 3), (["{}", "{}", "", "{}"], 4, 2),
            ] as [([String], UInt8, UInt32)] {
                var bytes = ByteBuffer()
                for (index, payload) in payloads.enumerated() {
                    bytes.writeImmutableBuffer(try Fixture.message(UInt32(index), to: 1, payload: payload))
                }
                bytes.writeImmutableBuffer(try Fixture.probe(UInt32(payloads.count)))
                #expect(try await Fixture.send(bytes, to: simulator).bytes == Fixture.response(status, identifier))
            }
        }
    }

    /// Goal: the memory of the record stays close to its limit for any input.
    @Test(arguments: [10, 2000]) func `the oldest notifications are removed at the memory limit`(_ textByteCount: Int)
        async throws
    {
        let byteCountMax = 256 * 1024
        let configuration = try Fixture.configuration { $0.receivedByteCountMax = byteCountMax }
        try await Simulator.withRunning(configuration) { simulator in
            let text = String(repeating: "x", count: textByteCount)
            let count = 1_500_000 / (textByteCount + 64)
            var bytes = ByteBuffer()
            for number in 1...count {
                let payload = "{\"aps\":{\"alert\":\"\(text)\"}}"
                bytes.writeImmutableBuffer(try Fixture.message(UInt32(number), to: number % 9 + 1, payload: payload))
            }
            bytes.writeImmutableBuffer(try Fixture.probe(UInt32(count) + 1))
            #expect(try await Fixture.send(bytes, to: simulator).bytes == Fixture.response(2, UInt32(count) + 1))
            let record = simulator.receivedNotifications
            #expect(record.last?.identifier == UInt32(count) && record.count == simulator.recordCount)
            #expect((byteCountMax / 4...byteCountMax).contains(record.reduce(0) { $0 + $1.frame.count }))
            #expect(simulator.recordBounds.beforeOldest == UInt64(count - record.count))
            #expect(simulator.registry.recorder.byteCount <= byteCountMax)
        }
    }

    @Test func `100,000 notifications are stored by default, in 256 MiB`() throws {
        let configuration = try Fixture.configuration()
        #expect(configuration.receivedCountMax == 100_000 && configuration.receivedByteCountMax == 256 << 20)
        var history = NotificationHistory(
            countMax: configuration.receivedCountMax,
            byteCountMax: configuration.receivedByteCountMax
        )
        var notification = ReceivedNotification(
            listener: .http2,
            token: try Fixture.token(1),
            payload: [UInt8](repeating: 0x20, count: 100),
            connectionNumber: 1,
            notificationNumber: 1
        )
        for _ in 0..<100_050 { _ = history.receive(&notification) }
        #expect(history.count == 100_000 && history.numberBeforeOldest == 50)
        #expect(history.byteCount < 256 << 20)
        notification.payload = [UInt8](repeating: 0x20, count: 5120)
        for _ in 0..<50_000 { _ = history.receive(&notification) }
        #expect(history.byteCount <= 256 << 20 && history.count < 100_000)
    }

    @Test func `a connection caches many tokens correctly`() {
        var random = SplitMix64(seed: 1)
        var known = KnownTokens()
        let tokens = (0..<KnownTokens.countMax + 500).map { _ in
            let bytes = (0..<32).map { _ in UInt8.random(in: 0...1, using: &random) }
            return unsafe bytes.withUnsafeBytes { unsafe TokenWords($0) }
        }
        for (index, token) in tokens.enumerated() {
            #expect(known.entry(token, revision: 1) == nil)
            known.insert(KnownTokens.Entry(device: nil, countIndex: UInt32(index)), token, revision: 1)
            #expect(known.entry(token, revision: 1)?.countIndex == UInt32(index))
            #expect(known.entry(token, revision: 2) == nil)
        }
        // The cache was cleared once, to stay within its limit.
        #expect(known.entry(tokens[0], revision: 1) == nil)
        let last = (tokens.count - 100..<tokens.count).allSatisfy {
            known.entry(tokens[$0], revision: 1)?.countIndex == UInt32($0)
        }
        #expect(last)
        known.insert(KnownTokens.Entry(device: "a", countIndex: nil), tokens[tokens.count - 1], revision: 2)
        #expect(known.entry(tokens[tokens.count - 1], revision: 2)?.device == "a")
    }
}
