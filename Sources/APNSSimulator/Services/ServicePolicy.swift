// SPDX-License-Identifier: Apache-2.0

import APNSServer
import APNSTransport
import APNSWire
import NIOConcurrencyHelpers

/// Decides which clients a simulator refuses: by certificate, environment and rate.
final class ServicePolicy: Sendable {
    let revocations: RevocationList
    private let environment: Environment
    private let tokenRenewals: ProviderTokenRenewals
    private let now: @Sendable () -> UInt64
    /// By the fingerprint of the certificate.
    private let connections: NIOLockedValueBox<RateLimiter<String>>?
    private let requests: NIOLockedValueBox<RateLimiter<DeviceToken>>?
    private let zeroIdentifierCount: NIOLockedValueBox<Int>
    private let initialZeroIdentifierCount: Int

    init(_ configuration: SimulatorConfiguration) {
        self.revocations = RevocationList(
            configuration.revokedFingerprints,
            verifier: configuration.certificateVerifier,
            now: configuration.now
        )
        self.environment = configuration.environment
        self.tokenRenewals = configuration.push.tokenRenewals
        self.now = configuration.now
        self.connections = configuration.connectionRateLimit.map { NIOLockedValueBox(RateLimiter($0)) }
        self.requests = configuration.deviceRateLimit.map { NIOLockedValueBox(RateLimiter($0)) }
        self.initialZeroIdentifierCount = configuration.zeroIdentifierCount
        self.zeroIdentifierCount = NIOLockedValueBox(configuration.zeroIdentifierCount)
    }

    /// Restores the initial state: resets rate limits, renewal times of provider tokens, and counts.
    func reset() {
        self.revocations.reset()
        self.tokenRenewals.reset()
        self.connections?.withLockedValue { $0.reset() }
        self.requests?.withLockedValue { $0.reset() }
        self.zeroIdentifierCount.withLockedValue { $0 = self.initialZeroIdentifierCount }
    }

    /// Applies the rules for certificates to the HTTP/2 listener.
    func configure(_ push: inout PushServerConfiguration) {
        push.environment = self.environment
        push.isRevoked = { [revocations] in revocations.contains($0, $1) }
    }

    /// Whether a provider may use the service according to its certificate.
    func isTrusted(_ provider: ProviderConnection) -> Bool {
        guard provider.identity.allows(self.environment),
            PushServerConfiguration.has(provider.identity.topic ?? "", self.environment)
        else { return false }
        return provider.certificate.map { !self.revocations.contains($0, provider.intermediates) } ?? true
    }

    /// Counts a connection to the gateway.
    ///
    /// - Returns: whether the rate limit allows it.
    func takeConnection(_ provider: ProviderConnection) -> Bool {
        let (fingerprint, now) = (provider.identity.fingerprint, self.now())
        return self.connections?.withLockedValue { $0.take(fingerprint, now: now) } ?? true
    }

    /// Counts a request.
    ///
    /// - Returns: whether the rate limit of the device allows it.
    func takeRequest(for token: DeviceToken) -> Bool {
        guard let requests else { return true }
        let now = self.now()
        return requests.withLockedValue { $0.take(token, now: now) }
    }

    /// Returns whether this error response contains the identifier 0, and counts it.
    func takeZeroIdentifier() -> Bool {
        self.zeroIdentifierCount.withLockedValue { count in
            guard count > 0 else { return false }
            count -= 1
            return true
        }
    }
}
