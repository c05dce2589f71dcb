// SPDX-License-Identifier: Apache-2.0

public import Logging
public import NIOCore
public import NIOPosix
import OpenSSLTLS

extension Listener {
    /// Makes a gateway of the binary protocol, which does not listen yet: it takes notifications from providers and
    /// gives them to a backend.
    ///
    /// On graceful shutdown it lets what is in flight be settled, and tells providers with status 10 (by option).
    ///
    /// - Parameters:
    ///   - configuration: where it listens, whom it lets in, and its limits.
    ///   - backend: where the notifications go.
    ///   - eventLoopGroup: by default NIO's own.
    ///   - logger: is told of connections, at debug level, and of refusals with their reasons.
    public convenience init(
        _ configuration: BinaryListenerConfiguration,
        backend: any DeliveryBackend,
        eventLoopGroup: any EventLoopGroup = MultiThreadedEventLoopGroup.singleton,
        logger: Logger = .current
    ) {
        let parts = Parts(
            farewell: BinaryConnectionHandler.Shutdown(isAnnounced: configuration.announcesShutdown),
            // What came before is to be taken, however its sender closed.
            configureTLS: { $0.acceptsTruncation = true },
            handlers: { [BinaryConnectionHandler($0, configuration, backend: backend)] }
        )
        self.init(configuration.listener, parts, eventLoopGroup: eventLoopGroup, logger: logger)
    }

    /// Asks the backend about each provider anew; who is not let in any more as before is treated as at a graceful
    /// shutdown: nothing more is taken, and the connection ends when what is in flight is settled.
    ///
    /// Only a listener of the binary protocol asks; another one does nothing.
    ///
    /// - Returns: completes when nothing more is taken from those.
    /// - SeeAlso: ``DeliveryConnection/isAdmitted(_:)``.
    public func readmit() -> EventLoopFuture<Void> { self.send(BinaryConnectionHandler.Readmission()) }
}
