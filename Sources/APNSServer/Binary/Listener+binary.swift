// SPDX-License-Identifier: Apache-2.0

public import Logging
public import NIOCore
public import NIOPosix
package import OpenSSLTLS

extension Listener {
    /// Creates a gateway of the binary protocol that does not listen yet.
    ///
    /// It receives notifications from providers and passes them to a backend.
    ///
    /// On graceful shutdown, it completes notifications in flight, and optionally sends status 10 to providers.
    ///
    /// - Parameters:
    ///   - configuration: the address, admission rules and limits.
    ///   - backend: the destination of the notifications.
    ///   - eventLoopGroup: the event loops; by default NIO's singleton.
    ///   - logger: receives connections at debug level, and refusals with their reasons.
    public convenience init(
        _ configuration: BinaryListenerConfiguration,
        backend: any DeliveryBackend,
        eventLoopGroup: any EventLoopGroup = MultiThreadedEventLoopGroup.singleton,
        logger: Logger = .current
    ) {
        let parts = Parts(
            farewell: BinaryConnectionHandler.Shutdown(isAnnounced: configuration.announcesShutdown),
            // Bytes received before the end of input are processed, even if the sender reset the connection.
            configureTLS: { $0.acceptsTruncation = true },
            handlers: { [BinaryConnectionHandler($0, configuration, backend: backend)] }
        )
        self.init(configuration.listener, parts, eventLoopGroup: eventLoopGroup, logger: logger)
    }

    /// Asks the backend about each provider again.
    ///
    /// A connection whose provider is no longer admitted ends as at a graceful shutdown: nothing more is accepted, and
    /// it closes when its notifications in flight are completed.
    ///
    /// It has an effect only for the binary protocol.
    ///
    /// It returns when those connections accept nothing more.
    ///
    /// - SeeAlso: ``DeliveryConnection/isAdmitted(_:)``.
    public func readmit() async { try? await self.beginReadmission().get() }

    /// Begins to do what ``readmit()`` does.
    package func beginReadmission() -> EventLoopFuture<Void> { self.send(BinaryConnectionHandler.Readmission()) }

    /// Creates the handler of a connection whose TLS ends elsewhere.
    package static func binaryHandler(
        on eventLoop: any EventLoop,
        certificate: TLSCertificate,
        _ configuration: BinaryListenerConfiguration,
        backend: any DeliveryBackend,
        logger: Logger
    ) -> any ChannelHandler {
        let connection = Connection(
            number: 1,
            eventLoop: eventLoop,
            tls: KnownCertificate(certificate),
            admission: ConnectionAdmission(ConnectionRegistry(countMax: 1, unauthenticatedCountMax: 1), logger: logger),
            logger: logger
        )
        return BinaryConnectionHandler(connection, configuration, backend: backend)
    }

    /// The TLS properties of a connection whose TLS ends elsewhere.
    private final class KnownCertificate: TLSFacts {
        let peerCertificate: TLSCertificate?
        let peerIntermediates: [TLSCertificate] = []
        let negotiatedVersion: TLSVersion? = nil
        let isTruncated = false

        init(_ certificate: TLSCertificate) { self.peerCertificate = certificate }
    }
}
