// SPDX-License-Identifier: Apache-2.0

import APNSGateway
import APNSProvider
import APNSSession
import APNSTransport
package import APNSWire
package import Logging
package import OpenSSLTLS

/// Sends one notification through a running gateway, as an old provider does.
package struct GatewayTest: Sendable {
    /// How long to wait for the gateway: longer than its default limit for reaching the service.
    private static let responseTimeout = Duration.seconds(75)
    private static let connectTimeout = Duration.seconds(5)
    /// How long to wait before reporting that the test is waiting.
    private static let silenceDuration = Duration.seconds(3)

    private let target: ResolvedConfiguration.TestTarget
    private let identity: TLSIdentity
    private let client: PushClient

    /// Prepares a test with the certificate of a provider; the file `trust` has the authorities of the gateway's
    /// certificate.
    ///
    /// - Throws: `ProviderError` if the certificate or the authorities cannot be used.
    package init(
        _ target: ResolvedConfiguration.TestTarget,
        _ identity: TLSIdentity,
        trust: String,
        logger: Logger
    ) throws {
        self.target = target
        self.identity = identity
        self.client = try PushClient(.binary(Self.configuration(target, identity, trust)), logger: logger)
    }

    /// Sends the notification to a device, or to a token that no device has.
    ///
    /// `readsCounts` is whether the admin address of the configuration is that of the gateway; `now` is in seconds
    /// since 1970; `onSilence` is called once if no outcome has come after some seconds.
    ///
    /// - Throws: an error if the notification cannot be created.
    package func send(
        to token: DeviceToken?,
        readsCounts: Bool,
        now: Int64,
        onSilence: @escaping @Sendable () -> Void
    ) async throws -> GatewayTestResult {
        let client = self.client
        let receiver = try token ?? DeviceToken(bytes: (0..<32).map { _ in UInt8.random(in: 0...255) })
        let notification = PushNotification(token: receiver, payload: #"{"aps":{"alert":"apns-legacy gateway test"}}"#)
        let counts = readsCounts ? self.target.admin.map { SettledCounts($0, provider: self.target.name) } : nil
        let before = await counts?.read()
        async let report = client.report(of: notification)
        let running = Task { try await client.run() }
        let waiting = Task {
            try await Task.sleep(for: Self.silenceDuration)
            onSilence()
        }
        let outcome = await report.outcome
        waiting.cancel()
        client.finish()
        let cause = SettledCounts.difference(before, await counts?.read())
        var failure: ProviderError?
        do { try await running.value } catch { failure = error as? ProviderError }
        if let connection = Self.connectionFailure(outcome, failure) {
            let refusal = self.target.admission.refusal(
                of: self.identity.certificate,
                intermediates: self.identity.chain,
                now: now
            )
            let isNamed = self.target.serverNames.contains(Endpoint.gateway(self.target.environment).host)
            if let result = GatewayTestResult(connection, isServerNamed: isNamed, refusal: refusal, cause: cause) {
                return result
            }
        }
        return GatewayTestResult(
            outcome,
            cause: cause,
            hasDevice: token != nil,
            reportsRejections: self.target.reportsRejections
        )
    }

    private static func configuration(
        _ target: ResolvedConfiguration.TestTarget,
        _ identity: TLSIdentity,
        _ trust: String
    ) -> BinaryConfiguration {
        var tls = TLSConfiguration.client(identity: identity, trust: .file(trust))
        tls.versionMin = min(tls.versionMin, target.tlsMaximum)
        tls.versionMax = max(tls.versionMin, min(tls.versionMax, target.tlsMaximum))
        var configuration = BinaryConfiguration(endpoint: target.endpoint, tls: tls)
        configuration.serverName = Endpoint.gateway(target.environment).host
        configuration.connectTimeout = Self.connectTimeout
        // One attempt is enough for a diagnosis, and a device must not show the notification twice.
        configuration.limits.policy = .atMostOnce
        configuration.limits.fruitlessConnectionCountMax = 1
        configuration.limits.refusedConnectionCountMax = 1
        configuration.limits.silentAttemptCountMax = 1
        configuration.limits.processingErrorRetryCountMax = 0
        configuration.limits.verificationDelay = .milliseconds(10)
        configuration.limits.responseTimeout = Self.responseTimeout
        return configuration
    }

    /// Why there was no connection, or it ended without an outcome; `nil` if there is another reason or none.
    private static func connectionFailure(_ outcome: DeliveryOutcome, _ failure: ProviderError?) -> ConnectionFailure? {
        switch outcome {
        case .unsent(let reason), .indeterminate(let reason):
            switch reason {
            case .connectionLost(let failure), .notPermitted(let failure), .unavailable(let failure): return failure
            default: break
            }
            switch failure?.kind {
            case .notPermitted(let failure), .unavailable(let failure): return failure
            case .closedWithoutAnswer: return ConnectionFailure(.closed(nil), "closed without an answer")
            case .tls(let error): return ConnectionFailure(error)
            default: return nil
            }
        default: return nil
        }
    }
}
