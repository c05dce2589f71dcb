// SPDX-License-Identifier: Apache-2.0

/// Why a connection could not be opened, or ended early.
public struct ConnectionFailure: Error, Hashable, Sendable {
    /// What happened.
    public let kind: Kind

    /// What failed and where, as text, such as "connection to localhost:2195 refused"; it contains no key and no token.
    public let detail: String

    /// What to do about it, as text; `nil` where there is no advice.
    public let advice: String?

    /// Creates a failure.
    ///
    /// - Parameters:
    ///   - kind: what happened.
    ///   - detail: what failed and where, without a period at the end.
    ///   - advice: what to do about it.
    public init(_ kind: Kind, _ detail: String, advice: String? = nil) {
        self.kind = kind
        self.detail = detail
        self.advice = advice
    }

    /// What happened to a connection.
    ///
    /// Later versions may add cases.
    @nonexhaustive
    public enum Kind: Hashable, Sendable {
        /// The host name cannot be resolved.
        case nameNotResolved
        /// The connection was refused.
        case refused
        /// There is no route to the host.
        case unreachable
        /// The remote side did not answer in time.
        case timedOut
        /// This system has no file descriptor or memory left.
        case localLimit
        /// The proxy did not open the connection.
        case proxy
        /// The proxy requires a user name and a password, or refused those that it got.
        case proxyAuthentication
        /// This side's certificate or key cannot be used, or the service refused it.
        case identity
        /// The service requires a client certificate, and there is none.
        case certificateRequired
        /// The service's certificate is not signed by a trusted authority.
        case unknownAuthority
        /// The service's certificate has expired, is for another host, is revoked or does not verify.
        case serverCertificate
        /// The two sides have no TLS version or no cipher in common.
        case tlsVersion
        /// TLS failed for another reason that the configuration explains.
        case tls
        /// The remote side speaks another protocol; usually the port is wrong.
        case wrongProtocol
        /// The remote side violated the protocol, or bytes changed on the way.
        case protocolViolation
        /// The remote side is connected and accepts no data.
        case stalled
        /// The service closed the connection, over HTTP/2 with this reason where it gave one.
        case closed(PushReason?)
        /// Another failure; the text describes it.
        case other
    }

    /// Whether another attempt with the same configuration would fail in the same way, as far as is known.
    public var isPermanent: Bool {
        switch self.kind {
        case .proxyAuthentication, .identity, .certificateRequired, .unknownAuthority, .serverCertificate, .tlsVersion,
            .tls, .wrongProtocol:
            true
        case .closed(let reason): reason == .badCertificate || reason == .badCertificateEnvironment
        case .nameNotResolved, .refused, .unreachable, .timedOut, .localLimit, .proxy, .protocolViolation, .stalled,
            .other:
            false
        }
    }
}

extension ConnectionFailure: CustomStringConvertible {
    /// What failed and where; and what to do, where that is known, after a semicolon.
    public var description: String { self.advice.map { "\(self.detail); \($0)" } ?? self.detail }
}
