// SPDX-License-Identifier: Apache-2.0

public import APNSTransport
public import OpenSSLTLS

/// A connection of a provider to a simulator, recorded after its handshake.
public struct ConnectionRecord: Hashable, Sendable {
    /// The listener.
    public var listener: SimulatorListener
    /// The number of the connection at the listener, from 1; connections with a failed handshake are numbered, too.
    public var number: UInt64
    /// The remote address, such as "127.0.0.1:40000".
    public var remoteAddress: String
    /// The provider, by its certificate; `nil` without one.
    public var identity: ProviderIdentity?
    /// The version of TLS.
    public var tlsVersion: TLSVersion?
    /// OpenSSL's name of the cipher.
    public var cipherName: String?
    /// The negotiated application protocol (ALPN), such as "h2"; `nil` for none.
    public var applicationProtocol: String?
    /// When the handshake completed, in milliseconds since 1970 (UTC).
    public var openedAt: UInt64
    /// When the connection was closed, in milliseconds since 1970 (UTC); `nil` while it is open.
    public var closedAt: UInt64?
}

extension ConnectionRecord: CustomStringConvertible {
    /// The provider and its address, in one line.
    public var description: String {
        "connection \(self.number) to \(self.listener) from \(self.remoteAddress), "
            + (self.identity.map { "\($0)" } ?? "without a certificate")
    }
}
