// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import APNSProviderHTTP2
import APNSTesting
import Testing

/// Goal: a clock that is advanced ends exactly the waits whose time has come.
@Suite(.timeLimit(.minutes(1))) struct ManualClockTests {
    @Test func `only those whose time has come are woken`() async throws {
        let clock = ManualClock(timestamp: Timestamp(secondsSince1970: 1000))
        let short = Task { try await clock.sleep(for: .seconds(1)) }
        let long = Task { try await clock.sleep(for: .seconds(2)) }
        try await clock.waitForSleepers(2)
        clock.advance(by: .milliseconds(1500))
        try await short.value
        #expect(clock.timestamp.millisecondsSince1970 == 1_001_500)
        let error = await #expect(throws: ManualClock.TooFewSleepers.self) {
            try await clock.waitForSleepers(2, within: .milliseconds(10))
        }
        #expect(error?.count == 1 && error?.expectedCount == 2)
        long.cancel()
        await #expect(throws: CancellationError.self) { try await long.value }
        // A time that has come needs no advance.
        try await clock.sleep(until: clock.now)
    }

    @Test(.runningSimulator { $0.use(Self.simulated) })
    func `a simulator measures time with the clock`() async throws {
        let running = try RunningSimulator.current
        let token = running.register()
        Self.simulated.advance(by: .seconds(5))
        let client = try PushClient(running.binaryConfiguration)
        async let run: Void = client.run()
        #expect(await client.send(PushNotification(token: token, payload: "{\"aps\":{}}")) == .accepted)
        client.finish()
        try await run
        #expect(
            try await running.simulator.next(for: token, within: .seconds(10)).timestamp
                == Timestamp(secondsSince1970: 1005)
        )
    }

    @Test(.runningSimulator) func `a token that was rejected over HTTP/2 is suppressed by the clock`() async throws {
        let (running, clock) = (try RunningSimulator.current, ManualClock())
        let endpoint = HTTP2Endpoint(host: "localhost", port: running.simulator.http2Port)
        let configuration = PushClientConfiguration.http2(
            endpoint,
            identity: running.identity,
            trust: running.authority.trust
        ) { push, _ in push.suppressionClock = clock }
        let unknown = try DeviceToken(bytes: [UInt8](repeating: 2, count: 32))
        let notification = PushNotification(token: unknown, payload: "{\"aps\":{\"badge\":1}}")
        let client = try PushClient(configuration)
        async let run: Void = client.run()
        var outcomes = [await client.send(notification).kind]
        clock.advance(by: .milliseconds(3_599_999))
        outcomes.append(await client.send(notification).kind)
        clock.advance(by: .milliseconds(1))
        outcomes.append(await client.send(notification).kind)
        client.finish()
        try await run
        #expect(outcomes == [.rejected, .suppressed, .rejected])
    }

    private static let simulated = ManualClock(timestamp: Timestamp(secondsSince1970: 1000))
}
