// SPDX-License-Identifier: Apache-2.0

// Tests of a service that sends: six with a script instead of a client, five with a simulator.

import APNSProvider
import APNSTesting
import Testing

// snippet.code
/// Your code: it needs a client, and remembers which devices are gone.
actor Greeter {
    private let client: any PushClientProtocol
    private(set) var goneDevices: [DeviceToken] = []

    init(_ client: any PushClientProtocol) { self.client = client }

    /// Greets a device, and tries once more if nothing was sent.
    func greet(_ token: DeviceToken, _ name: String) async -> Bool {
        let greeting = PushNotification(to: token, APS(alert: APS.Alert("Hello, \(name)")))
        var outcome = await self.client.send(greeting)
        if case .unsent = outcome { outcome = await self.client.send(greeting) }
        if outcome.isDeadToken { self.goneDevices.append(token) }
        return outcome == .accepted
    }

    /// Greets many devices, and returns how many were reached.
    func greet(_ tokens: [DeviceToken]) async throws -> Int {
        let greeting = APS(alert: "Hello")
        var count = 0
        for try await record in self.client.send(tokens.map { ($0, PushNotification(to: $0, greeting)) }) {
            if record.outcome.isDeadToken { self.goneDevices.append(record.id) }
            if record.outcome == .accepted { count += 1 }
        }
        return count
    }

    /// The device has registered again.
    func welcome(_ token: DeviceToken) {
        self.goneDevices.removeAll { $0 == token }
        self.client.allow(token)
    }
}

// snippet.end

// snippet.script
/// Without certificates, ports and waiting: the outcomes are a script.
@Suite struct GreeterTests {
    private let token: DeviceToken

    init() throws { self.token = try DeviceToken(bytes: [UInt8](repeating: 1, count: 32)) }

    @Test func `a greeting contains the name`() async throws {
        let client = ScriptedPushClient()
        #expect(await Greeter(client).greet(token, "Ann"))
        let sent = try await client.next(within: .seconds(10))
        #expect(sent.token == token && sent.payloadText.contains("Hello, Ann"))
    }

    @Test func `what was not sent is tried once more`() async {
        let client = ScriptedPushClient([.unsent(.deadline), .accepted])
        #expect(await Greeter(client).greet(token, "Ann"))
        #expect(client.sent.count == 2)
    }

    @Test func `what may have arrived is not tried again`() async {
        let client = ScriptedPushClient([.indeterminate(nil)])
        #expect(await !Greeter(client).greet(token, "Ann"))
        #expect(client.sent.count == 1)
    }

    @Test func `a device that is gone is remembered until it registers again`() async {
        let client = ScriptedPushClient([.rejected(.binary(.invalidToken))])
        let greeter = Greeter(client)
        #expect(await !greeter.greet(token, "Ann"))
        #expect(await greeter.goneDevices == [token])
        await greeter.welcome(token)
        #expect(await greeter.goneDevices.isEmpty && client.allowed == [token])
    }

    @Test func `the devices that were reached are counted`() async throws {
        let client = ScriptedPushClient([.accepted, .rejected(.unregistered(at: nil))])
        #expect(try await Greeter(client).greet([token, token, token]) == 2)
    }

    @Test func `a slow service delays a greeting and loses nothing`() async throws {
        let clock = ManualClock()
        let client = ScriptedPushClient { _, _ in
            try? await clock.sleep(for: .seconds(30))
            return DeliveryReport(.accepted)
        }
        async let isGreeted = Greeter(client).greet(token, "Ann")
        try await clock.waitForSleepers(within: .seconds(10))
        clock.advance(by: .seconds(30))
        #expect(await isGreeted)
    }
}
// snippet.end

// snippet.simulator
/// The whole way, with a real client and a simulated service.
@Suite(.runningSimulator, .timeLimit(.minutes(1))) struct GreeterServiceTests {
    @Test func `a greeting arrives at its device`() async throws {
        let running = try RunningSimulator.current
        let token = running.register()
        try await PushClient.withClient(running.binaryConfiguration) { client in
            #expect(await Greeter(client).greet(token, "Ann"))
        }
        let arrived = try await running.simulator.next(for: token, within: .seconds(10))
        #expect(arrived.payloadText.contains("Hello, Ann"))
    }

    @Test(.runningSimulator) func `all greetings arrive in order`() async throws {
        let running = try RunningSimulator.current
        let tokens = (1...3).map { _ in running.register() }
        try await PushClient.withClient(running.binaryConfiguration) { client in
            let count = try await Greeter(client).greet(tokens)
            #expect(count == 3)
        }
        var arrived = running.simulator.notifications.makeAsyncIterator()
        #expect(try await arrived.next(count: 3, within: .seconds(10)).map(\.token) == tokens)
    }

    @Test func `a rejected token is not tried for an hour`() async throws {
        let (running, clock) = (try RunningSimulator.current, ManualClock())
        let unknown = try DeviceToken(bytes: [UInt8](repeating: 2, count: 32))
        let greeting = PushNotification(to: unknown, APS(alert: "Hello"))
        try await PushClient.withClient(running.binaryConfiguration { $0.suppressionClock = clock }) { client in
            #expect(await client.send(greeting).isDeadToken)
            #expect(await client.send(greeting) == .suppressed)
            clock.advance(by: .seconds(3600))
            #expect(await client.send(greeting) != .suppressed)
        }
    }

    @Test(.runningSimulator { $0.faults = [Fault(at: .notification(1), .closeAfter, occurrenceCountMax: 1)] })
    func `a lost connection loses no greeting`() async throws {
        let running = try RunningSimulator.current
        let tokens = (1...3).map { _ in running.register() }
        try await PushClient.withClient(running.binaryConfiguration) { client in
            let count = try await Greeter(client).greet(tokens)
            #expect(count == 3)
        }
    }
}
// snippet.end

// snippet.outage
/// The service is away for a while, over both protocols.
@Suite(.timeLimit(.minutes(1))) struct GreeterOutageTests {
    @Test(.runningSimulator) func `after an outage, greetings arrive again`() async throws {
        let running = try RunningSimulator.current
        let token = running.register()
        let configuration = running.binaryConfiguration {
            $0.queueTimeout = .milliseconds(500)  // how long a notification waits for a connection; 30 s by default
            $0.limits.backoff.max = .milliseconds(10)
        }
        try await PushClient.withClient(configuration) { client in
            let greeter = Greeter(client)
            #expect(await running.simulator.withOutage { await greeter.greet(token, "Ann") } == false)
            #expect(await greeter.greet(token, "Ann"))
        }
    }
}
// snippet.end
