// SPDX-License-Identifier: Apache-2.0

public import APNSProvider
public import APNSWire
public import OpenSSLTLS

/// The addresses of the two services for broadcasts.
public struct BroadcastEndpoints: Hashable, Codable, Sendable {
    /// The service that accepts broadcasts.
    public var sending: HTTP2Endpoint

    /// The service that manages channels.
    public var management: HTTP2Endpoint

    /// Creates addresses, for example twice that of a simulator.
    ///
    /// - Parameters:
    ///   - sending: the service that accepts broadcasts.
    ///   - management: the service that manages channels.
    public init(sending: HTTP2Endpoint, management: HTTP2Endpoint) {
        self.sending = sending
        self.management = management
    }

    /// Apple's services for apps of the App Store, TestFlight and enterprises: `api.push.apple.com` and
    /// `api-manage-broadcast.push.apple.com`, port 2196.
    public static let production = Self(
        sending: .production,
        management: HTTP2Endpoint(host: "api-manage-broadcast.push.apple.com", port: 2196)
    )

    /// Apple's services for apps under development, the sandbox: `api.sandbox.push.apple.com` and
    /// `api-manage-broadcast.sandbox.push.apple.com`, port 2195.
    public static let development = Self(
        sending: .development,
        management: HTTP2Endpoint(host: "api-manage-broadcast.sandbox.push.apple.com", port: 2195)
    )

    /// Apple's services of an environment.
    ///
    /// - Parameter environment: the environment.
    /// - Returns: ``production`` or ``development``.
    public static func apple(_ environment: PushEnvironment) -> Self {
        switch environment {
        case .production: .production
        case .sandbox: .development
        }
    }
}

/// The app, the services and the options of a ``BroadcastClient``.
public struct BroadcastConfiguration: Sendable {
    /// The app's bundle identifier, without the suffix of a push type.
    public var bundleID: String

    /// The service that accepts broadcasts, with its options.
    ///
    /// The limits of payloads have no effect: broadcasts have their own.
    public var sending: HTTP2Configuration

    /// The service that manages channels, with its options.
    ///
    /// At most 32 requests are open on a connection. Those that may have been processed are not repeated, whatever
    /// ``HTTP2Configuration/resendsUnknown`` is: nobody would know a channel that was created twice.
    public var management: HTTP2Configuration

    /// Creates a configuration.
    ///
    /// - Parameters:
    ///   - bundleID: the app's bundle identifier, without the suffix of a push type.
    ///   - sending: the service that accepts broadcasts.
    ///   - management: the service that manages channels.
    public init(bundleID: String, sending: HTTP2Configuration, management: HTTP2Configuration) {
        self.bundleID = bundleID
        self.sending = sending
        self.management = management
    }

    /// Creates a configuration with authentication by a certificate.
    ///
    /// - Parameters:
    ///   - endpoints: the addresses of the services, such as `.production`.
    ///   - identity: the certificate and its key.
    ///   - bundleID: the app's bundle identifier, without the suffix of a push type.
    ///   - trust: the authorities of the services' certificates; those of the system by default.
    ///   - configure: changes the other options, for each of the two services.
    public init(
        _ endpoints: BroadcastEndpoints,
        identity: TLSIdentity,
        bundleID: String,
        trust: TLSTrust = .system,
        _ configure: (inout HTTP2Configuration) -> Void = { _ in }
    ) {
        self.init(endpoints, bundleID, configure) { HTTP2Configuration(endpoint: $0, identity: identity, trust: trust) }
    }

    /// Creates a configuration with authentication by provider tokens.
    ///
    /// - Parameters:
    ///   - endpoints: the addresses of the services, such as `.production`.
    ///   - providerToken: the source of the tokens, shared with all clients that sign with the same key.
    ///   - bundleID: the app's bundle identifier, without the suffix of a push type.
    ///   - trust: the authorities of the services' certificates; those of the system by default.
    ///   - configure: changes the other options, for each of the two services.
    public init(
        _ endpoints: BroadcastEndpoints,
        providerToken: ProviderTokenSource,
        bundleID: String,
        trust: TLSTrust = .system,
        _ configure: (inout HTTP2Configuration) -> Void = { _ in }
    ) {
        self.init(endpoints, bundleID, configure) {
            HTTP2Configuration(endpoint: $0, providerToken: providerToken, trust: trust)
        }
    }

    /// Creates a configuration with authentication by a key of Apple.
    ///
    /// Clients that sign with the same key should share one ``ProviderTokenSource``: if there is also a `PushClient`,
    /// use ``init(_:providerToken:bundleID:trust:_:)``.
    ///
    /// - Parameters:
    ///   - endpoints: the addresses of the services, such as `.production`.
    ///   - path: the .p8 file with the private key.
    ///   - keyID: the key's identifier, 10 letters and digits.
    ///   - teamID: the team's identifier, 10 letters and digits.
    ///   - bundleID: the app's bundle identifier, without the suffix of a push type.
    ///   - trust: the authorities of the services' certificates; those of the system by default.
    ///   - configure: changes the other options, for each of the two services.
    /// - Throws: `ProviderError` of kind `tls` for a file that cannot be read, of kind `configuration` for invalid
    ///   identifiers.
    public init(
        _ endpoints: BroadcastEndpoints,
        p8 path: String,
        keyID: String,
        teamID: String,
        bundleID: String,
        trust: TLSTrust = .system,
        _ configure: (inout HTTP2Configuration) -> Void = { _ in }
    ) throws(ProviderError) {
        let source = try ProviderTokenSource(p8: path, keyID: keyID, teamID: teamID)
        self.init(endpoints, providerToken: source, bundleID: bundleID, trust: trust, configure)
    }

    private init(
        _ endpoints: BroadcastEndpoints,
        _ bundleID: String,
        _ configure: (inout HTTP2Configuration) -> Void,
        _ configuration: (HTTP2Endpoint) -> HTTP2Configuration
    ) {
        var (sending, management) = (configuration(endpoints.sending), configuration(endpoints.management))
        configure(&sending)
        configure(&management)
        self.init(bundleID: bundleID, sending: sending, management: management)
    }
}

extension BroadcastConfiguration: CustomStringConvertible, CustomReflectable {
    /// The app and the addresses, in one line.
    public var description: String {
        "broadcasts of \(self.bundleID) to \(self.sending.endpoint), channels at \(self.management.endpoint)"
    }

    /// Empty, so that `dump` prints only the ``description``.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}
