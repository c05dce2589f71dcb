// SPDX-License-Identifier: Apache-2.0

public import APNSWire
import Glibc
public import Logging
public import NIOCore
public import NIOPosix
import OpenSSLTLS

/// Reads one list of dead tokens from the feedback service, and hands it to a sink.
///
/// Reading empties the service's list. So what comes goes to the disk before anything else is done with it: into a
/// segment of the ``FeedbackSpool``, which is given up when the ``DeadTokenSink`` has taken it. What an earlier drain
/// left there is handed over first. A process that ends at any instant loses nothing that it had spooled; the sink may
/// be given again what it took last.
public struct FeedbackDrain: Sendable {
    /// Bytes that are read from the socket at a time.
    private static let readByteCount = 65_536

    private let configuration: FeedbackConfiguration
    private let spool: FeedbackSpool
    private let sink: any DeadTokenSink
    private let group: any EventLoopGroup
    private let pool: NIOThreadPool
    private let logger: Logger

    /// Makes a drain.
    ///
    /// - Parameters:
    ///   - configuration: where the list is read, and how.
    ///   - spool: where bytes wait until the sink has taken them.
    ///   - sink: is handed the tokens.
    ///   - eventLoopGroup: by default NIO's own.
    ///   - threadPool: where calls block; by default NIO's own.
    ///   - logger: gets debug messages.
    public init(
        _ configuration: FeedbackConfiguration,
        spool: FeedbackSpool,
        sink: any DeadTokenSink,
        eventLoopGroup: any EventLoopGroup = MultiThreadedEventLoopGroup.singleton,
        threadPool: NIOThreadPool = .singleton,
        logger: Logger = .current
    ) {
        self.configuration = configuration
        self.spool = spool
        self.sink = sink
        self.group = eventLoopGroup
        self.pool = threadPool
        self.logger = logger
    }

    /// The app and environment.
    public var scope: TokenScope { self.configuration.scope }

    /// Hands over what earlier drains left, then reads the service's list, unless another process on this machine does
    /// so with the same certificate.
    ///
    /// When the task is cancelled, no more is read, and what was read is handed over.
    ///
    /// - Returns: what was done, also where it failed.
    public func run() async -> FeedbackOutcome {
        var outcome = FeedbackOutcome(scope: self.configuration.scope)
        do {
            // What could not be kept is not read.
            try self.configuration.scope.check()
            let lock = try self.spool.lock(self.configuration.scope)
            defer { withExtendedLifetime(lock) {} }
            try await self.replay(&outcome)
            guard !Task.isCancelled else { throw FeedbackError.stopped }
            let drainLock = try self.configuration.tls.identity.flatMap {
                try DrainLock.take($0.certificate.fingerprint, self.configuration.endpoint)
            }
            defer { withExtendedLifetime(drainLock) {} }
            try await self.read(&outcome)
        } catch {
            outcome.failure = FeedbackError(error, self.configuration.endpoint)
        }
        self.logger.debug(
            "feedback drained",
            metadata: [
                LogKey.topic: "\(outcome.scope.topic)", LogKey.tuples: "\(outcome.tupleCount)",
                LogKey.replayedTuples: "\(outcome.replayedTupleCount)",
            ]
        )
        return outcome
    }

    private var threads: BlockingThreads { BlockingThreads(pool: self.pool, group: self.group) }

    private func replay(_ outcome: inout FeedbackOutcome) async throws {
        let sink = SinkErrors(self.sink)
        let result = try await SpoolImport.replay(
            self.configuration.scope,
            of: self.spool,
            into: sink,
            on: self.threads,
            now: Int64(time(nil))
        )
        outcome.replayedTupleCount = result.tupleCount
        outcome.add(result)
    }

    private func read(_ outcome: inout FeedbackOutcome) async throws {
        let header = SpoolHeader(
            scope: self.configuration.scope,
            host: self.configuration.endpoint.host,
            startedAt: Int64(time(nil))
        )
        let receiver = SpoolReceiver(self.spool, header, into: SinkErrors(self.sink), on: self.threads)
        try await receiver.begin()
        let ending: FeedbackHandler.Ending
        do { ending = try await self.connect(receiver) } catch {
            try? await receiver.finish(isEnded: false)
            throw error
        }
        outcome.ending = ending.ending
        var failure = ending.spoolFailure ?? ending.importFailure
        do {
            if ending.importFailure == nil || receiver.unspooledByteCount > 0 {
                let isEnded = ending.ending?.cause.isByService ?? false
                try await receiver.finish(isEnded: isEnded)
            }
        } catch {
            let lostByteCount = receiver.unspooledByteCount
            failure =
                lostByteCount > 0
                ? FeedbackError.lost(byteCount: lostByteCount, underlying: error) : failure ?? error
        }
        let result = receiver.result
        outcome.tupleCount = result.tupleCount
        outcome.add(result)
        if let failure { throw failure }
        guard ending.ending != nil || !Task.isCancelled else { throw FeedbackError.stopped }
        switch ending.ending?.cause {
        case .refused: throw FeedbackError.refused(self.configuration.endpoint)
        case .failed, nil: throw ending.connectionFailure ?? ChannelError.eof
        case .closed, .silence, .deadline, .stopped, .limit, .malformed: break
        }
        // Also where nothing was dead there: then that is known.
        try await SinkErrors(self.sink).finish(self.scope)
    }

    /// Connects and reads to the end.
    private func connect(_ receiver: SpoolReceiver) async throws -> FeedbackHandler.Ending {
        let opener = try ConnectionOpener(
            endpoint: self.configuration.endpoint,
            proxy: self.configuration.proxy,
            tls: self.configuration.tls,
            connectDurationMax: self.configuration.connectDurationMax,
            keepaliveDelay: nil
        )
        let eventLoop = self.group.next()
        let (configuration, pool) = (self.configuration, self.pool)
        let opening = eventLoop.submit {
            () -> (NIOLoopBound<FeedbackHandler>, EventLoopFuture<FeedbackHandler.Ending>) in
            let ended = eventLoop.makePromise(of: FeedbackHandler.Ending.self)
            let handler = FeedbackHandler(configuration, receiver, pool: pool, ended: ended)
            let bound = NIOLoopBound(handler, eventLoop: eventLoop)
            opener.open(
                on: eventLoop,
                adopt: { channel in
                    // The service's close is answered when what it sent is on the disk.
                    try channel.syncOptions?.setOption(.allowRemoteHalfClosure, value: true)
                    let allocator = FixedSizeRecvByteBufferAllocator(capacity: FeedbackDrain.readByteCount)
                    try channel.syncOptions?.setOption(.recvAllocator, value: allocator)
                },
                finish: { channel, tls in
                    try channel.pipeline.syncOperations.addHandlers(RawCloseHandler(), tls, bound.value)
                }
            )
            .assumeIsolated().whenFailure { bound.value.fail($0) }
            return (bound, ended.futureResult)
        }
        let (bound, ended) = try await opening.get()
        return try await withTaskCancellationHandler {
            try await ended.get()
        } onCancel: {
            eventLoop.execute { bound.value.stop() }
        }
    }
}

extension FeedbackOutcome {
    fileprivate mutating func add(_ result: SpoolImport.Result) {
        self.futureTupleCount += result.futureTupleCount
        self.leftovers += result.leftovers
    }
}

/// A sink whose errors are told from those of the spool and of the connection.
private struct SinkErrors: DeadTokenSink {
    private let sink: any DeadTokenSink

    init(_ sink: any DeadTokenSink) { self.sink = sink }

    var pageTokenCountMax: Int { self.sink.pageTokenCountMax }

    func take(_ page: DeadTokenPage) async throws {
        do { try await self.sink.take(page) } catch { throw FeedbackError.sink(error) }
    }

    func finish(_ scope: TokenScope) async throws {
        do { try await self.sink.finish(scope) } catch { throw FeedbackError.sink(error) }
    }
}
