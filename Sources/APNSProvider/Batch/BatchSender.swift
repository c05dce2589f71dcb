// SPDX-License-Identifier: Apache-2.0

public import APNSWire
public import Logging
public import NIOCore
public import NIOPosix

/// Sends all notifications of a source, and reports the verified outcome of each.
///
/// This is the fast interface: the source is called on the event loops of the connections. ``PushClient`` is the
/// convenient one.
public struct BatchSender: Sendable {
    private let transport: any ProviderTransport
    private let group: any EventLoopGroup

    /// Creates a sender for the binary protocol.
    ///
    /// - Parameters:
    ///   - configuration: the gateway and the options.
    ///   - eventLoopGroup: the event loops; NIO's singleton by default.
    ///   - logger: receives debug messages; the current task's logger by default.
    ///   - onFailure: is called for every connection that fails, on its event loop; by default nothing is.
    /// - Throws: ``ProviderError/Kind/configuration`` for values out of range, ``ProviderError/Kind/tls(_:)`` for
    ///   certificates and keys that cannot be used.
    public init(
        _ configuration: BinaryConfiguration,
        eventLoopGroup: any EventLoopGroup = MultiThreadedEventLoopGroup.singleton,
        logger: Logger = .current,
        onFailure: @escaping @Sendable (ConnectionFailure) -> Void = { _ in }
    ) throws(ProviderError) {
        try self.init(configuration, eventLoopGroup, monitor: nil, logger: logger, onFailure: onFailure)
    }

    /// Prepares to send over the binary protocol, with connections that are followed.
    ///
    /// - Throws: as without a monitor.
    package init(
        _ configuration: BinaryConfiguration,
        _ group: any EventLoopGroup = MultiThreadedEventLoopGroup.singleton,
        monitor: ConnectionMonitor?,
        logger: Logger,
        onFailure: @escaping @Sendable (ConnectionFailure) -> Void
    ) throws(ProviderError) {
        let observer = DeliveryObserver(.notifications, monitor: monitor, onFailure: onFailure)
        let transport = try BinaryTransport(configuration, observer: observer, logger: logger)
        self.init(over: transport, eventLoopGroup: group)
    }

    /// Creates a sender.
    package init(over transport: any ProviderTransport, eventLoopGroup: any EventLoopGroup) {
        self.transport = transport
        self.group = eventLoopGroup
    }

    /// The metrics of this sender.
    var observer: DeliveryObserver { self.transport.observer }

    /// Sends until the source reports that it has ended and everything is settled.
    ///
    /// When the task is cancelled, sending stops immediately: what may have been processed is indeterminate, the rest
    /// unsent. For an orderly stop, end the source.
    ///
    /// - Parameter source: provides the notifications and receives their outcomes.
    /// - Throws: why not everything was attempted. All notifications of the source have their outcome then, too.
    public func run(_ source: any NotificationSource) async throws(ProviderError) {
        let pool = WorkerPool(count: self.transport.workerCount, on: self.group, self.transport.begin(source))
        source.start { pool.wake() }
        let endings = await pool.endings()
        source.stop()
        if let failure = self.transport.failure(of: endings) { throw failure }
    }
}

extension BatchSender: CustomStringConvertible, CustomReflectable {
    /// A constant text.
    public var description: String { "batch sender" }

    /// Empty, so that `dump` prints only the ``description``.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}
