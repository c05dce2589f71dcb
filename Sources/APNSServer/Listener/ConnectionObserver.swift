// SPDX-License-Identifier: Apache-2.0

package import APNSTransport
package import NIOCore
import NIOTLS
package import OpenSSLTLS

/// Observes the connections of a listener, regardless of the protocol.
///
/// All methods are called on the connection's event loop, which must not be blocked.
package protocol ConnectionObserver: Sendable {
    /// Called after the handshake, before the provider is admitted.
    func opened(_ connection: EstablishedConnection)

    /// Called when an opened connection has closed.
    func closed(number: UInt64)

    /// Called when the provider has closed its side of an opened connection, which may stay open for a while.
    func inputClosed(number: UInt64)

    /// Called when a connection failed before its handshake was complete.
    ///
    /// `reason` says why, such as "the provider closed the connection during the TLS handshake".
    func handshakeFailed(_ reason: String)
}

extension ConnectionObserver {
    package func inputClosed(number: UInt64) {}

    package func handshakeFailed(_ reason: String) {}
}

/// A connection after its handshake.
package struct EstablishedConnection: Sendable {
    /// The number of the connection at its listener, from 1.
    package var number: UInt64
    /// The remote address, such as "192.0.2.1:40000".
    package var remoteAddress: String
    /// The provider, by its certificate; `nil` without one.
    package var identity: ProviderIdentity?
    /// The version of TLS.
    package var tlsVersion: TLSVersion?
    /// OpenSSL's name of the cipher.
    package var cipherName: String?
    /// The host name that the provider requested (SNI); `nil` for none.
    package var serverName: String?
    /// The negotiated application protocol (ALPN), such as "h2"; `nil` for none.
    package var applicationProtocol: String?
    /// The connection.
    package var channel: any Channel
}

/// Reports a connection to an observer; placed directly after TLS.
final class ConnectionObserverHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private let number: UInt64
    private let tls: TLSHandler
    private let observer: any ConnectionObserver
    private var isOpen = false

    init(_ number: UInt64, _ tls: TLSHandler, _ observer: any ConnectionObserver) {
        self.number = number
        self.tls = tls
        self.observer = observer
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case .handshakeCompleted? = event as? TLSUserEvent {
            self.isOpen = true
            self.observer.opened(
                EstablishedConnection(
                    number: self.number,
                    remoteAddress: ConnectionAdmission.address(of: context.channel),
                    identity: self.tls.peerCertificate.map { ProviderIdentity($0) },
                    tlsVersion: self.tls.negotiatedVersion,
                    cipherName: self.tls.cipherName,
                    serverName: self.tls.requestedServerName,
                    applicationProtocol: self.tls.negotiatedProtocol,
                    channel: context.channel
                )
            )
        }
        if case .inputClosed? = event as? ChannelEvent, self.isOpen { self.observer.inputClosed(number: self.number) }
        context.fireUserInboundEventTriggered(event)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        if !self.isOpen, self.tls.negotiatedVersion == nil {
            self.observer.handshakeFailed(ConnectionAdmission.handshakeFailure(error))
        }
        context.fireErrorCaught(error)
    }

    func channelInactive(context: ChannelHandlerContext) {
        if self.isOpen { self.observer.closed(number: self.number) }
        self.isOpen = false
        context.fireChannelInactive()
    }
}
