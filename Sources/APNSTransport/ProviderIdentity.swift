// SPDX-License-Identifier: Apache-2.0

public import APNSWire
public import OpenSSLTLS

/// The identity of a provider and the topics it may send to, as far as its certificate shows.
///
/// - SeeAlso: `CertificateTopics` of `APNSWire`.
public struct ProviderIdentity: Hashable, Sendable {
    /// The extensions of a push certificate.
    private enum ExtensionIdentifier {
        static let sandbox = "1.2.840.113635.100.6.3.1"
        static let production = "1.2.840.113635.100.6.3.2"
    }

    /// The default topic of notifications: the subject's UID, or the first listed topic; `nil` if the certificate names
    /// none.
    public var topic: String?

    /// All topics of the certificate, with ``topic`` first.
    public var topics: [String]

    /// The SHA-256 digest of the certificate in 64 lower-case hexadecimal digits.
    public var fingerprint: String

    /// The certificate's subject in the format of RFC 2253.
    public var subject: String

    /// The last moment of the certificate's validity.
    public var notAfter: Timestamp

    /// Whether the certificate is for the sandbox.
    public var isForSandbox: Bool

    /// Whether the certificate is for production.
    public var isForProduction: Bool

    /// Reads a certificate.
    ///
    /// - Parameter certificate: a certificate that TLS has verified.
    public init(_ certificate: TLSCertificate) {
        var topics: [String] = []
        if let uid = certificate.subjectField("UID"), !uid.isEmpty { topics.append(uid) }
        if let content = certificate.extensions[CertificateTopics.extensionIdentifier],
            let listed = try? CertificateTopics(parsing: content)
        {
            for topic in listed.topics where !topics.contains(topic.name) { topics.append(topic.name) }
        }
        self.topic = topics.first
        self.topics = topics
        self.fingerprint = certificate.fingerprint
        self.subject = certificate.subject
        self.notAfter = Timestamp(secondsSince1970: certificate.notAfter)
        self.isForSandbox = certificate.extensions[ExtensionIdentifier.sandbox] != nil
        self.isForProduction = certificate.extensions[ExtensionIdentifier.production] != nil
    }
}

extension ProviderIdentity: CustomStringConvertible {
    /// The certificate's subject.
    public var description: String { self.subject }
}
