// SPDX-License-Identifier: Apache-2.0

import APNSTransport
import APNSWire
import OpenSSLTLS

/// What a client's certificate lets it do at the service's end of the HTTP/2 provider API.
struct CertificateCredentials {
    private let certificate: TLSCertificate
    private let intermediates: [TLSCertificate]
    private let identity: ProviderIdentity
    /// The topics that it is for.
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

    /// Why a request may not be sent with it; looked at each time, since a certificate may be revoked at any time.
    func problem(topic: String, pushType: PushType?, _ configuration: PushServerConfiguration) -> PushReason? {
        // One that is for no topic is no push certificate.
        if self.topics.isEmpty { return .badCertificate }
        if configuration.isRevoked(self.certificate, self.intermediates) { return .badCertificate }
        if let environment = configuration.environment, !self.identity.allows(environment) {
            return .badCertificateEnvironment
        }
        // Locations are asked for with provider tokens alone.
        if pushType == .location { return .forbidden }
        return self.topics.contains(topic) ? nil : .topicDisallowed
    }
}
