// SPDX-License-Identifier: Apache-2.0

import APNSServer
public import OpenSSLTLS

/// Specifies which certificates belong to a provider of a bridge.
///
/// A certificate belongs to the provider by its fingerprint or by a chain to the provider's authorities.
public struct AdmissionRule: Sendable {
    /// A certificate that is admitted regardless of its issuer.
    public struct Pin: Hashable, Sendable {
        /// The SHA-256 digest of the certificate in 64 lower-case hexadecimal digits.
        public var fingerprint: String
        /// Whether it is admitted even after it has expired.
        public var allowsExpired: Bool

        /// Creates a pin.
        ///
        /// - Parameters:
        ///   - fingerprint: 64 lower-case hexadecimal digits.
        ///   - allowsExpired: whether the certificate is admitted even after it has expired.
        public init(fingerprint: String, allowsExpired: Bool = false) {
            self.fingerprint = fingerprint
            self.allowsExpired = allowsExpired
        }
    }

    /// The certificates that are admitted regardless of their issuers.
    public var pins: [Pin]

    /// Verifies other certificates; `nil` if only ``pins`` are admitted.
    public var verifier: CertificateVerifier?

    /// The topic of the provider; `nil` for the topic in its certificate.
    public var topic: String?

    /// Whether authorities may have issued certificates with RSA keys of 1024 bits or with SHA-1 signatures; by default
    /// they may not.
    ///
    /// A pinned certificate may have such a key and any signature. Shorter keys are never admitted.
    public var admitsLegacyCertificates = false

    /// Creates a rule.
    ///
    /// - Parameters:
    ///   - pins: certificates that are admitted regardless of their issuers.
    ///   - verifier: verifies other certificates; `nil` if there are none.
    ///   - topic: the topic of the provider; `nil` for the topic in its certificate.
    public init(pins: [Pin] = [], verifier: CertificateVerifier? = nil, topic: String? = nil) {
        self.pins = pins
        self.verifier = verifier
        self.topic = topic
    }

    /// The result of checking a certificate.
    enum Decision: Hashable {
        /// It belongs to the provider and is for this topic.
        case admitted(topic: String)
        /// It is refused for this reason; `nil` if it is unrelated to this provider.
        case refused(String?)
    }

    /// Checks a provider's certificate.
    ///
    /// Returns whether it belongs to this provider.
    func check(_ provider: ProviderConnection, now: Int64) -> Decision {
        guard let certificate = provider.certificate else { return .refused(nil) }
        if let pin = self.pins.first(where: { $0.fingerprint == certificate.fingerprint }) {
            if certificate.isExpired(at: now), !pin.allowsExpired {
                return .refused("the pinned certificate has expired; to admit it, set allowExpired: true")
            }
            // Its fingerprint replaces the signature of its issuer.
            if let weakness = certificate.keyWeakness(.legacy) {
                return .refused("the pinned certificate is too weak: \(weakness); \(Self.weakKeyAdvice)")
            }
        } else if let verifier {
            do throws(TLSError) {
                let chain = try verifier.chain(of: certificate, intermediates: provider.intermediates)
                if let weakness = self.weakness(of: chain) { return .refused(weakness) }
            } catch {
                return .refused(Self.sentence(error))
            }
        } else {
            return .refused(nil)
        }
        return self.topicDecision(provider.identity)
    }

    /// Returns why a certificate is not admitted.
    package func refusal(of certificate: TLSCertificate, intermediates: [TLSCertificate], now: Int64) -> String? {
        let provider = ProviderConnection(
            number: 0,
            identity: ProviderIdentity(certificate),
            remoteAddress: "",
            certificate: certificate,
            intermediates: intermediates
        )
        return switch self.check(provider, now: now) {
        case .admitted: nil
        case .refused(let reason): reason ?? "no authority of the configuration issued the certificate; \(Self.advice)"
        }
    }

    /// What admits a certificate of another authority.
    static let advice =
        "use a certificate of the authority under clients.authority, or add this one's fingerprint under clients.pins"

    private static let weakKeyAdvice = "issue a new one with a key of 2048 bits"

    /// Returns why an authority's certificates are not admitted; `nil` if its key is strong enough.
    package func weakness(ofAuthority certificate: TLSCertificate) -> String? {
        let strength: CertificateStrength = self.admitsLegacyCertificates ? .legacy : .current
        return certificate.keyWeakness(strength).map {
            "\($0); \(Self.weaknessAdvice(certificate.keyWeakness(.legacy) != nil))"
        }
    }

    /// Returns what is too weak in a chain, of which the last certificate is trusted.
    private func weakness(of chain: [TLSCertificate]) -> String? {
        let strength: CertificateStrength = self.admitsLegacyCertificates ? .legacy : .current
        func weakness(_ strength: CertificateStrength) -> String? {
            for (index, certificate) in chain.enumerated() {
                let isTrusted = index == chain.count - 1
                guard
                    let weakness = certificate.keyWeakness(strength)
                        ?? (isTrusted ? nil : certificate.signatureWeakness(strength))
                else { continue }
                return (index == 0 ? "the certificate" : "its authority \(certificate.subject)")
                    + " is too weak: \(weakness)"
            }
            return nil
        }
        return weakness(strength).map { "\($0); \(Self.weaknessAdvice(weakness(.legacy) != nil))" }
    }

    private static func weaknessAdvice(_ isNeverAdmitted: Bool) -> String {
        isNeverAdmitted
            ? Self.weakKeyAdvice
            : "issue a new one with a key of 2048 bits and SHA-256, add the fingerprint of each provider's certificate "
                + "under clients.pins, or set listen.tlsMinimum below 1.2"
    }

    private func topicDecision(_ identity: ProviderIdentity) -> Decision {
        guard let topic = self.topic ?? identity.topic else {
            return .refused("the certificate names no topic (UID), and the configuration gives none")
        }
        guard identity.topics.isEmpty || identity.topics.contains(topic) else {
            return .refused("the certificate is for the topic \(identity.topics.joined(separator: ", ")), not \(topic)")
        }
        return .admitted(topic: topic)
    }

    /// Returns `nil` for a certificate of an unrelated authority.
    private static func sentence(_ problem: TLSError) -> String? {
        let text = problem.text(TLSErrorNames(remote: "the provider"))
        return switch problem {
        case .unknownAuthority: nil
        case .certificateExpired, .certificateRevoked: "\(text); issue a new one"
        default: text
        }
    }
}
