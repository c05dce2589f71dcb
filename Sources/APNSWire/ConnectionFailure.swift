// SPDX-License-Identifier: Apache-2.0

/// Why a connection to a service could not be opened, or did not last.
public struct ConnectionFailure: Error, Hashable, Sendable {
    /// What happened.
    public let kind: Kind

    /// The same in words for people, with what to do about it where that is known; no key and no token is in it.
    public let detail: String

    /// Makes a failure.
    ///
    /// - Parameters:
    ///   - kind: what happened.
    ///   - detail: the same in words.
    public init(_ kind: Kind, _ detail: String) {
        self.kind = kind
        self.detail = detail
    }

    /// What happened to a connection.
    ///
    /// Later versions may add cases.
    @nonexhaustive
    public enum Kind: Hashable, Sendable {
        /// The name of the host has no address.
        case nameNotResolved
        /// Nobody listens there.
        case refused
        /// No network leads there.
        case unreachable
        /// The other end did not answer in time.
        case timedOut
        /// This system has no descriptor or no memory left for it.
        case localLimit
        /// The proxy did not open the way.
        case proxy
        /// The proxy wants a user name and a password, or others.
        case proxyAuthentication
        /// This end's certificate or key cannot be used, or the service does not accept it.
        case identity
        /// The service's certificate leads to no authority that is trusted.
        case unknownAuthority
        /// The service's certificate has expired, is for another host, was revoked or cannot be verified.
        case peerCertificate
        /// The two ends cannot agree on TLS.
        case tls
        /// What answers there is no such service.
        case unexpectedPeer
        /// The other end broke the protocol, or bytes were changed under way.
        case protocolViolation
        /// The other end is there and takes nothing.
        case stalled
        /// The service closed the connection, over HTTP/2 with this reason where it gave one.
        case closed(PushReason?)
        /// Something else; the words say what.
        case other
    }

    /// Whether trying again with the same configuration would fail the same way, as far as one can tell.
    public var isPermanent: Bool {
        switch self.kind {
        case .proxyAuthentication, .identity, .unknownAuthority, .peerCertificate, .tls, .unexpectedPeer: true
        case .closed(let reason): reason == .badCertificate || reason == .badCertificateEnvironment
        case .nameNotResolved, .refused, .unreachable, .timedOut, .localLimit, .proxy, .protocolViolation, .stalled,
            .other:
            false
        }
    }
}

extension ConnectionFailure: CustomStringConvertible {
    /// What happened, and what to do.
    public var description: String { self.detail }
}
