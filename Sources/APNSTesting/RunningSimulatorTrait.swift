// SPDX-License-Identifier: Apache-2.0

import APNSCertificates
import APNSProviderHTTP2
import APNSServer
public import APNSTestKit
public import Testing

/// Runs a simulator for a test or a suite.
///
/// On a test, each of its cases has a simulator of its own. On a suite, all of its tests share one, also while they run
/// at the same time: let each test register devices of its own.
public struct RunningSimulatorTrait: TestTrait, SuiteTrait, TestScoping {
    private static let keyID = "TESTKEY001"
    private static let teamID = "TESTTEAM01"

    let topic: String
    let configure: @Sendable (inout SimulatorConfiguration) throws -> Void

    /// Runs a test or a suite with a simulator, and ends the simulator afterwards.
    ///
    /// - Throws: the error of `function`, or an error of the simulator's configuration.
    @concurrent
    public func provideScope(
        for test: Test,
        testCase: Test.Case?,
        performing function: @concurrent @Sendable () async throws -> Void
    ) async throws {
        let authority = try CertificateAuthority()
        let identity = try authority.issueClient(topic: self.topic).identity
        var configuration = try SimulatorConfiguration(tls: authority.makeServerTLS())
        let privateKey = try ES256PrivateKey(bytes: CertificateAuthority.makeKeyPEM(.p256))
        let key = try ProviderTokenKey(key: privateKey, keyID: Self.keyID, teamID: Self.teamID)
        configuration.http2.tokenKeys[key.keyID] = try .init(key: privateKey.publicKey, teamID: key.teamID)
        try self.configure(&configuration)
        // By the clock of the simulator, which the test may advance.
        let providerToken = ProviderTokenSource(key: key, now: configuration.http2.clock)
        try await withoutActuallyEscaping(function) { function in
            try await Simulator.withRunning(configuration) { [topic] simulator in
                let running = RunningSimulator(
                    simulator: simulator,
                    authority: authority,
                    topic: topic,
                    identity: identity,
                    providerToken: providerToken
                )
                try await RunningSimulator.$running.withValue(running) { try await function() }
            }
        }
    }
}

extension Trait where Self == RunningSimulatorTrait {
    /// Runs a simulator, which ``RunningSimulator/current`` returns.
    public static var runningSimulator: Self { .runningSimulator() }

    /// Runs a simulator, which ``RunningSimulator/current`` returns.
    ///
    /// - Parameters:
    ///   - topic: the topic of the provider's certificate; by default `com.example.app`.
    ///   - configure: changes the configuration of the simulator, for example its faults.
    /// - Returns: the trait.
    public static func runningSimulator(
        topic: String = "com.example.app",
        _ configure: @escaping @Sendable (inout SimulatorConfiguration) throws -> Void = { _ in }
    ) -> Self {
        RunningSimulatorTrait(topic: topic, configure: configure)
    }
}
