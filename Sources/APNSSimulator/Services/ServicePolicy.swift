// SPDX-License-Identifier: Apache-2.0

import APNSServer
import APNSTransport
import APNSWire
import NIOConcurrencyHelpers
import OpenSSLTLS

/// Decides which clients a simulator refuses: by certificate, environment and rate.
final class ServicePolicy: Sendable {
    let revocations: RevocationList
    private let configuration: SimulatorConfiguration
    /// By the fingerprint of the certificate.
    private let connections: NIOLockedValueBox<RateLimiter<String>>?
    private let requests: NIOLockedValueBox<RateLimiter<DeviceToken>>?
    private let zeroIdentifierCount: NIOLockedValueBox<Int>

    init(_ configuration: SimulatorConfiguration) {
        self.configuration = configuration
        self.revocations = RevocationList(configuration)
        self.connections = configuration.connectionRateLimit.map { NIOLockedValueBox(RateLimiter($0)) }
        self.requests = configuration.deviceRateLimit.map { NIOLockedValueBox(RateLimiter($0)) }
        self.zeroIdentifierCount = NIOLockedValueBox(configuration.zeroIdentifierCount)
    }

    /// Restores the initial state: resets rate limits, renewal times of provider tokens, and counts.
    func reset() {
        self.revocations.reset()
        self.configuration.http2.tokenRenewals.reset()
        self.connections?.withLockedValue { $0.reset() }
        self.requests?.withLockedValue { $0.reset() }
        self.zeroIdentifierCount.withLockedValue { $0 = self.configuration.zeroIdentifierCount }
    }

    /// Applies the rules for certificates to the HTTP/2 listener.
    func configure(_ http2: inout HTTP2ListenerConfiguration) {
        http2.environment = self.configuration.environment
        http2.isRevoked = { [revocations] in revocations.contains($0, $1) }
    }

    /// Whether a provider may use the service according to its certificate.
    func isTrusted(_ provider: ProviderConnection) -> Bool {
        guard provider.identity.allows(self.configuration.environment),
            HTTP2ListenerConfiguration.has(provider.identity.topic ?? "", self.configuration.environment)
        else { return false }
        return provider.certificate.map { !self.revocations.contains($0, provider.intermediates) } ?? true
    }

    /// Counts a connection to the gateway.
    ///
    /// Returns whether the rate limit allows it.
    func admitConnection(_ provider: ProviderConnection) -> Bool {
        let (fingerprint, now) = (provider.identity.fingerprint, self.configuration.milliseconds)
        return self.connections?.withLockedValue { $0.admit(fingerprint, now: now) } ?? true
    }

    /// Counts a request.
    ///
    /// Returns whether the rate limit of the device allows it.
    func admitRequest(for token: DeviceToken) -> Bool {
        guard let requests else { return true }
        let now = self.configuration.milliseconds
        return requests.withLockedValue { $0.admit(token, now: now) }
    }

    /// Returns whether this error response contains the identifier 0, and counts it.
    func consumeZeroIdentifier() -> Bool {
        self.zeroIdentifierCount.withLockedValue { count in
            guard count > 0 else { return false }
            count -= 1
            return true
        }
    }
}

/// The certificates revoked at a simulator, by fingerprint; they can change at any time.
final class RevocationList: Sendable {
    /// The maximum number of cached verifier results.
    private static let verifiedCountMax = 10_000
    /// How long a result is cached in milliseconds, since a certificate revocation list expires.
    private static let verifiedDuration: UInt64 = 60_000

    private struct State {
        var fingerprints: Set<String>
        /// The results by the fingerprints of a certificate and its intermediates, with their expiry.
        var verified: [[String]: (isGood: Bool, end: UInt64)] = [:]
    }

    private let state: NIOLockedValueBox<State>
    private let configuration: SimulatorConfiguration

    init(_ configuration: SimulatorConfiguration) {
        self.configuration = configuration
        self.state = NIOLockedValueBox(State(fingerprints: []))
        self.reset()
    }

    var fingerprints: Set<String> { self.state.withLockedValue(\.fingerprints) }

    func add(_ fingerprint: String) {
        self.state.withLockedValue { _ = $0.fingerprints.insert(Self.normalized(fingerprint)) }
    }

    /// Returns whether the certificate was revoked.
    func remove(_ fingerprint: String) -> Bool {
        self.state.withLockedValue { $0.fingerprints.remove(Self.normalized(fingerprint)) != nil }
    }

    /// Restores the initial list.
    func reset() {
        let initial = Set(self.configuration.revokedFingerprints.map(Self.normalized))
        self.state.withLockedValue { $0.fingerprints = initial }
    }

    func contains(_ certificate: TLSCertificate, _ intermediates: [TLSCertificate]) -> Bool {
        let isListed = self.state.withLockedValue { $0.fingerprints.contains(certificate.fingerprint) }
        guard !isListed, let verifier = self.configuration.certificateVerifier else { return isListed }
        let (chain, now) = (([certificate] + intermediates).map(\.fingerprint), self.configuration.milliseconds)
        if let known = self.state.withLockedValue({ $0.verified[chain] }), known.end > now { return !known.isGood }
        let isGood = verifier.problem(of: certificate, intermediates: intermediates) == nil
        self.state.withLockedValue { state in
            if state.verified.count >= Self.verifiedCountMax { state.verified.removeAll() }
            state.verified[chain] = (isGood, now + Self.verifiedDuration)
        }
        return !isGood
    }

    /// Accepts the formats of `openssl x509 -fingerprint` and of this package.
    private static func normalized(_ fingerprint: String) -> String {
        fingerprint.filter { $0 != ":" }.lowercased()
    }
}
