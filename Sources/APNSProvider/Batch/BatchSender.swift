// SPDX-License-Identifier: Apache-2.0

public import APNSWire
public import Logging
public import NIOCore
public import NIOPosix

/// Sends all that a source gives, and proves what became of each.
///
/// This is the fast way to send: the source is asked on the event loops of the connections. See ``PushClient`` for the
/// convenient way.
public struct BatchSender: Sendable {
    private let transport: any ProviderTransport
    private let group: any EventLoopGroup

    /// Prepares to send over the binary protocol.
    ///
    /// - Parameters:
    ///   - configuration: where and how.
    ///   - eventLoopGroup: the threads that do it; NIO's own by default.
    ///   - logger: gets debug messages; the current task's logger by default.
    ///   - onFailure: is told of every connection that fails, on its event loop; by default nobody is.
    /// - Throws: ``ProviderError/Kind/configuration`` for values out of their range, ``ProviderError/Kind/tls(_:)`` for
    ///   certificates and keys that cannot be used.
    public init(
        _ configuration: ProviderConfiguration,
        eventLoopGroup: any EventLoopGroup = MultiThreadedEventLoopGroup.singleton,
        logger: Logger = .current,
        onFailure: @escaping @Sendable (ConnectionFailure) -> Void = { _ in }
    ) throws(ProviderError) {
        let observer = DeliveryObserver(.notifications, onFailure: onFailure)
        let transport = try BinaryTransport(configuration, observer: observer, logger: logger)
        self.init(over: transport, eventLoopGroup: eventLoopGroup)
    }

    /// Prepares to send over the binary protocol, with connections that are followed.
    ///
    /// - Parameters:
    ///   - configuration: where and how.
    ///   - monitor: follows the connections.
    ///   - logger: gets debug messages.
    ///   - onFailure: is told of every connection that fails, on its event loop.
    /// - Throws: as without a monitor.
    package init(
        _ configuration: ProviderConfiguration,
        monitor: ConnectionMonitor,
        logger: Logger,
        onFailure: @escaping @Sendable (ConnectionFailure) -> Void
    ) throws(ProviderError) {
        let observer = DeliveryObserver(.notifications, monitor: monitor, onFailure: onFailure)
        let transport = try BinaryTransport(configuration, observer: observer, logger: logger)
        self.init(over: transport, eventLoopGroup: MultiThreadedEventLoopGroup.singleton)
    }

    /// Prepares to send.
    ///
    /// - Parameters:
    ///   - transport: carries the notifications.
    ///   - eventLoopGroup: the threads that do it.
    package init(over transport: any ProviderTransport, eventLoopGroup: any EventLoopGroup) {
        self.transport = transport
        self.group = eventLoopGroup
    }

    /// Counts what is sent.
    var observer: DeliveryObserver { self.transport.observer }

    /// Sends until the source says that nothing more comes and everything is settled.
    ///
    /// When the task is cancelled, sending stops at once: what may have been processed is indeterminate, the rest
    /// unsent. Ask the source to end for an orderly stop.
    ///
    /// - Parameter source: gives the notifications and takes their outcomes.
    /// - Throws: why not everything was tried. All that the source gave has its outcome by then, too.
    public func run(_ source: any NotificationSource) async throws(ProviderError) {
        let pool = WorkerPool(count: self.transport.workerCount, on: self.group, self.transport.begin(source))
        source.start { pool.wake() }
        let endings = await pool.endings()
        source.stop()
        if let failure = self.transport.failure(of: endings) { throw failure }
    }
}

extension BatchSender: CustomStringConvertible, CustomReflectable {
    /// Always the same text.
    public var description: String { "batch sender" }

    /// Nothing that is not in ``description``, so that `dump` prints one line.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}
