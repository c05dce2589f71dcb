// SPDX-License-Identifier: Apache-2.0

import APNSProviderHTTP2
import APNSServer
import APNSSession
import APNSTestKit
import APNSWire
import Logging
import NIOConcurrencyHelpers
import NIOCore
import NIOPosix
import OpenSSLTLS
import TestSupport

/// The certificates, keys and requests of these tests.
enum PushFixture {
    static let topic = "com.example.app"
    static let keyID = "ABC123DEFG"
    static let teamID = "TEAM123456"
    static let authority = Result { try CertificateAuthority() }
    static let server = Result { try Self.authority.get().issueServer() }
    static let provider = Result { try Self.authority.get().issueClient(topic: Self.topic) }
    /// A P-256 key; it does not matter which certificate it belongs to.
    static let signer = Result { try ES256PrivateKey(bytes: Self.provider.get().keyPEM) }
    static let otherSigner = Result { try ES256PrivateKey(bytes: Self.server.get().keyPEM) }
    static let quiet = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }

    static func trust() throws -> TLSTrust { .pem(try Self.authority.get().certificatePEM) }

    /// A port that refuses connections.
    static func unusedPort() async throws -> Int {
        let listener = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .bind(host: "127.0.0.1", port: 0).get()
        let port = listener.localAddress?.port ?? 0
        try await listener.close()
        return port
    }

    static func token(_ number: Int) throws -> DeviceToken {
        try DeviceToken(bytes: [UInt8](repeating: 0xD0, count: 30) + [UInt8(number >> 8 & 255), UInt8(number & 255)])
    }

    static func request(_ number: Int = 1, topic: String? = nil) throws -> PushRequest {
        PushRequest(token: try Self.token(number), payload: ByteBuffer(string: #"{"aps":{}}"#), topic: topic)
    }

    static func serverConfiguration() throws -> HTTP2ListenerConfiguration {
        var configuration = HTTP2ListenerConfiguration(
            identity: try Self.server.get().identity,
            clientTrust: try Self.trust()
        )
        let key = HTTP2ListenerConfiguration.TokenKey(
            key: try Self.signer.get().publicKey,
            teamID: Self.teamID
        )
        configuration.tokenKeys = [Self.keyID: key]
        configuration.shutdownTimeout = .seconds(1)
        return configuration
    }

    static func clientConfiguration(port: Int) throws -> HTTP2Configuration {
        let identity = try Self.provider.get().identity
        let endpoint = HTTP2Endpoint(host: "127.0.0.1", port: port)
        return Self.quick(HTTP2Configuration(endpoint: endpoint, identity: identity, trust: try Self.trust()))
    }

    static func tokenConfiguration(port: Int, signer: ES256PrivateKey? = nil) throws -> HTTP2Configuration {
        let endpoint = HTTP2Endpoint(host: "127.0.0.1", port: port)
        let tokens = ProviderTokenSource(key: try Self.key(signer))
        return Self.quick(HTTP2Configuration(endpoint: endpoint, providerToken: tokens, trust: try Self.trust()))
    }

    static func key(_ signer: ES256PrivateKey? = nil) throws -> ProviderTokenKey {
        try ProviderTokenKey(
            key: try signer ?? Self.signer.get(),
            keyID: Self.keyID,
            teamID: Self.teamID
        )
    }

    /// A source of tokens with another clock.
    static func tokens(_ now: @escaping @Sendable () -> Int64) throws -> ProviderTokenSource {
        ProviderTokenSource(key: try Self.key(), seconds: now)
    }

    private static func quick(_ configuration: HTTP2Configuration) -> HTTP2Configuration {
        var configuration = configuration
        configuration.backoff.first = .milliseconds(5)
        configuration.backoff.max = .milliseconds(20)
        return configuration
    }

    /// Runs a client and a server.
    static func withPair<Value: Sendable>(
        _ service: any PushService,
        server changeServer: (inout HTTP2ListenerConfiguration) throws -> Void = { _ in },
        usesToken: Bool = false,
        client changeClient: @escaping @Sendable (inout HTTP2Configuration) throws -> Void = { _ in },
        _ body: @escaping @Sendable (RequestClient) async throws -> Value
    ) async throws -> Value {
        var configuration = try Self.serverConfiguration()
        try changeServer(&configuration)
        return try await Listener(configuration, service: service, logger: Self.quiet).withRunning { server in
            let port = try await server.boundAddress.port
            var configuration =
                usesToken ? try Self.tokenConfiguration(port: port) : try Self.clientConfiguration(port: port)
            try changeClient(&configuration)
            return try await RequestClient.withClient(configuration, logger: Self.quiet) { try await body($0) }
        }
    }
}
