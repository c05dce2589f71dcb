// SPDX-License-Identifier: Apache-2.0

import APNSSession
public import APNSTransport
package import Logging
package import NIOCore
public import OpenSSLTLS

/// The service, the protocol and the options of a ``PushClient``.
public struct PushClientConfiguration: Sendable {
    /// The address of the service.
    public let endpoint: Endpoint

    /// What is checked in payloads before they are sent; the default is ``PayloadChecks/errors``.
    ///
    /// A notification with an invalid payload has the outcome `invalid` and is not sent: over the binary protocol, each
    /// invalid payload costs a connection. The length limit is separate and always applies. Turn the check off for
    /// payloads that are already checked.
    public var payloadChecks = PayloadChecks.errors

    /// Creates the transport of the client.
    package let makeTransport: @Sendable (any EventLoopGroup, Logger) throws(ProviderError) -> any ClientTransport

    /// Creates a configuration for a protocol.
    package init(
        endpoint: Endpoint,
        _ makeTransport: @escaping @Sendable (any EventLoopGroup, Logger) throws(ProviderError) -> any ClientTransport
    ) {
        self.endpoint = endpoint
        self.makeTransport = makeTransport
    }

    /// The legacy binary protocol.
    ///
    /// - Parameters:
    ///   - host: the gateway's name, which its certificate must contain, or its IP address.
    ///   - port: the gateway's port; 2195 by default.
    ///   - identity: the provider's certificate and key.
    ///   - trust: the authorities of the gateway's certificate; those of the system by default.
    ///   - configure: changes the other options; ``BinaryConfiguration/limits`` are initially
    ///     `BinaryLimits.service`.
    /// - Returns: the configuration.
    public static func binary(
        host: String,
        port: Int = Endpoint.gatewayPort,
        identity: TLSIdentity,
        trust: TLSTrust = .system,
        _ configure: (inout BinaryConfiguration) -> Void = { _ in }
    ) -> Self {
        let tls = TLSConfiguration.client(identity: identity, trust: trust)
        var configuration = BinaryConfiguration(endpoint: Endpoint(host: host, port: port), tls: tls)
        configuration.limits = .service
        configure(&configuration)
        return .binary(configuration)
    }

    /// The legacy binary protocol.
    ///
    /// - Parameter configuration: the gateway and the options; for a client that survives outages, set
    ///   ``BinaryConfiguration/limits`` to `BinaryLimits.service`.
    /// - Returns: the configuration.
    public static func binary(_ configuration: BinaryConfiguration) -> Self {
        Self(endpoint: configuration.endpoint) { group, logger throws(ProviderError) in
            try BinaryClient(configuration, eventLoopGroup: group, logger: logger)
        }
    }
}

extension PushClientConfiguration: CustomStringConvertible, CustomReflectable {
    /// The address of the service.
    public var description: String { "\(self.endpoint)" }

    /// Empty, so that `dump` prints only the ``description``.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}
