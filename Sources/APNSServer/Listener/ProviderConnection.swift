// SPDX-License-Identifier: Apache-2.0

public import APNSTransport
package import APNSWire
public import OpenSSLTLS

/// A connection of a provider.
public struct ProviderConnection: Hashable, Sendable {
    /// The number of the connection at its listener, from 1.
    public var number: UInt64
    /// The identity of the provider.
    public var identity: ProviderIdentity
    /// The remote address, such as "192.0.2.1:40000".
    public var remoteAddress: String
    /// The certificate, for backends that verify it; `nil` if there is none to verify.
    public var certificate: TLSCertificate?
    /// The further certificates that the provider sent.
    public var intermediates: [TLSCertificate]
    /// The version of TLS; `nil` if unknown.
    public var tlsVersion: TLSVersion?
    /// The port of the listener; `nil` if unknown.
    public var localPort: Int?

    /// Creates a connection value.
    ///
    /// - Parameters:
    ///   - number: the number of the connection at its listener, from 1.
    ///   - identity: the identity of the provider.
    ///   - remoteAddress: the remote address.
    ///   - certificate: the certificate, for backends that verify it.
    ///   - intermediates: the further certificates that the provider sent.
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
    /// Whether the certificate is for an environment; one that names neither is for both.
    package func allows(_ environment: PushEnvironment) -> Bool {
        guard self.isForSandbox || self.isForProduction else { return true }
        return environment == .sandbox ? self.isForSandbox : self.isForProduction
    }
}

/// The TLS properties of a connection.
protocol TLSFacts: AnyObject {
    var peerCertificate: TLSCertificate? { get }
    var peerIntermediates: [TLSCertificate] { get }
    var negotiatedVersion: TLSVersion? { get }
    /// Whether the stream ended without close_notify.
    var isTruncated: Bool { get }
}

extension TLSHandler: TLSFacts {}

extension Listener.Connection {
    /// The provider, computed from the session on each call, since it is rarely needed and not small; `nil` without a
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
    /// The provider and its address, in one line.
    public var description: String { "connection \(self.number) of \(self.identity) from \(self.remoteAddress)" }

    /// Only ``description``, so that `dump` prints one line.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}
