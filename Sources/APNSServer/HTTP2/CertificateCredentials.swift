// SPDX-License-Identifier: Apache-2.0

import APNSTransport
import APNSWire
import OpenSSLTLS

/// The permissions of a client's certificate at the HTTP/2 provider API.
struct CertificateCredentials {
    private let certificate: TLSCertificate
    private let intermediates: [TLSCertificate]
    private let identity: ProviderIdentity
    /// The topics of the certificate.
    let topics: [String]

    init(
        _ certificate: TLSCertificate,
        intermediates: [TLSCertificate],
        _ configuration: PushServerConfiguration
    ) {
        self.certificate = certificate
        self.intermediates = intermediates
        self.identity = ProviderIdentity(certificate)
        self.topics = configuration.topics(certificate)
    }

    /// Returns why the certificate does not permit a request.
    ///
    /// It is checked per request, since it may be revoked.
    func problem(topic: String, pushType: PushType?, _ configuration: PushServerConfiguration) -> PushRefusal? {
        if self.topics.isEmpty { return PushRefusal(.badCertificate, "the certificate names no topic") }
        if configuration.isRevoked(self.certificate, self.intermediates) {
            return PushRefusal(.badCertificate, "the certificate is revoked or fails verification")
        }
        if let environment = configuration.environment, !self.identity.allows(environment) {
            return PushRefusal(.badCertificateEnvironment, "the certificate is for the other environment")
        }
        if pushType == .location { return PushRefusal(.forbidden, "push type location requires a provider token") }
        guard self.topics.contains(topic) else {
            return PushRefusal(.topicDisallowed, "the certificate is not for this topic")
        }
        guard PushServerConfiguration.has(topic, configuration.environment) else {
            return PushRefusal(.badCertificateEnvironment, "passes exist only in production")
        }
        return nil
    }
}
