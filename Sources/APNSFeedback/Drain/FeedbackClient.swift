// SPDX-License-Identifier: Apache-2.0

public import APNSWire
import Glibc
public import Logging
public import NIOCore
public import NIOPosix
public import OpenSSLTLS

/// Reads one list of dead tokens from the feedback service, and hands it over page by page.
///
/// Reading empties the service's list. So what comes goes to the disk before anything else is done with it: into the
/// spool, a folder, which a page leaves when the closure that it was handed to returns. What an earlier drain left
/// there is handed over first. A process that ends at any instant loses nothing that it had spooled.
///
/// <doc:Draining-the-feedback-service> says what a crash and an error mean.
public struct FeedbackClient: Sendable {
    /// Bytes that are read from the socket at a time.
    private static let readByteCount = 65_536

    /// Where the list is read, and how.
    public let configuration: FeedbackConfiguration

    let spool: FeedbackSpool
    private let group: any EventLoopGroup
    private let pool: NIOThreadPool
    private let logger: Logger

    /// Makes a client with the defaults, for the app that a certificate names.
    ///
    /// - Parameters:
    ///   - host: where the feedback service listens: the name that its certificate bears, or an IP address.
    ///   - port: 2196 by default.
    ///   - identity: the push certificate, with its key.
    ///   - trust: the authorities that the service's certificate must lead to; by default those of the system.
    ///   - spool: a folder, which is made where it is not there; what is above it must be.
    ///   - logger: gets warnings of what had to be set aside, and debug messages.
    /// - Throws: ``FeedbackError`` where the certificate names no topic, or the folder cannot be made.
    public init(
        host: String,
        port: Int = Endpoint.feedbackPort,
        identity: TLSIdentity,
        trust: TLSTrust = .system,
        spool: String,
        logger: Logger = .current
    ) throws(FeedbackError) {
        let configuration = try FeedbackConfiguration(host: host, port: port, identity: identity, trust: trust)
        try self.init(configuration, spool: spool, logger: logger)
    }

    /// Makes a client.
    ///
    /// - Parameters:
    ///   - configuration: where the list is read, and how.
    ///   - spool: a folder, which is made where it is not there; what is above it must be. Several clients may share
    ///     it.
    ///   - eventLoopGroup: by default NIO's own.
    ///   - threadPool: where calls block; by default NIO's own.
    ///   - logger: gets warnings of what had to be set aside, and debug messages.
    /// - Throws: ``FeedbackError/topicUnusable(_:)``, ``FeedbackError/spool(_:)``.
    public init(
        _ configuration: FeedbackConfiguration,
        spool: String,
        eventLoopGroup: any EventLoopGroup = MultiThreadedEventLoopGroup.singleton,
        threadPool: NIOThreadPool = .singleton,
        logger: Logger = .current
    ) throws(FeedbackError) {
        // What could not be kept is not read.
        try configuration.scope.check()
        do throws(SpoolError) { self.spool = try FeedbackSpool(folder: spool) } catch { throw .spool(error) }
        self.configuration = configuration
        self.group = eventLoopGroup
        self.pool = threadPool
        self.logger = logger
    }

    /// The app and environment.
    public var scope: TokenScope { self.configuration.scope }

    /// Hands over what earlier drains left, then reads the service's list and hands it over, unless another process on
    /// this machine does so with the same certificate.
    ///
    /// A page leaves the spool when `take` returns; return when its tokens are durable. So each token is handed over at
    /// least once: a page whose closure threw, or in which the process ended, comes again with the next drain, marked
    /// as ``DeadTokenPage/possibleDuplicate``, and before any page behind it.
    ///
    /// When the task is cancelled, no more is read, and what was read is handed over: also then, `take` is called.
    ///
    /// - Parameter take: is given the pages, one at a time.
    /// - Returns: what was done. Look at ``FeedbackOutcome/leftovers`` and ``FeedbackOutcome/ending``, which are logged
    ///   where they are out of the ordinary; ``FeedbackOutcome/failure`` is `nil`.
    /// - Throws: ``FeedbackError/notTaken(underlying:)`` with the error of `take`, and whatever else kept the drain
    ///   from its end. What was handed over before that was taken.
    @discardableResult
    public func drain(
        _ take: @escaping @Sendable (_ page: DeadTokenPage) async throws -> Void
    ) async throws(FeedbackError) -> FeedbackOutcome {
        let outcome = await self.outcome(of: take)
        self.log(outcome)
        if let failure = outcome.failure { throw failure }
        return outcome
    }

    /// Drains, and tells what was done also where it failed.
    func outcome(of take: @escaping PageConsumer.Body) async -> FeedbackOutcome {
        let consumer = PageConsumer(tokenCountMax: self.configuration.pageTokenCountMax, take)
        var outcome = FeedbackOutcome(scope: self.configuration.scope)
        do {
            let lock = try self.spool.lock(self.configuration.scope)
            defer { withExtendedLifetime(lock) {} }
            try await self.replay(&outcome, consumer)
            guard !Task.isCancelled else { throw FeedbackError.stopped }
            let drainLock = try self.configuration.tls.identity.flatMap {
                try DrainLock.take($0.certificate.fingerprint, self.configuration.endpoint)
            }
            defer { withExtendedLifetime(drainLock) {} }
            try await self.read(&outcome, consumer)
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

    /// Says what nobody may miss, since an outcome can be left unread.
    func log(_ outcome: FeedbackOutcome) {
        func metadata(_ cause: String) -> Logger.Metadata {
            [LogKey.topic: "\(outcome.scope.topic)", LogKey.failure: "\(cause)"]
        }
        for leftover in outcome.leftovers {
            self.logger.warning("feedback set aside", metadata: metadata("\(leftover)"))
        }
        guard outcome.failure == nil, let cause = outcome.ending?.cause, !cause.isByService else { return }
        self.logger.warning("feedback not read to its end", metadata: metadata("\(cause)"))
    }

    private var threads: BlockingThreads { BlockingThreads(pool: self.pool, group: self.group) }

    private func replay(_ outcome: inout FeedbackOutcome, _ consumer: PageConsumer) async throws {
        let result = try await SpoolImport.replay(
            self.configuration.scope,
            of: self.spool,
            into: consumer,
            on: self.threads,
            now: Int64(time(nil))
        )
        outcome.replayedTupleCount = result.tupleCount
        outcome.add(result)
    }

    private func read(_ outcome: inout FeedbackOutcome, _ consumer: PageConsumer) async throws {
        let header = SpoolHeader(
            scope: self.configuration.scope,
            host: self.configuration.endpoint.host,
            startedAt: Int64(time(nil))
        )
        let receiver = SpoolReceiver(self.spool, header, into: consumer, on: self.threads)
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
    }

    /// Connects and reads to the end.
    private func connect(_ receiver: SpoolReceiver) async throws -> FeedbackHandler.Ending {
        let opener = try ConnectionOpener(
            endpoint: self.configuration.endpoint,
            role: .feedbackService,
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
                    let allocator = FixedSizeRecvByteBufferAllocator(capacity: FeedbackClient.readByteCount)
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

extension FeedbackClient: CustomStringConvertible, CustomReflectable {
    /// Whose list it reads and where.
    public var description: String { "client for \(self.configuration)" }

    /// Nothing that is not in ``description``, so that `dump` prints one line.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}
