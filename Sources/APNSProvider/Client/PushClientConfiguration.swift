// SPDX-License-Identifier: Apache-2.0

import APNSSession
public import APNSTransport
package import Logging
package import NIOCore
public import OpenSSLTLS

/// Where and how a ``PushClient`` sends, and over which protocol.
public struct PushClientConfiguration: Sendable {
    /// Where it sends to.
    public let endpoint: Endpoint

    /// Whether payloads are checked before they are sent, as `Payload.check(rules:)` does; the default is `true`.
    ///
    /// What does not pass is invalid, and never leaves this process: one such payload costs its connection over the
    /// binary protocol. The limit of the length is another, and always holds. Turn it off for payloads that were
    /// checked.
    public var checksPayloads = true

    /// Makes what carries the notifications.
    package let makeTransport: @Sendable (any EventLoopGroup, Logger) throws(ProviderError) -> any ClientTransport

    /// Makes a configuration for a protocol.
    ///
    /// - Parameters:
    ///   - endpoint: where it sends to.
    ///   - makeTransport: makes what carries the notifications.
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
    ///   - host: the gateway's name, which its certificate must bear, or its IP address.
    ///   - port: the gateway's port; 2195 by default.
    ///   - identity: the provider's certificate and key.
    ///   - trust: the authorities of the gateway's certificate; those of the system by default.
    ///   - configure: changes what else there is to choose; its ``ProviderConfiguration/limits`` are
    ///     `ProviderLimits.service`.
    /// - Returns: the configuration.
    public static func binary(
        host: String,
        port: Int = Endpoint.gatewayPort,
        identity: TLSIdentity,
        trust: TLSTrust = .system,
        _ configure: (inout ProviderConfiguration) -> Void = { _ in }
    ) -> Self {
        let tls = TLSConfiguration.client(identity: identity, trust: trust)
        var configuration = ProviderConfiguration(endpoint: Endpoint(host: host, port: port), tls: tls)
        configuration.limits = .service
        configure(&configuration)
        return .binary(configuration)
    }

    /// The legacy binary protocol.
    ///
    /// - Parameter configuration: where and how to send; a client that is to outlive outages has
    ///   `ProviderLimits.service` for its ``ProviderConfiguration/limits``.
    /// - Returns: the configuration.
    public static func binary(_ configuration: ProviderConfiguration) -> Self {
        Self(endpoint: configuration.endpoint) { group, logger throws(ProviderError) in
            try BinaryClient(configuration, eventLoopGroup: group, logger: logger)
        }
    }
}

extension PushClientConfiguration: CustomStringConvertible, CustomReflectable {
    /// Where it sends to.
    public var description: String { "\(self.endpoint)" }

    /// Nothing that is not in ``description``, so that `dump` prints one line.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}
