// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import APNSProviderHTTP2
import APNSTesting
import Testing

/// Goal: an outage of a simulator ends all connections and refuses new ones, for as long as a closure runs.
@Suite(.timeLimit(.minutes(1))) struct OutageTests {
    /// The configuration of a client that reconnects soon.
    private static func configuration(
        _ listener: SimulatorListener,
        queueTimeout: Duration
    ) throws -> PushClientConfiguration {
        let running = try RunningSimulator.current
        return listener == .binary
            ? running.binaryConfiguration {
                $0.queueTimeout = queueTimeout
                $0.limits.outageTimeout = queueTimeout
                $0.limits.backoff.max = .milliseconds(5)
            }
            : running.http2Configuration { push, _ in
                push.queueTimeout = queueTimeout
                push.backoff.max = .milliseconds(5)
            }
    }

    private struct Interruption: Error {}

    @Test(.runningSimulator, arguments: [SimulatorListener.binary, .http2])
    func `a notification is not sent during an outage, the next one is`(_ listener: SimulatorListener) async throws {
        let running = try RunningSimulator.current
        let notification = PushNotification(to: running.register(), APS(alert: "Hello"))
        let configuration = try Self.configuration(listener, queueTimeout: .milliseconds(500))
        try await PushClient.withClient(configuration) { client in
            #expect(await client.send(notification) == .accepted)
            let during = await running.simulator.withOutage {
                #expect(!running.simulator.connections.contains { $0.closedAt == nil })
                return await client.send(notification)
            }
            #expect(during.kind == .unsent, "\(during)")
            #expect(await client.send(notification) == .accepted)
        }
        #expect(running.simulator.statistics.processedCount == 2)
    }

    @Test(.runningSimulator, arguments: [SimulatorListener.binary, .http2])
    func `a notification that waits for the end of an outage is sent`(_ listener: SimulatorListener) async throws {
        let running = try RunningSimulator.current
        let notification = PushNotification(to: running.register(), APS(alert: "Hello"))
        let configuration = try Self.configuration(listener, queueTimeout: .seconds(30))
        try await PushClient.withClient(configuration) { client in
            // Overlapping outages, the inner of which ends with an error.
            let sending = await running.simulator.withOutage {
                let sending = Task { await client.send(notification) }
                await #expect(throws: Interruption.self) {
                    try await running.simulator.withOutage { throw Interruption() }
                }
                let expected = SimulatorError.notReceived(
                    within: .milliseconds(50),
                    count: 0,
                    overallCount: 0,
                    rejectedCount: 0
                )
                await #expect(throws: expected) {
                    try await running.simulator.next(for: notification.token, within: .milliseconds(50))
                }
                return sending
            }
            #expect(await sending.value == .accepted)
        }
    }

    @Test(.runningSimulator) func `an outage ends if its closure throws`() async throws {
        let running = try RunningSimulator.current
        let notification = PushNotification(to: running.register(), APS(alert: "Hello"))
        await #expect(throws: Interruption.self) { try await running.simulator.withOutage { throw Interruption() } }
        try await PushClient.withClient(running.binaryConfiguration) { client in
            #expect(await client.send(notification) == .accepted)
        }
    }

    @Test(.runningSimulator) func `a client with a key is accepted`() async throws {
        let running = try RunningSimulator.current
        let notification = PushNotification(to: running.register(), APS(alert: "Hello"))
        for configuration in [running.http2Configuration, running.providerTokenConfiguration] {
            try await PushClient.withClient(configuration) { client in
                #expect(await client.send(notification) == .accepted)
            }
        }
        let arrived = running.simulator.receivedNotifications.map(\.connectionNumber)
        let identities = running.simulator.connections.filter { arrived.contains($0.number) }.map { $0.identity?.topic }
        #expect(identities == [running.topic, nil])
    }
}
