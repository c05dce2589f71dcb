// SPDX-License-Identifier: Apache-2.0

public import APNSTransport
public import OpenSSLTLS

/// A connection of a provider as a simulator saw it, from the end of its handshake on.
public struct ConnectionRecord: Hashable, Sendable {
    /// The listener that it came to.
    public var listener: SimulatorListener
    /// Its number at that listener, from 1; those whose handshake failed have one, too.
    public var number: UInt64
    /// Where it came from, such as "127.0.0.1:40000".
    public var remoteAddress: String
    /// Who connected, by certificate; `nil` without one.
    public var identity: ProviderIdentity?
    /// The version of TLS.
    public var tlsVersion: TLSVersion?
    /// OpenSSL's name of the cipher.
    public var cipherName: String?
    /// The application protocol agreed on (ALPN), such as "h2"; `nil` for none.
    public var applicationProtocol: String?
    /// When its handshake was done, in milliseconds since 1970 (UTC).
    public var openedAt: UInt64
    /// When it was closed, in milliseconds since 1970 (UTC); `nil` while it is open.
    public var closedAt: UInt64?
}

extension ConnectionRecord: CustomStringConvertible {
    /// Who connected, and from where, in one line.
    public var description: String {
        "connection \(self.number) to \(self.listener) from \(self.remoteAddress), "
            + (self.identity.map { "\($0)" } ?? "without a certificate")
    }
}
