// SPDX-License-Identifier: Apache-2.0

import APNSServer
public import OpenSSLTLS

/// Which certificates belong to one of the providers that a bridge serves.
///
/// A certificate belongs to it by its fingerprint, or by leading to its authorities; nobody is let in otherwise.
public struct AdmissionRule: Sendable {
    /// A certificate that is let in whoever issued it.
    public struct Pin: Hashable, Sendable {
        /// The SHA-256 digest of the certificate in 64 lower-case hexadecimal digits.
        public var fingerprint: String
        /// Whether it is let in also when it has expired.
        public var allowsExpired: Bool

        /// Makes a pin.
        ///
        /// - Parameters:
        ///   - fingerprint: 64 lower-case hexadecimal digits.
        ///   - allowsExpired: whether the certificate is let in also when it has expired.
        public init(fingerprint: String, allowsExpired: Bool = false) {
            self.fingerprint = fingerprint
            self.allowsExpired = allowsExpired
        }
    }

    /// The certificates that are let in whoever issued them.
    public var pins: [Pin]

    /// Verifies the others; `nil` where only ``pins`` are let in.
    public var verifier: CertificateVerifier?

    /// The topic of the provider; `nil` for the one that its certificate names.
    public var topic: String?

    /// Makes a rule.
    ///
    /// - Parameters:
    ///   - pins: certificates that are let in whoever issued them.
    ///   - verifier: verifies the others; `nil` where there are none.
    ///   - topic: the topic of the provider; `nil` for the one that its certificate names.
    public init(pins: [Pin] = [], verifier: CertificateVerifier? = nil, topic: String? = nil) {
        self.pins = pins
        self.verifier = verifier
        self.topic = topic
    }

    /// What is found of a certificate.
    enum Finding: Hashable {
        /// It belongs to the provider, which sends for this topic.
        case admitted(topic: String)
        /// It does not, for this reason; `nil` where it has nothing to do with this provider.
        case refused(String?)
    }

    /// Checks a provider's certificate.
    ///
    /// - Parameters:
    ///   - provider: who is connected.
    ///   - now: the time in seconds since 1970 (UTC).
    /// - Returns: whether it belongs to this provider.
    func check(_ provider: ProviderConnection, now: Int64) -> Finding {
        guard let certificate = provider.certificate else { return .refused(nil) }
        if let pin = self.pins.first(where: { $0.fingerprint == certificate.fingerprint }) {
            if certificate.isExpired(at: now), !pin.allowsExpired {
                return .refused("the pinned certificate has expired; allowExpired: true lets it in nevertheless")
            }
        } else if let verifier {
            if let problem = verifier.problem(of: certificate, intermediates: provider.intermediates) {
                return .refused(Self.sentence(problem))
            }
        } else {
            return .refused(nil)
        }
        return self.topicFinding(provider.identity)
    }

    /// Why a certificate is not let in.
    ///
    /// - Parameters:
    ///   - certificate: a provider's.
    ///   - intermediates: what it sends behind it.
    ///   - now: the time in seconds since 1970 (UTC).
    /// - Returns: a sentence without a period; `nil` where it is let in.
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
        case .refused(let reason): reason ?? "no authority of the configuration issued the certificate"
        }
    }

    private func topicFinding(_ identity: ProviderIdentity) -> Finding {
        guard let topic = self.topic ?? identity.topic else {
            return .refused("the certificate names no topic (UID), and the configuration gives none")
        }
        guard identity.topics.isEmpty || identity.topics.contains(topic) else {
            return .refused("the certificate is for the topic \(identity.topics.joined(separator: ", ")), not \(topic)")
        }
        return .admitted(topic: topic)
    }

    /// `nil` for a certificate of other authorities, which says nothing about this provider.
    private static func sentence(_ problem: TLSError) -> String? {
        if case .unknownAuthority = problem { return nil }
        return problem.text(TLSErrorNames(remote: "the provider"))
    }
}
