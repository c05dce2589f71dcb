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
    func problem(topic: String, pushType: PushType?, _ configuration: PushServerConfiguration) -> PushReason? {
        // A certificate without topics is not a push certificate.
        if self.topics.isEmpty { return .badCertificate }
        if configuration.isRevoked(self.certificate, self.intermediates) { return .badCertificate }
        if let environment = configuration.environment, !self.identity.allows(environment) {
            return .badCertificateEnvironment
        }
        // Location requests require provider tokens.
        if pushType == .location { return .forbidden }
        return self.topics.contains(topic) ? nil : .topicDisallowed
    }
}
