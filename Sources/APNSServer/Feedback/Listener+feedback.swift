// SPDX-License-Identifier: Apache-2.0

public import Logging
public import NIOCore
public import NIOPosix

extension Listener {
    /// Makes a feedback service, which does not listen yet: it gives each provider the list of its topic's dead tokens.
    ///
    /// Entries leave the ``FeedbackStore`` only when all of a list was written and the provider has closed in order;
    /// what was cut short is delivered again.
    ///
    /// - Parameters:
    ///   - configuration: where it listens, whom it lets in, and how it delivers.
    ///   - store: where the tuples are from.
    ///   - eventLoopGroup: by default NIO's own.
    ///   - logger: is told of connections, at debug level, and of refusals with their reasons.
    public convenience init(
        _ configuration: FeedbackListenerConfiguration,
        store: any FeedbackStore,
        eventLoopGroup: any EventLoopGroup = MultiThreadedEventLoopGroup.singleton,
        logger: Logger = .current
    ) {
        let counter = ProviderConnectionCounter(countMax: configuration.connectionCountMaxPerProvider)
        let parts = Parts(
            farewell: FeedbackConnectionHandler.Shutdown(),
            handlers: { [FeedbackConnectionHandler($0, configuration, store: store, counter: counter)] }
        )
        self.init(configuration.listener, parts, eventLoopGroup: eventLoopGroup, logger: logger)
    }
}
