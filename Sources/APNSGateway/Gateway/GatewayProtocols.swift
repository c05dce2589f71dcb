// SPDX-License-Identifier: Apache-2.0

public import APNSProvider
public import APNSServer
public import APNSWire

/// A provider that a gateway admits.
public struct GatewayProvider: Hashable, Sendable {
    /// The name in logs, metrics and the store.
    ///
    /// Connections with the same name belong to the same provider: what it resends on one of them is compared with what
    /// it sent on another.
    public var name: String

    /// The app of its notifications, with the suffix of the push type if there is one.
    public var topic: String

    /// Creates a provider.
    ///
    /// - Parameters:
    ///   - name: the name, the same for each connection of this provider.
    ///   - topic: the app of its notifications, usually the topic of its certificate.
    public init(name: String, topic: String) {
        self.name = name
        self.topic = topic
    }
}

/// Decides which providers may use a gateway.
public protocol GatewayAdmission: Sendable {
    /// Decides about a connection, whose certificate was verified.
    ///
    /// The connection is not read before the decision, so a slow one delays only this provider. After
    /// ``PushGatewayConfiguration/admissionTimeout``, and if an error is thrown, the provider is refused: nothing of it
    /// is delivered, and its connection is closed. The task is cancelled if the connection closes.
    ///
    /// - Parameter connection: the certificate and the address.
    /// - Returns: the provider; `nil` to refuse it.
    /// - Throws: any error, which is logged and refuses the provider.
    func admit(_ connection: ProviderConnection) async throws -> GatewayProvider?
}

/// Delivers the notifications of a gateway.
public protocol GatewayUpstream: Sendable {
    /// Delivers one notification.
    ///
    /// Called for several notifications at a time, in no particular order. Further attempts for a notification, see
    /// ``PushGatewayConfiguration/retries``, have the same `PushNotification.apnsID`.
    ///
    /// - Parameters:
    ///   - notification: the notification, with its topic and the inferred push type.
    ///   - provider: the provider that sent it.
    /// - Returns: the outcome of this attempt: `unsent` if it was not delivered, `indeterminate` if that is unknown.
    func deliver(_ notification: PushNotification, from provider: GatewayProvider) async -> DeliveryOutcome
}

/// A client is an upstream: what it returns is the outcome of the attempt.
extension PushClient: GatewayUpstream {
    /// Sends a notification, and waits for its outcome.
    public func deliver(_ notification: PushNotification, from provider: GatewayProvider) async -> DeliveryOutcome {
        await self.send(notification)
    }
}

/// Stores what a gateway has to know after a restart: rows of a key and a value, both short texts.
///
/// The rows are the dead tokens of the feedback service, and digests of notifications that were delivered although
/// their providers are going to send them again. Each row is private to the gateway. A table with the key as primary
/// key is enough.
public protocol GatewayStore: Sendable {
    /// Reads all rows; called once, before the gateway listens.
    ///
    /// - Returns: the values by their keys.
    /// - Throws: any error, which ends ``PushGateway/run()``.
    func load() async throws -> [String: String]

    /// Stores rows; returns when all of them are durable.
    ///
    /// Called for one batch of at most ``PushGateway/savedRowCountMax`` rows at a time. Whatever depends on a row waits
    /// until it is durable, so a slow store delays error responses and the outcomes of dead tokens, and nothing else.
    ///
    /// - Parameter rows: the new values by their keys; `nil` removes a row, if it is there.
    /// - Throws: any error, which is logged. The same rows are passed again after a delay, so it does not matter how
    ///   many of them were stored.
    func save(_ rows: [String: String?]) async throws
}
