// SPDX-License-Identifier: Apache-2.0

import APNSFeedback
import APNSProvider
import APNSTestKit
import Testing

/// Goal: a closure that runs with a client, a simulator or a drain may change what its caller may change.
///
/// Method: each closure changes a local variable, the state of an actor, or that of the main actor. The compiler would
/// refuse that if a closure were `Sendable`; the assertions check that it runs on the actor of its caller.
@Suite(.timeLimit(.minutes(1))) struct ClosureTests {
    /// A value that may not be sent to another task.
    private final class Counter {
        var count = 0
    }

    private struct Fixture {
        let authority: CertificateAuthority
        let identity: TLSIdentity
        let trust: TLSTrust
        let simulated: SimulatorConfiguration

        init() throws {
            self.authority = try CertificateAuthority()
            self.identity = try self.authority.issueClient(topic: "com.example.app").identity
            self.trust = self.authority.trust
            self.simulated = try SimulatorConfiguration(tls: self.authority.makeServerTLS())
        }

        func client(_ simulator: Simulator) -> PushClientConfiguration {
            .binary(host: "localhost", port: simulator.gatewayPort, identity: self.identity, trust: self.trust)
        }

        func feedback(_ simulator: Simulator, spool: String) throws -> FeedbackClient {
            try FeedbackClient(
                host: "localhost",
                port: simulator.feedbackPort,
                identity: self.identity,
                trust: self.trust,
                spool: spool
            )
        }
    }

    @Test func `a local variable and a value that is not Sendable can be changed and returned`() async throws {
        let fixture = try Fixture()
        var outcomes: [DeliveryOutcome] = []
        let scene = try SendScene()
        let counter = try await Simulator.withRunning(fixture.simulated) { simulator in
            let counter = Counter()
            let token = simulator.register(topic: "com.example.app")
            let same = try await PushClient.withClient(fixture.client(simulator)) { client in
                outcomes.append(await client.send(PushNotification(to: token, #"{"aps":{"badge":1}}"#)))
                counter.count += 1
                return counter
            }
            #expect(same === counter)
            simulator.remove(token)
            try await PushClient.withClient(fixture.client(simulator)) { client in
                outcomes.append(await client.send(PushNotification(to: token, #"{"aps":{"badge":1}}"#)))
            }
            try await fixture.feedback(simulator, spool: scene.folder + "/spool").drain { page in
                counter.count += page.count
            }
            return counter
        }
        #expect(outcomes == [.accepted, .accepted])
        #expect(counter.count == 2)
    }

    private actor Sender {
        private var outcomes: [DeliveryOutcome] = []
        private var deadCount = 0

        /// Changes the actor's state in each closure, without `await`.
        func run(_ fixture: Fixture, spool: String) async throws -> (outcomes: [DeliveryOutcome], deadCount: Int) {
            try await Simulator.withRunning(fixture.simulated) { simulator in
                self.assertIsolated()
                let token = simulator.register(topic: "com.example.app")
                try await PushClient.withClient(fixture.client(simulator)) { client in
                    self.assertIsolated()
                    self.outcomes.append(await client.send(PushNotification(to: token, #"{"aps":{"badge":1}}"#)))
                    self.assertIsolated()
                }
                simulator.remove(token)
                try await PushClient.withClient(fixture.client(simulator)) { client in
                    self.outcomes.append(await client.send(PushNotification(to: token, #"{"aps":{"badge":1}}"#)))
                }
                try await fixture.feedback(simulator, spool: spool).drain { page in
                    self.assertIsolated()
                    self.deadCount += page.count
                }
            }
            return (self.outcomes, self.deadCount)
        }
    }

    @Test func `the state of an actor can be changed`() async throws {
        let scene = try SendScene()
        let result = try await Sender().run(try Fixture(), spool: scene.folder + "/spool")
        #expect(result.outcomes == [.accepted, .accepted])
        #expect(result.deadCount == 1)
    }

    @MainActor private static var mainCount = 0

    @MainActor @Test func `the state of the main actor can be changed`() async throws {
        let fixture = try Fixture()
        Self.mainCount = 0
        try await Simulator.withRunning(fixture.simulated) { simulator in
            try await PushClient.withClient(fixture.client(simulator)) { _ in
                MainActor.assertIsolated()
                Self.mainCount += 1
            }
            try await ScriptedProvider.withConnection(
                port: simulator.gatewayPort,
                tls: try fixture.authority.makeClientTLS(topic: "com.example.app")
            ) { _ in
                MainActor.assertIsolated()
                Self.mainCount += 1
            }
        }
        #expect(Self.mainCount == 2)
    }
}
