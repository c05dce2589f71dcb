// SPDX-License-Identifier: Apache-2.0

package import APNSWire
import Glibc
import NIOCore
package import OpenSSLTLS

extension ConnectionFailure {
    /// Describes an error that ended a connection, or kept it from being opened.
    package init(_ error: any Error, _ names: TLSErrorNames = TLSErrorNames()) {
        switch error {
        case let failure as ConnectionFailure: self = failure
        case let answer as UnexpectedResponse: self = .notAGateway(answer, names)
        case let error as TLSError:
            self.init(Self.kind(of: error, names), error.fact(names), advice: error.advice(names))
        case let error as IOError where error.errnoCode == ECONNRESET || error.errnoCode == EPIPE:
            self.init(.closed(nil), "\(names.remote) reset the connection", advice: "see its log")
        case is IOError:
            self.init(.other, "the connection to \(names.remote) failed: \(IOError.reason(error))")
        default: self.init(.other, "the connection to \(names.remote) failed: \(error)")
        }
    }

    /// The remote side closed the connection, and confirmed nothing.
    package static func closed(_ names: TLSErrorNames) -> Self {
        let advice = "see its log, because it may refuse the certificate, or be a feedback service"
        return Self(.closed(nil), "\(names.remote) closed every connection without an answer", advice: advice)
    }

    /// What came is no error response.
    private static func notAGateway(_ answer: UnexpectedResponse, _ names: TLSErrorNames) -> Self {
        let found = answer.foreignProtocol
        let advice =
            switch found {
            case .http2: Self.http2Advice
            case .feedback: "connect to the port of the gateway, usually 2195"
            default: "check the port, for the gateway usually 2195"
            }
        let predicate = found?.predicate ?? "sent something other than an error response"
        return Self(.wrongProtocol, "\(names.remote) \(predicate)", advice: advice)
    }

    /// What to do about a service of HTTP/2; a command line has an option for it.
    package static let http2Advice = "send over HTTP/2, or connect to the port of the gateway, usually 2195"

    /// The gateway accepted no data for so long that the connection was given up.
    static func stalled(_ duration: Duration, _ names: TLSErrorNames) -> Self {
        Self(.stalled, "\(names.remote) accepted no data for \(duration)")
    }

    private static func kind(of error: TLSError, _ names: TLSErrorNames) -> Kind {
        switch error {
        case .handshakeTimedOut: .timedOut
        case .closedDuringHandshake, .truncated: .closed(nil)
        case .alert, .protocolFailure: .protocolViolation
        case .unknownAuthority: .unknownAuthority
        case .certificateExpired, .certificateNotYetValid, .wrongHost, .certificateRevoked, .certificateUnacceptable:
            .serverCertificate
        case .ownCertificateRefused(let alert, _):
            alert == 116 || names.isAnonymous ? .certificateRequired : .identity
        case .fileUnreadable, .identityMalformed, .certificateMissing, .keyMissing, .passphraseMissing,
            .passphraseWrong, .keyMismatch, .legacyProviderMissing, .keyDerivationTooLong, .tooManyParts,
            .identityTooWeak:
            .identity
        case .handshakeRefused(40, _) where names.isAnonymous: .certificateRequired
        case .notTLS, .noCommonApplicationProtocol: .wrongProtocol
        case .versionRefused, .noCommonCipher: .tlsVersion
        case .trustUnusable, .configurationUnusable, .serverNameInvalid, .clientCertificateMissing, .handshakeRefused:
            .tls
        }
    }

    /// Whether the failure of a connection on which frames were written proves that none was processed.
    ///
    /// - In TLS 1.3 a client's certificate is refused after the client begins to write, and the gateway reads nothing
    ///   before it has verified the certificate. In older versions such an alert would come in mid-stream.
    /// - A server that begins with the first bytes of another protocol is not a gateway. Any other unexpected answer
    ///   may come from a gateway, and proves nothing.
    package static func provesNothingProcessed(_ error: any Error, _ tls: TLSHandler?) -> Bool {
        switch error {
        case TLSError.ownCertificateRefused: tls?.negotiatedVersion == .tls1_3
        case let answer as UnexpectedResponse: answer.foreignProtocol != nil
        default: false
        }
    }
}

/// The first bytes received on a connection, if they are not an error response.
struct UnexpectedResponse: Error {
    /// The bytes, from the first one of the connection on.
    let bytes: [UInt8]

    /// The protocol that begins with them; `nil` if it is unknown.
    var foreignProtocol: ForeignProtocol? { ForeignProtocol(self.bytes) }
}
