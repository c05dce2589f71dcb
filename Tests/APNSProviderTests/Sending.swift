// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import APNSSession
import APNSTestKit
import APNSWire
import NIOConcurrencyHelpers
import NIOCore
import OpenSSLTLS

/// A provider with a scripted gateway, and the outcomes.
enum Sending {
    /// The outcomes of the notifications by number.
    struct Outcomes: Sendable {
        var settlements: [Settlement] = []

        func count(where isMeant: (DeliveryOutcome) -> Bool) -> Int {
            self.settlements.filter { isMeant($0.outcome) }.map(\.numbers.count).reduce(0, +)
        }

        /// The outcome of each, by number.
        var byNumber: [UInt64: [Settlement]] {
            var all: [UInt64: [Settlement]] = [:]
            for settlement in self.settlements {
                for number in settlement.numbers { all[number, default: []].append(settlement) }
            }
            return all
        }
    }

    static func configuration(
        port: Int,
        host: String = "localhost",
        _ change: (inout BinaryConfiguration) -> Void = { _ in }
    ) throws -> BinaryConfiguration {
        var configuration = BinaryConfiguration(
            endpoint: Endpoint(host: host, port: port),
            tls: try Certificates.provider()
        )
        configuration.limits.backoff.first = .milliseconds(5)
        configuration.limits.backoff.max = .milliseconds(50)
        configuration.limits.responseTimeout = .seconds(20)
        change(&configuration)
        return configuration
    }

    /// Starts a gateway, and stops it in any case.
    static func withGateway<Value>(
        tls: TLSConfiguration? = nil,
        script: @escaping @Sendable (Int) -> GatewayScript = { _ in GatewayScript() },
        _ body: (ScriptedGateway) async throws -> Value
    ) async throws -> Value {
        let gateway = try await ScriptedGateway.start(tls: try tls ?? Certificates.gateway(), script: script)
        let result: Result<Value, any Error>
        do { result = .success(try await body(gateway)) } catch { result = .failure(error) }
        try await gateway.stop()
        return try result.get()
    }

    /// Sends this many notifications, numbered in their tokens, and collects the outcomes.
    static func send(_ count: Int, _ configuration: BinaryConfiguration) async throws -> Outcomes {
        let outcomes = NIOLockedValueBox(Outcomes())
        try await self.send(count, configuration, into: outcomes)
        return outcomes.withLockedValue { $0 }
    }

    /// The same, for runs that end with an error.
    static func send(
        _ count: Int,
        _ configuration: BinaryConfiguration,
        into outcomes: NIOLockedValueBox<Outcomes>
    ) async throws {
        let client = try PushClient(.binary(configuration))
        async let running: Void = client.run()
        let result: Result<Void, any Error>
        do {
            for try await record in client.send(Rows(count)) {
                let settlement = Settlement(numbers: record.id..<(record.id + 1), report: record.report)
                outcomes.withLockedValue { $0.settlements.append(settlement) }
            }
            result = .success(())
        } catch {
            result = .failure(error)
        }
        client.finish()
        try await running
        try result.get()
    }

    /// This many notifications, numbered in their tokens.
    struct Rows: AsyncSequence, AsyncIteratorProtocol, Sendable {
        private let count: UInt64
        private let payload: String
        private var next: UInt64 = 0

        init(_ count: Int, payload: String = #"{"aps":{"alert":"hello"}}"#) {
            self.count = UInt64(count)
            self.payload = payload
        }

        mutating func next() async throws -> (id: UInt64, notification: PushNotification)? {
            guard self.next < self.count else { return nil }
            defer { self.next += 1 }
            return (self.next, try Sending.notification(Int(self.next), payload: self.payload))
        }

        func makeAsyncIterator() -> Self { self }
    }

    /// A notification whose token contains its number.
    static func notification(
        _ number: Int,
        payload: String = #"{"aps":{"alert":"hello"}}"#
    ) throws -> PushNotification {
        try PushNotification(token: DeviceToken(bytes: Sending.token(number)), payload: payload)
    }

    static func token(_ number: Int) -> [UInt8] {
        var buffer = ByteBuffer(repeating: 0xA5, count: 24)
        buffer.writeInteger(UInt64(number))
        return Array(buffer.readableBytesView)
    }

    /// The number in a frame's token.
    static func number(_ frame: NotificationFrame) -> UInt64 {
        guard let token = frame.token else { return .max }
        return ByteBuffer(bytes: token.bytes).getInteger(at: 24) ?? .max
    }
}

extension ScriptedGateway {
    /// How many times each notification was accepted, by number.
    var takenCounts: [UInt64: Int] {
        var counts: [UInt64: Int] = [:]
        for record in self.records {
            for frame in record.accepted { counts[Sending.number(frame), default: 0] += 1 }
        }
        return counts
    }

    /// The numbers in the order in which they were first accepted, on all connections.
    var takenInOrder: [UInt64] { self.records.flatMap { $0.accepted.map(Sending.number) } }
}
