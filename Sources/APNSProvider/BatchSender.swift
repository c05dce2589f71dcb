// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSTransport
public import Logging
public import NIOCore
public import NIOPosix
import ServiceLifecycle

/// Sends all that a source gives, and proves what became of each.
///
/// This is the fast way to send: the source is asked on the event loops of the connections. See ``Provider`` for the
/// convenient way.
public struct BatchSender: Sendable {
    private let configuration: ProviderConfiguration
    private let opener: ConnectionOpener
    private let group: any EventLoopGroup
    private let logger: Logger
    private let observer: ProviderObserver

    /// Prepares to send.
    ///
    /// - Parameters:
    ///   - configuration: where and how.
    ///   - eventLoopGroup: the threads that do it; NIO's own by default.
    ///   - logger: gets debug messages; the current task's logger by default.
    ///   - onFailure: is told of every connection that fails, on its event loop; by default nobody is.
    /// - Throws: ``ProviderError/configuration(_:)`` for values out of their range, and errors of `OpenSSLTLS` for
    ///   certificates and keys that cannot be used.
    public init(
        _ configuration: ProviderConfiguration,
        eventLoopGroup: any EventLoopGroup = MultiThreadedEventLoopGroup.singleton,
        logger: Logger = .current,
        onFailure: @escaping @Sendable (any Error) -> Void = { _ in }
    ) throws {
        try BatchSender.check(configuration)
        self.configuration = configuration
        self.opener = try ConnectionOpener(
            endpoint: configuration.endpoint,
            proxy: configuration.proxy,
            tls: configuration.tls,
            connectDurationMax: configuration.connectDurationMax,
            keepaliveDelay: configuration.keepaliveDelay
        )
        self.group = eventLoopGroup
        self.logger = logger
        self.observer = ProviderObserver(onFailure: onFailure)
    }

    /// Sends until the source says that nothing more comes and everything is settled.
    ///
    /// When the task is cancelled, sending stops at once: what may have been processed is indeterminate, the rest
    /// unsent. Ask the source to end for an orderly stop.
    ///
    /// - Parameter source: gives the notifications and takes their outcomes.
    /// - Throws: ``ProviderError/stopped(_:underlying:)`` where a connection's session stopped early. All that the
    ///   source gave has its outcome by then, too.
    public func run(_ source: any NotificationSource) async throws {
        let endings = try await self.runWorkers(source)
        source.stop()
        // A worker that could not connect has done no harm where the others have sent everything.
        if endings.contains(where: { $0.ending == .completed }), !endings.contains(where: \.hasLeftSomething) { return }
        guard
            let worst = endings.first(where: { $0.ending != .completed && $0.ending != .abandoned })
                ?? endings.first(where: { $0.ending == .abandoned })
        else { return }
        throw ProviderError.stopped(worst.ending, underlying: worst.failure)
    }

    private func runWorkers(_ source: any NotificationSource) async throws -> [WorkerEnding] {
        let workers = WorkerPool(
            (0..<self.configuration.connectionCount).map { index in
                let eventLoop = self.group.next()
                return WorkerPool.WorkerHandle(index: index, eventLoop: eventLoop, finished: eventLoop.makePromise())
            }
        )
        for handle in workers.handles {
            handle.eventLoop.execute {
                let worker = ConnectionWorker(
                    configuration: self.configuration,
                    opener: self.opener,
                    source: source,
                    eventLoop: handle.eventLoop,
                    observer: self.observer,
                    logger: self.logger,
                    finished: handle.finished
                )
                workers.enter(worker, handle)
                worker.begin()
            }
        }
        source.start { workers.forEachWorker { $0.wake() } }
        for handle in workers.handles {
            // What one was told for good stops the others, too. One that cannot connect says nothing about them: a
            // gateway may take fewer connections than there are workers.
            handle.finished.futureResult.whenSuccess { ending in
                switch ending.ending {
                case .completed, .unavailable, .refused: break
                case .notPermitted, .tooManyInvalidTokens, .abandoned: workers.forEachWorker { $0.abandon() }
                }
            }
        }
        defer { workers.clear() }
        return try await withTaskCancellationHandler {
            var endings: [WorkerEnding] = []
            for handle in workers.handles { endings.append(try await handle.finished.futureResult.get()) }
            return endings
        } onCancel: {
            workers.forEachWorker { $0.abandon() }
        }
    }

    private static func check(_ configuration: ProviderConfiguration) throws {
        guard (1...ProviderConfiguration.connectionCountMax).contains(configuration.connectionCount) else {
            let limit = ProviderConfiguration.connectionCountMax
            throw ProviderError.configuration(
                "There may be 1 to \(limit) connections, not \(configuration.connectionCount)."
            )
        }
        guard (1...65535).contains(configuration.endpoint.port) else {
            throw ProviderError.configuration("A port is 1 to 65535, not \(configuration.endpoint.port).")
        }
        guard (1...(1 << 31)).contains(configuration.limits.windowCount) else {
            throw ProviderError.configuration("The window is 1 to 2147483648, not \(configuration.limits.windowCount).")
        }
        guard (1...NotificationBatch.payloadByteCountMax).contains(configuration.payloadByteCountMax) else {
            let (count, limit) = (configuration.payloadByteCountMax, NotificationBatch.payloadByteCountMax)
            throw ProviderError.configuration("The longest payload is 1 to \(limit) bytes, not \(count).")
        }
    }
}
