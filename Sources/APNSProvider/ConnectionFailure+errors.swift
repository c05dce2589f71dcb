// SPDX-License-Identifier: Apache-2.0

package import APNSWire
import Glibc
import NIOCore
package import OpenSSLTLS

extension ConnectionFailure {
    /// Says what an error that ended a connection, or kept it from being opened, means.
    ///
    /// - Parameter error: what TLS, the network or a handler of a connection reported.
    package init(_ error: any Error) {
        switch error {
        case let failure as ConnectionFailure: self = failure
        case let error as TLSError: self.init(Self.kind(of: error), "\(error)")
        case let error as IOError where error.errnoCode == ECONNRESET || error.errnoCode == EPIPE:
            self.init(.closed(nil), "\(error)")
        default: self.init(.other, "\(error)")
        }
    }

    static let closedByGateway = Self(.closed(nil), "the gateway closed the connection without an answer")

    static let notAGateway = Self(
        .unexpectedPeer,
        "The other end sent something that is no error response; is it a push gateway?"
    )

    /// The gateway took nothing for so long that the connection was given up.
    static func stalled(_ duration: Duration) -> Self { Self(.stalled, "The gateway took nothing for \(duration).") }

    private static func kind(of error: TLSError) -> Kind {
        switch error {
        case .handshakeTimedOut: .timedOut
        case .closedDuringHandshake, .truncated: .closed(nil)
        case .alert, .protocolFailure: .protocolViolation
        case .unknownAuthority: .unknownAuthority
        case .certificateExpired, .certificateNotYetValid, .wrongHost, .certificateRevoked, .certificateUnacceptable:
            .peerCertificate
        case .fileUnreadable, .identityMalformed, .certificateMissing, .keyMissing, .passphraseMissing,
            .passphraseWrong, .keyMismatch, .legacyProviderMissing, .keyDerivationTooLong, .tooManyParts,
            .identityTooWeak,
            .ownCertificateRefused:
            .identity
        case .peerDoesNotSpeakTLS: .unexpectedPeer
        case .trustUnusable, .configurationUnusable, .serverNameInvalid, .clientCertificateMissing, .handshakeRefused,
            .versionRefused, .noCommonCipher, .noCommonApplicationProtocol:
            .tls
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
}
