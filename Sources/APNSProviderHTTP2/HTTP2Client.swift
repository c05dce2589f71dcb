// SPDX-License-Identifier: Apache-2.0

public import APNSProvider
import APNSSession
import APNSTransport
import APNSWire
import Glibc
import Logging
import NIOConcurrencyHelpers
import NIOCore
public import OpenSSLTLS

extension PushClientConfiguration {
    /// The HTTP/2 provider API, with authentication by a certificate.
    ///
    /// The certificate determines the topic of notifications, and their push type is inferred from the payload.
    ///
    /// - Parameters:
    ///   - endpoint: the address of the service, such as `.production`.
    ///   - identity: the certificate and its key.
    ///   - trust: the authorities of the service's certificate; those of the system by default.
    ///   - configure: changes the other options.
    /// - Returns: the configuration.
    public static func http2(
        _ endpoint: HTTP2Endpoint,
        identity: TLSIdentity,
        trust: TLSTrust = .system,
        _ configure: (inout HTTP2Configuration, inout RequestRules) -> Void = { _, _ in }
    ) -> Self {
        var configuration = HTTP2Configuration(endpoint: endpoint, identity: identity, trust: trust)
        var requests = RequestRules(topic: ProviderIdentity(identity.certificate).topic)
        configure(&configuration, &requests)
        return .http2(configuration, requests)
    }

    /// The HTTP/2 provider API, with authentication by provider tokens.
    ///
    /// The push type of notifications is inferred from the payload.
    ///
    /// - Parameters:
    ///   - endpoint: the address of the service, such as `.production`.
    ///   - providerToken: the source of the tokens.
    ///   - topic: the topic of all notifications.
    ///   - trust: the authorities of the service's certificate; those of the system by default.
    ///   - configure: changes the other options.
    /// - Returns: the configuration.
    public static func http2(
        _ endpoint: HTTP2Endpoint,
        providerToken: ProviderTokenSource,
        topic: String,
        trust: TLSTrust = .system,
        _ configure: (inout HTTP2Configuration, inout RequestRules) -> Void = { _, _ in }
    ) -> Self {
        var configuration = HTTP2Configuration(endpoint: endpoint, providerToken: providerToken, trust: trust)
        var requests = RequestRules(topic: topic)
        configure(&configuration, &requests)
        return .http2(configuration, requests)
    }

    /// The HTTP/2 provider API, with authentication by a key of Apple.
    ///
    /// Clients that sign with the same key should share one ``ProviderTokenSource``: with several clients, use
    /// ``http2(_:providerToken:topic:trust:_:)``.
    ///
    /// - Parameters:
    ///   - endpoint: the address of the service, such as `.production`.
    ///   - path: the .p8 file with the private key.
    ///   - keyID: the key's identifier, 10 letters and digits.
    ///   - teamID: the team's identifier, 10 letters and digits.
    ///   - topic: the topic of all notifications.
    ///   - trust: the authorities of the service's certificate; those of the system by default.
    ///   - configure: changes the other options.
    /// - Returns: the configuration.
    /// - Throws: ``ProviderError/Kind/tls(_:)`` for a file that cannot be read, ``ProviderError/Kind/configuration``
    ///   for invalid identifiers.
    public static func http2(
        _ endpoint: HTTP2Endpoint,
        p8 path: String,
        keyID: String,
        teamID: String,
        topic: String,
        trust: TLSTrust = .system,
        _ configure: (inout HTTP2Configuration, inout RequestRules) -> Void = { _, _ in }
    ) throws(ProviderError) -> Self {
        let source = try ProviderTokenSource(p8: path, keyID: keyID, teamID: teamID)
        return .http2(endpoint, providerToken: source, topic: topic, trust: trust, configure)
    }

    /// The HTTP/2 provider API.
    ///
    /// - Parameters:
    ///   - configuration: the service and the options.
    ///   - requests: how a notification is converted to a request.
    /// - Returns: the configuration.
    public static func http2(_ configuration: HTTP2Configuration, _ requests: RequestRules) -> Self {
        Self(endpoint: configuration.endpoint.address) { group, logger throws(ProviderError) in
            let outages = OutageLog(configuration.endpoint.address, logger)
            let client = try RequestClient(configuration, eventLoopGroup: group, logger: logger, outages: outages)
            return HTTP2Client(client, configuration, requests)
        }
    }
}

/// A client transport for the HTTP/2 provider API.
struct HTTP2Client: ClientTransport {
    private let client: RequestClient
    private let requests: RequestRules
    private let rejected: NIOLockedValueBox<RejectedTokens>

    init(_ client: RequestClient, _ configuration: HTTP2Configuration, _ requests: RequestRules) {
        self.client = client
        self.requests = requests
        self.rejected = NIOLockedValueBox(
            RejectedTokens(suppressedFor: configuration.suppressionDuration, clock: configuration.suppressionClock)
        )
    }

    var sendsIdentifiers: Bool { true }

    func submit(
        _ notification: borrowing PushNotification,
        _ receiver: any SubmissionReceiver,
        key: UInt64
    ) -> SubmissionReceipt {
        let token = notification.token
        if self.rejected.withLockedValue({ $0.isSuppressed(token) }) {
            return self.settleLocally(.suppressed, receiver, key: key)
        }
        let request = self.requests.request(for: notification, now: UInt32(clamping: time(nil)))
        return self.client.submit(request, for: receiver) { report in
            if case .rejected(let rejection) = report.outcome {
                self.rejected.withLockedValue { $0.insert(token, after: rejection) }
            }
            receiver.settle(key..<(key + 1), report)
        }
    }

    func settleLocally(
        _ outcome: DeliveryOutcome,
        _ receiver: any SubmissionReceiver,
        key: UInt64
    ) -> SubmissionReceipt {
        self.client.settleLocally(outcome) { receiver.settle(key..<(key + 1), $0) }
    }

    func withdraw(_ receiver: any SubmissionReceiver, in numbers: Range<UInt64>, _ reason: DeliveryOutcome.Reason) {
        self.client.withdraw(receiver, in: numbers, reason)
    }

    var observer: DeliveryObserver { self.client.observer }

    var outage: ConnectionFailure? { self.client.outage }

    func waitForRoom() async { await self.client.waitForRoom() }

    func waitForEnd() async -> DeliveryOutcome.Reason? { await self.client.waitForEnd() }

    /// Does nothing, since each notification has its own answer.
    func checkpoint() {}

    /// Does nothing, as ``checkpoint()``.
    func endSequence() {}

    func allow(_ token: DeviceToken) { self.rejected.withLockedValue { $0.remove(token) } }

    func run() async throws(ProviderError) { try await self.client.run() }

    func finish() { self.client.finish() }

    func stop() { self.client.stop() }
}
