// SPDX-License-Identifier: Apache-2.0

package import APNSTransport
package import NIOCore
import NIOTLS
package import OpenSSLTLS

/// Is told of the connections of a listener, of whichever protocol.
///
/// Everything is called on the connection's event loop, which must not be blocked.
package protocol ConnectionObserver: Sendable {
    /// Notes that a connection has done its handshake; whether its provider is let in is decided behind that.
    func opened(_ connection: EstablishedConnection)

    /// Notes that a connection is gone that was opened.
    func closed(number: UInt64)
}

/// A connection whose handshake is done.
package struct EstablishedConnection: Sendable {
    /// Its number at its listener, from 1.
    package var number: UInt64
    /// Where it comes from, such as "192.0.2.1:40000".
    package var remoteAddress: String
    /// Who is connected, by certificate; `nil` without one.
    package var identity: ProviderIdentity?
    /// The version of TLS.
    package var tlsVersion: TLSVersion?
    /// OpenSSL's name of the cipher.
    package var cipherName: String?
    /// The application protocol agreed on (ALPN), such as "h2"; `nil` for none.
    package var applicationProtocol: String?
    /// The connection.
    package var channel: any Channel
}

/// Lies right above TLS, and tells an observer of its connection.
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
                    applicationProtocol: self.tls.negotiatedProtocol,
                    channel: context.channel
                )
            )
        }
        context.fireUserInboundEventTriggered(event)
    }

    func channelInactive(context: ChannelHandlerContext) {
        if self.isOpen { self.observer.closed(number: self.number) }
        self.isOpen = false
        context.fireChannelInactive()
    }
}
