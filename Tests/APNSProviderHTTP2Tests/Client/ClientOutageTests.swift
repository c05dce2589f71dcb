// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import APNSSession
import APNSWire
import ListenerFixtures
import Logging
import NIOConcurrencyHelpers
import TestSupport
import Testing

/// Goal: a client survives an outage of any length: notifications that wait too long are unsent with the reason, those
/// sent when the service is back are accepted, and both are logged.
///
/// Method: notifications are sent continuously, over both protocols, without and with a service.
@Suite(.serialized, .timeLimit(.minutes(5))) struct ClientOutageTests {
    private struct Sent: Sendable {
        var number: Int
        var start: ContinuousClock.Instant
        var end: ContinuousClock.Instant
        var outcome: DeliveryOutcome
    }

    /// The options of a client, and the length of the outage.
    private struct Course: Sendable {
        var outage: Duration
        var queueTimeout: Duration
        /// `nil` for the library's default.
        var pauseMax: Duration?
        /// Between two notifications.
        var interval: Duration
    }

    /// Sends one notification after another without waiting for outcomes, until one that was sent after the outage has
    /// its outcome.
    private static func send(
        _ client: PushClient,
        every interval: Duration,
        until isOver: @escaping @Sendable (Sent) -> Bool
    ) async throws -> [Sent] {
        try await withThrowingTaskGroup(of: Sent.self) { group in
            let isDone = NIOLockedValueBox(false)
            var number = 0
            while !isDone.withLockedValue({ $0 }) {
                let (own, notification) = (number, try ClientPeer.notification(number))
                group.addTask {
                    let start = ContinuousClock.now
                    let outcome = await client.send(notification)
                    let sent = Sent(number: own, start: start, end: .now, outcome: outcome)
                    if isOver(sent) { isDone.withLockedValue { $0 = true } }
                    return sent
                }
                number += 1
                try await ClientPeer.pass(interval)
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
    }

    private static func outlive(_ peer: ClientPeer, _ course: Course) async throws {
        let port = try await PushFixture.unusedPort()
        let configuration = try peer.configuration(
            port: port,
            queueTimeout: course.queueTimeout,
            pauseMax: course.pauseMax
        )
        let lines = LogLines()
        let client = try PushClient(configuration, logger: lines.logger(.notice))
        let running = Task { try await client.run() }
        defer { running.cancel() }
        let start = ContinuousClock.now
        let back = NIOLockedValueBox<ContinuousClock.Instant?>(nil)
        let sending = Task {
            try await Self.send(client, every: course.interval) { sent in
                guard let back = back.withLockedValue({ $0 }) else { return false }
                return sent.start > back
            }
        }
        defer { sending.cancel() }
        try await ClientPeer.pass(course.outage)
        try await peer.withService(port: port) { service in
            back.withLockedValue { $0 = .now }
            let sent = try await sending.value
            client.finish()
            // It does not throw.
            try await running.value
            let accepted = sent.filter { $0.outcome == .accepted }.map(\.number)
            #expect(service.numbers().sorted() == accepted.sorted())
            try Self.check(sent, course, start, try #require(back.withLockedValue { $0 }))
        }
        let outages = lines.of("connections fail, retrying")
        #expect(outages.count == 1 && outages.allSatisfy { $0.level == .notice }, "\(lines.all)")
        let metadata = "\(outages.first?.metadata ?? [:])"
        #expect(metadata.contains("refused"))
        let ends = lines.of("connections work again")
        #expect(ends.count == 1 && ends.allSatisfy { $0.level == .notice }, "\(lines.all)")
    }

    private static func check(
        _ sent: [Sent],
        _ course: Course,
        _ start: ContinuousClock.Instant,
        _ back: ContinuousClock.Instant
    ) throws {
        let slack = Duration.seconds(3)
        var unsentCount = 0
        for one in sent {
            let time = start.duration(to: one.start)
            switch one.outcome {
            case .accepted: #expect(one.end > back)
            case .unsent(.unavailable(let failure)):
                unsentCount += 1
                #expect(failure.kind == .refused)
                let wait = one.start.duration(to: one.end)
                #expect(wait < course.queueTimeout + slack, "sent after \(time)")
                #expect(wait > course.queueTimeout * 0.8, "sent after \(time)")
                #expect(one.start < back, "the service was back before it was sent, after \(time)")
            default: Issue.record("sent after \(time): \(one.outcome)")
            }
        }
        // All that were sent early, and none that was sent when the service was back.
        #expect(unsentCount > 0 && unsentCount < sent.count)
    }

    @Test func `an outage is survived and logged`() async throws {
        let course = Course(
            outage: .seconds(3),
            queueTimeout: .seconds(2),
            pauseMax: .milliseconds(200),
            interval: .milliseconds(20)
        )
        async let binary: Void = Self.outlive(.binary, course)
        async let http2: Void = Self.outlive(.http2, course)
        _ = try await (binary, http2)
    }

    @Test(.enabled(if: TestEffort.isLong, "a part of Scripts/test --long"))
    func `an outage of a minute is survived with the default delays`() async throws {
        let course = Course(
            outage: .seconds(60),
            queueTimeout: .seconds(30),
            pauseMax: nil,
            interval: .milliseconds(100)
        )
        async let binary: Void = Self.outlive(.binary, course)
        async let http2: Void = Self.outlive(.http2, course)
        _ = try await (binary, http2)
    }
}
