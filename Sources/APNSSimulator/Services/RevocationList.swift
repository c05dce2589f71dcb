// SPDX-License-Identifier: Apache-2.0

import NIOConcurrencyHelpers
import OpenSSLTLS

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
    private let initialFingerprints: Set<String>
    private let verifier: CertificateVerifier?
    private let now: @Sendable () -> UInt64

    /// - Parameters:
    ///   - fingerprints: the SHA-256 digests in hexadecimal digits.
    ///   - verifier: certificates that it rejects count as revoked; `nil` for none.
    ///   - now: returns the time in milliseconds since 1970.
    init(_ fingerprints: Set<String>, verifier: CertificateVerifier?, now: @escaping @Sendable () -> UInt64) {
        self.initialFingerprints = Set(fingerprints.map(Self.normalized))
        self.state = NIOLockedValueBox(State(fingerprints: self.initialFingerprints))
        self.verifier = verifier
        self.now = now
    }

    var fingerprints: Set<String> { self.state.withLockedValue(\.fingerprints) }

    func add(_ fingerprint: String) {
        self.state.withLockedValue { _ = $0.fingerprints.insert(Self.normalized(fingerprint)) }
    }

    /// - Returns: whether the certificate was revoked.
    func remove(_ fingerprint: String) -> Bool {
        self.state.withLockedValue { $0.fingerprints.remove(Self.normalized(fingerprint)) != nil }
    }

    /// Restores the initial list.
    func reset() { self.state.withLockedValue { $0.fingerprints = self.initialFingerprints } }

    func contains(_ certificate: TLSCertificate, _ intermediates: [TLSCertificate]) -> Bool {
        let isListed = self.state.withLockedValue { $0.fingerprints.contains(certificate.fingerprint) }
        guard !isListed, let verifier else { return isListed }
        let (chain, now) = (([certificate] + intermediates).map(\.fingerprint), self.now())
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
