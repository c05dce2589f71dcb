// SPDX-License-Identifier: Apache-2.0

import NIOConcurrencyHelpers
import OpenSSLTLS

/// The certificates that a simulator's service has taken back, by fingerprint; they can change at any time.
final class RevocationList: Sendable {
    /// How many certificates are remembered with what the verifier said of them.
    private static let verifiedCountMax = 10_000

    private struct State {
        var fingerprints: Set<String>
        /// What the verifier said, by fingerprint.
        var isVerified: [String: Bool] = [:]
    }

    private let state: NIOLockedValueBox<State>
    private let initialFingerprints: Set<String>
    private let verifier: CertificateVerifier?

    /// - Parameters:
    ///   - fingerprints: the SHA-256 digests in hexadecimal digits.
    ///   - verifier: what it refuses is revoked as well; `nil` for nothing.
    init(_ fingerprints: Set<String>, verifier: CertificateVerifier?) {
        self.initialFingerprints = Set(fingerprints.map(Self.normalized))
        self.state = NIOLockedValueBox(State(fingerprints: self.initialFingerprints))
        self.verifier = verifier
    }

    var fingerprints: Set<String> { self.state.withLockedValue(\.fingerprints) }

    func add(_ fingerprint: String) {
        self.state.withLockedValue { _ = $0.fingerprints.insert(Self.normalized(fingerprint)) }
    }

    /// - Returns: whether it was revoked.
    func remove(_ fingerprint: String) -> Bool {
        self.state.withLockedValue { $0.fingerprints.remove(Self.normalized(fingerprint)) != nil }
    }

    /// Makes the list what it was at the start.
    func reset() { self.state.withLockedValue { $0.fingerprints = self.initialFingerprints } }

    func contains(_ certificate: TLSCertificate, _ intermediates: [TLSCertificate] = []) -> Bool {
        let fingerprint = certificate.fingerprint
        let (isListed, known) = self.state.withLockedValue {
            ($0.fingerprints.contains(fingerprint), $0.isVerified[fingerprint])
        }
        guard !isListed, let verifier else { return isListed }
        if let known { return !known }
        let isVerified = verifier.problem(of: certificate, intermediates: intermediates) == nil
        self.state.withLockedValue { state in
            if state.isVerified.count >= Self.verifiedCountMax { state.isVerified.removeAll() }
            state.isVerified[fingerprint] = isVerified
        }
        return !isVerified
    }

    /// As `openssl x509 -fingerprint` prints it, or as we do.
    private static func normalized(_ fingerprint: String) -> String {
        fingerprint.filter { $0 != ":" }.lowercased()
    }
}
