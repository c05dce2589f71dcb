// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import APNSTesting
import Testing

/// Goal: a test reads the simulator of the trait, and learns if there is none.
@Suite struct RunningSimulatorTests {
    @Test func `without the trait, an error names it`() {
        let error = #expect(throws: RunningSimulator.NotRunning.self) { try RunningSimulator.current }
        #expect("\(error as Any)".contains(".runningSimulator"))
    }

    @Test(.timeLimit(.minutes(1)), .runningSimulator) func `a wait for too many ends with the counts`() async throws {
        let running = try RunningSimulator.current
        let token = running.register()
        let client = try PushClient(running.binaryConfiguration)
        async let run: Void = client.run()
        #expect(await client.send(PushNotification(token: token, payload: "{\"aps\":{}}")) == .accepted)
        client.finish()
        try await run
        var arrived = running.simulator.notifications.makeAsyncIterator()
        let expected = SimulatorError.tooFewReceived(
            within: .milliseconds(10),
            count: 1,
            expectedCount: 2,
            rejectedCount: 0
        )
        await #expect(throws: expected) { try await arrived.next(count: 2, within: .milliseconds(10)) }
        #expect(try await arrived.next(within: .seconds(10)).token == token)
    }
}
