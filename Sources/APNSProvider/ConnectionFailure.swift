// SPDX-License-Identifier: Apache-2.0

import APNSTransport
package import OpenSSLTLS

/// Tells failures that another try may mend from those that it cannot.
package enum ConnectionFailure {
    /// Whether no other try can mend it.
    package static func isPermanent(_ error: any Error) -> Bool {
        switch error {
        case let error as TLSError: error.isPermanent
        case let error as ProviderError: self.isPermanent(error)
        case let error as ProxyError: error == .authenticationRequired
        default: false
        }
    }

    /// Whether the failure of a connection on which frames were written proves that none was processed.
    ///
    /// Under TLS 1.3 a client's certificate is refused after the client has begun to write, and the gateway reads
    /// nothing before it has judged the certificate. Under older versions such an alert would come in mid-stream.
    package static func provesNothingProcessed(_ error: any Error, _ tls: TLSHandler?) -> Bool {
        guard case .ownCertificateRefused = error as? TLSError else { return false }
        return tls?.negotiatedVersion == .tls1_3
    }

    private static func isPermanent(_ error: ProviderError) -> Bool {
        switch error {
        case .configuration, .notAGateway, .proxyAuthenticationRequired: true
        case .stopped, .notRunning, .cancelled, .alreadyRan, .proxy, .stalled: false
        }
    }
}
