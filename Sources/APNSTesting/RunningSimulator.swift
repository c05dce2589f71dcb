// SPDX-License-Identifier: Apache-2.0

public import APNSProvider
public import APNSProviderHTTP2
public import APNSTestKit

/// A simulator that runs for a test or a suite, with certificates for both ends.
///
/// Add the trait `.runningSimulator` to a test or a suite, and read ``current`` inside:
///
/// ```swift
/// @Test(.runningSimulator) func `a greeting arrives`() async throws {
///     let running = try RunningSimulator.current
///     let token = running.register()
///     // … send with running.binaryConfiguration or running.http2Configuration …
///     let arrived = try await running.simulator.next(for: token, within: .seconds(10))
/// }
/// ```
public struct RunningSimulator: Sendable {
    /// The simulator.
    public let simulator: Simulator

    /// The authority of all certificates.
    public let authority: CertificateAuthority

    /// The topic of the provider's certificate.
    public let topic: String

    /// The certificate and key of a provider.
    public let identity: TLSIdentity

    /// The configuration of a client for the binary protocol, with the defaults of a service.
    ///
    /// For other options, use ``identity``, the `trust` of ``authority`` and the `gatewayPort` of ``simulator``.
    public var binaryConfiguration: PushClientConfiguration { self.binaryConfiguration { _ in } }

    /// Returns the configuration of a client for the binary protocol.
    ///
    /// - Parameter configure: changes the options, such as the clock of suppressed tokens.
    /// - Returns: the configuration.
    public func binaryConfiguration(_ configure: (inout BinaryConfiguration) -> Void) -> PushClientConfiguration {
        .binary(
            host: "localhost",
            port: self.simulator.gatewayPort,
            identity: self.identity,
            trust: self.authority.trust,
            configure
        )
    }

    /// A key that the simulator accepts, and the provider tokens that it signs.
    ///
    /// All clients of a test share it, since the service refuses tokens that are renewed too often.
    public let providerToken: ProviderTokenSource

    /// The configuration of a client for HTTP/2 with the certificate ``identity``.
    public var http2Configuration: PushClientConfiguration { self.http2Configuration { _, _ in } }

    /// Returns the configuration of a client for HTTP/2 with the certificate ``identity``.
    ///
    /// - Parameter configure: changes the options, such as the clock of suppressed tokens.
    /// - Returns: the configuration.
    public func http2Configuration(
        _ configure: (inout HTTP2Configuration, inout RequestRules) -> Void
    ) -> PushClientConfiguration {
        .http2(self.http2Endpoint, identity: self.identity, trust: self.authority.trust, configure)
    }

    /// The configuration of a client for HTTP/2 with a key instead of a certificate, which signs ``providerToken``.
    public var providerTokenConfiguration: PushClientConfiguration { self.providerTokenConfiguration { _, _ in } }

    /// Returns the configuration of a client for HTTP/2 with a key instead of a certificate, which signs
    /// ``providerToken``.
    ///
    /// - Parameter configure: changes the options, such as the clock of suppressed tokens.
    /// - Returns: the configuration.
    public func providerTokenConfiguration(
        _ configure: (inout HTTP2Configuration, inout RequestRules) -> Void
    ) -> PushClientConfiguration {
        .http2(
            self.http2Endpoint,
            providerToken: self.providerToken,
            topic: self.topic,
            trust: self.authority.trust,
            configure
        )
    }

    /// The configuration of a client for the broadcasts of the app ``topic``, with the certificate ``identity``.
    public var broadcastConfiguration: BroadcastConfiguration {
        BroadcastConfiguration(
            BroadcastEndpoints(sending: self.http2Endpoint, management: self.http2Endpoint),
            identity: self.identity,
            bundleID: self.topic,
            trust: self.authority.trust
        )
    }

    private var http2Endpoint: HTTP2Endpoint { HTTP2Endpoint(host: "localhost", port: self.simulator.http2Port) }

    /// Registers a device with the app ``topic``.
    ///
    /// - Returns: its token.
    public func register() -> DeviceToken { self.simulator.register(topic: self.topic) }

    @TaskLocal static var running: RunningSimulator?

    /// The simulator of the running test: that of its own trait, or else that of the innermost suite with one.
    ///
    /// - Throws: ``NotRunning`` outside of a test with the trait.
    public static var current: RunningSimulator {
        get throws {
            guard let running = Self.running else { throw NotRunning() }
            return running
        }
    }

    /// Neither the test nor one of its suites has the trait that runs a simulator.
    public struct NotRunning: Error, CustomStringConvertible {
        /// What to add.
        public var description: String {
            "no simulator is running; add the trait .runningSimulator to the test or suite"
        }
    }
}
