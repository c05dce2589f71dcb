// SPDX-License-Identifier: Apache-2.0

import APNSTransport
public import APNSProvider
import APNSWire
public import Logging
public import NIOCore
public import NIOPosix

/// The options of a batch over HTTP/2, in addition to ``HTTP2Configuration``.
public struct HTTP2BatchOptions: Sendable {
    /// How a notification is converted to a request.
    public var requests: RequestRules

    /// The number of consecutive tokens rejected as invalid, with none accepted between them, after which the batch
    /// ends; 0 for no limit; 1000 by default.
    public var invalidTokenRunCountMax = 1000

    /// The maximum number of attempts for a notification that the service answers with 429 or 5xx; 10 by default.
    public var sendCountMax = 10

    /// The maximum time for the remaining notifications after the source is stopped, see
    /// `NotificationSource.isStopped`; 30 s by default.
    ///
    /// After that, written ones are indeterminate, and the rest unsent.
    public var drainTimeout = Duration.seconds(30)

    /// Makes options with the defaults.
    ///
    /// - Parameter requests: how a notification is converted to a request.
    public init(requests: RequestRules) { self.requests = requests }
}

/// The transport for the HTTP/2 provider API, with one stream for each notification.
struct HTTP2Transport: ProviderTransport {
    private let configuration: HTTP2Configuration
    private let options: HTTP2BatchOptions
    private let opener: ConnectionOpener
    private let logger: Logger
    let observer: DeliveryObserver

    init(
        _ configuration: HTTP2Configuration,
        _ options: HTTP2BatchOptions,
        monitor: ConnectionMonitor?,
        logger: Logger
    ) throws(ProviderError) {
        self.observer = DeliveryObserver(.requests, monitor: monitor)
        self.configuration = configuration
        self.options = options
        self.opener = try configuration.makeOpener()
        self.logger = logger
    }

    var workerCount: Int { self.configuration.connectionCount }

    func begin(_ source: any NotificationSource) -> WorkerFactory {
        let requests = RequestSource(source, self.configuration, self.options)
        return HTTP2ConnectionWorker.factory(
            .init(self.configuration, self.opener, requests, observer: self.observer, logger: self.logger)
        )
    }

    func failure(of endings: [WorkerEnding]) -> ProviderError? {
        endings.lazy.compactMap(\.failure).first
    }
}

extension BatchSender {
    /// Creates a sender for the HTTP/2 provider API.
    ///
    /// - Parameters:
    ///   - configuration: the service and the options.
    ///   - options: the options of the batch.
    ///   - eventLoopGroup: the event loops; NIO's singleton by default.
    ///   - logger: receives debug messages; the current task's logger by default.
    /// - Throws: `ProviderError` of kind `configuration` for values out of range, of kind `tls` for certificates and
    ///   keys that cannot be used.
    public init(
        http2 configuration: HTTP2Configuration,
        _ options: HTTP2BatchOptions,
        eventLoopGroup: any EventLoopGroup = MultiThreadedEventLoopGroup.singleton,
        logger: Logger = .current
    ) throws(ProviderError) {
        try self.init(http2: configuration, options, eventLoopGroup, monitor: nil, logger: logger)
    }

    /// Prepares to send over the HTTP/2 provider API, with connections that are followed.
    ///
    /// - Throws: as without a monitor.
    package init(
        http2 configuration: HTTP2Configuration,
        _ options: HTTP2BatchOptions,
        _ group: any EventLoopGroup = MultiThreadedEventLoopGroup.singleton,
        monitor: ConnectionMonitor?,
        logger: Logger
    ) throws(ProviderError) {
        let transport = try HTTP2Transport(configuration, options, monitor: monitor, logger: logger)
        self.init(over: transport, eventLoopGroup: group)
    }
}
