// SPDX-License-Identifier: Apache-2.0

public import APNSTransport
package import APNSWire
public import OpenSSLTLS

/// One connection of a provider.
public struct ProviderConnection: Hashable, Sendable {
    /// The number of the connection at its listener, from 1.
    public var number: UInt64
    /// Who is connected.
    public var identity: ProviderIdentity
    /// Where the connection comes from, such as "192.0.2.1:40000".
    public var remoteAddress: String
    /// The certificate, for backends that verify it themselves; `nil` where there is none to verify.
    public var certificate: TLSCertificate?
    /// What the provider sent behind its certificate.
    public var intermediates: [TLSCertificate]
    /// The version of TLS; `nil` where it is not known.
    public var tlsVersion: TLSVersion?
    /// The port of the listener; `nil` where it is not known.
    public var localPort: Int?

    /// Makes one.
    ///
    /// - Parameters:
    ///   - number: the number of the connection at its listener, from 1.
    ///   - identity: who is connected.
    ///   - remoteAddress: where it comes from.
    ///   - certificate: for backends that verify it themselves.
    ///   - intermediates: what the provider sent behind its certificate.
    public init(
        number: UInt64,
        identity: ProviderIdentity,
        remoteAddress: String,
        certificate: TLSCertificate? = nil,
        intermediates: [TLSCertificate] = []
    ) {
        self.number = number
        self.identity = identity
        self.remoteAddress = remoteAddress
        self.certificate = certificate
        self.intermediates = intermediates
    }
}

extension ProviderIdentity {
    /// Whether the certificate may be used at a service: one that names neither of the two is for both.
    package func allows(_ environment: Environment) -> Bool {
        guard self.isForSandbox || self.isForProduction else { return true }
        return environment == .sandbox ? self.isForSandbox : self.isForProduction
    }
}

/// What is known of the other side of a connection by TLS.
protocol TLSFacts: AnyObject {
    var peerCertificate: TLSCertificate? { get }
    var peerIntermediates: [TLSCertificate] { get }
    var negotiatedVersion: TLSVersion? { get }
    /// Whether the stream ended without close_notify.
    var isTruncated: Bool { get }
}

extension TLSHandler: TLSFacts {}

extension Listener.Connection {
    /// Who is connected, read from the session each time, since it is seldom asked for and not small; `nil` without a
    /// certificate.
    func provider(at remoteAddress: String) -> ProviderConnection? {
        self.tls.peerCertificate.map { certificate in
            var provider = ProviderConnection(
                number: self.number,
                identity: ProviderIdentity(certificate),
                remoteAddress: remoteAddress,
                certificate: certificate,
                intermediates: self.tls.peerIntermediates
            )
            provider.tlsVersion = self.tls.negotiatedVersion
            provider.localPort = self.localPort
            return provider
        }
    }
}

extension ProviderConnection: CustomStringConvertible, CustomReflectable {
    /// Who is connected, and from where, in one line.
    public var description: String { "connection \(self.number) of \(self.identity) from \(self.remoteAddress)" }

    /// Nothing that is not in ``description``, so that `dump` prints one line.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}
