// SPDX-License-Identifier: Apache-2.0

public import Logging
public import NIOCore
public import NIOPosix
import OpenSSLTLS

extension Listener {
    /// Creates a feedback service that does not listen yet.
    ///
    /// It sends each provider the dead tokens of its topic.
    ///
    /// Entries leave the ``FeedbackStore`` only after a whole list was written and the provider has closed cleanly.
    /// An incomplete list is delivered again.
    ///
    /// - Parameters:
    ///   - configuration: the address, admission rules and delivery options.
    ///   - store: the source of the tuples.
    ///   - eventLoopGroup: the event loops; by default NIO's singleton.
    ///   - logger: receives connections at debug level, and refusals with their reasons.
    public convenience init(
        _ configuration: FeedbackListenerConfiguration,
        store: any FeedbackStore,
        eventLoopGroup: any EventLoopGroup = MultiThreadedEventLoopGroup.singleton,
        logger: Logger = .current
    ) {
        let counter = ProviderConnectionCounter(countMax: configuration.connectionCountMaxPerProvider)
        let parts = Parts(
            farewell: FeedbackConnectionHandler.Shutdown(),
            // A provider that ends its stream without close_notify may still read.
            configureTLS: { $0.acceptsTruncation = true },
            handlers: { [FeedbackConnectionHandler($0, configuration, store: store, counter: counter)] }
        )
        self.init(configuration.listener, parts, eventLoopGroup: eventLoopGroup, logger: logger)
    }
}
