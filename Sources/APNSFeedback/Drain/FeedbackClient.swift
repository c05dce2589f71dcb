// SPDX-License-Identifier: Apache-2.0

import APNSTransport
public import APNSWire
import Glibc
public import Logging
public import NIOCore
public import NIOPosix
public import OpenSSLTLS

/// Reads one list of dead tokens from the feedback service, and delivers it page by page.
///
/// Reading removes entries from the service's list. Therefore received bytes are first written to the spool, a folder
/// on disk; a page is removed from it when the closure that received it returns. What an earlier drain left in the
/// spool is delivered first. A process that ends at any time loses nothing that it had spooled.
///
/// <doc:Draining-the-feedback-service> describes the effects of a crash and of an error.
public struct FeedbackClient: Sendable {
    /// The number of bytes to read from the socket at a time.
    private static let readByteCount = 65_536

    /// The service and the options.
    public let configuration: FeedbackConfiguration

    let spool: FeedbackSpool
    private let group: any EventLoopGroup
    private let pool: NIOThreadPool
    private let logger: Logger

    /// Creates a client with the defaults, for the app named in a certificate.
    ///
    /// - Parameters:
    ///   - host: the feedback service: the name in its certificate, or an IP address.
    ///   - port: 2196 by default.
    ///   - identity: the push certificate, with its key.
    ///   - trust: the authorities of the service's certificate; those of the system by default.
    ///   - spool: a folder, created if missing; its parent must exist.
    ///   - logger: receives warnings about files that were set aside, and debug messages.
    /// - Throws: ``FeedbackError`` if the certificate contains no topic, or the folder cannot be created.
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

    /// Creates a client.
    ///
    /// - Parameters:
    ///   - configuration: the service and the options.
    ///   - spool: a folder, created if missing; its parent must exist. Several clients may share it.
    ///   - eventLoopGroup: the event loops; NIO's singleton by default.
    ///   - threadPool: the threads for blocking calls; NIO's singleton by default.
    ///   - logger: receives warnings about files that were set aside, and debug messages.
    /// - Throws: ``FeedbackError/topicUnusable(_:)``, ``FeedbackError/spool(_:)``.
    public init(
        _ configuration: FeedbackConfiguration,
        spool: String,
        eventLoopGroup: any EventLoopGroup = MultiThreadedEventLoopGroup.singleton,
        threadPool: NIOThreadPool = .singleton,
        logger: Logger = .current
    ) throws(FeedbackError) {
        // Check first, so that nothing is read that cannot be stored.
        try configuration.scope.check()
        do throws(SpoolError) { self.spool = try FeedbackSpool(folder: spool) } catch { throw .spool(error) }
        self.configuration = configuration
        self.group = eventLoopGroup
        self.pool = threadPool
        self.logger = logger
    }

    /// The app and environment.
    public var scope: TokenScope { self.configuration.scope }

    /// Delivers what earlier drains left, then reads the service's list and delivers it, unless another process on this
    /// machine is reading it with the same certificate.
    ///
    /// A page is removed from the spool when `onPage` returns; return when its tokens are durable. So each token is
    /// delivered at least once: a page whose closure threw an error, or during which the process ended, is delivered
    /// again by the next drain, marked as ``DeadTokenPage/isPossibleDuplicate``, and before any later page.
    ///
    /// When the task is cancelled, no more is read, but what was read is still delivered to `onPage`.
    ///
    /// - Parameter onPage: receives the pages, one at a time, in the task and on the actor of the caller.
    /// - Returns: the result. Check ``FeedbackReport/leftovers`` and ``FeedbackReport/ending``, which are also logged
    ///   if they are unusual; ``FeedbackReport/failure`` is `nil`.
    /// - Throws: ``FeedbackError/notDelivered(underlying:)`` with the error of `onPage`, or why the drain did not
    ///   complete.
    ///   Pages delivered before the error are removed from the spool.
    @discardableResult
    public func drain(
        _ onPage: (_ page: DeadTokenPage) async throws -> Void
    ) async throws(FeedbackError) -> FeedbackReport {
        let pages = PageHandoff()
        async let draining = self.report(into: pages)
        while let offer = await pages.next() {
            do {
                try await onPage(offer.page)
                offer.complete(with: nil)
            } catch {
                offer.complete(with: error)
            }
        }
        let report = await draining
        self.log(report)
        if let failure = report.failure { throw failure }
        return report
    }

    private func report(into pages: PageHandoff) async -> FeedbackReport {
        defer { pages.finish() }
        return await self.report(of: pages.deliver)
    }

    /// Drains, and returns the result even if the drain fails.
    func report(of onPage: @escaping PageConsumer.Body) async -> FeedbackReport {
        let consumer = PageConsumer(tokenCountMax: self.configuration.pageTokenCountMax, onPage)
        var report = FeedbackReport(scope: self.configuration.scope)
        do {
            let lock = try self.spool.lock(self.configuration.scope)
            defer { withExtendedLifetime(lock) {} }
            try await self.replay(&report, consumer)
            guard !Task.isCancelled else { throw FeedbackError.stopped }
            let drainLock = try self.configuration.tls.identity.flatMap {
                try DrainLock.acquire($0.certificate.fingerprint, self.configuration.endpoint)
            }
            defer { withExtendedLifetime(drainLock) {} }
            let lease = try await self.acquireLease()
            do {
                try await self.read(&report, consumer, lease)
            } catch {
                await self.release(lease)
                throw error
            }
            await self.release(lease)
        } catch {
            report.failure = FeedbackError(error, self.configuration.endpoint)
        }
        self.logger.debug(
            "feedback drained",
            metadata: [
                LogKey.topic: "\(report.scope.topic)", LogKey.tuples: "\(report.tupleCount)",
                LogKey.replayedTuples: "\(report.replayedTupleCount)",
            ]
        )
        return report
    }

    /// Acquires the lease of the list; `nil` if only this host reads it.
    private func acquireLease() async throws -> FeedbackLease? {
        guard let acquire = self.configuration.lease, let certificate = self.configuration.tls.identity?.certificate
        else {
            return nil
        }
        let (fingerprint, configuration) = (certificate.fingerprint, self.configuration)
        return try await self.threads.run {
            try acquire(fingerprint, configuration.endpoint, configuration.leaseDuration)
        }
    }

    /// Renews the lease immediately before a connection is opened.
    ///
    /// Returns until when it may be opened.
    private func fence(_ lease: FeedbackLease?) async throws -> OpeningFence? {
        guard let lease else { return nil }
        let start = ContinuousClock.now
        let (duration, endpoint) = (self.configuration.leaseDuration, self.configuration.endpoint)
        try await self.threads.run { try lease.renew(duration) }
        return OpeningFence(endpoint, end: start + self.configuration.connectTimeout)
    }

    private func release(_ lease: FeedbackLease?) async {
        guard let lease else { return }
        do {
            try await self.threads.run { try lease.release() }
        } catch {
            self.logger.warning(
                "lease of the feedback not released; it ends by itself",
                metadata: [LogKey.topic: "\(self.configuration.scope.topic)", LogKey.failure: "\(error)"]
            )
        }
    }

    /// Logs what is unusual, since the report may be ignored.
    func log(_ report: FeedbackReport) {
        func metadata(_ reason: String) -> Logger.Metadata {
            [LogKey.topic: "\(report.scope.topic)", LogKey.failure: "\(reason)"]
        }
        for leftover in report.leftovers {
            self.logger.warning("feedback set aside", metadata: metadata("\(leftover)"))
        }
        guard report.failure == nil, let reason = report.ending?.reason, !reason.isByService else { return }
        self.logger.warning("feedback not read to its end", metadata: metadata("\(reason)"))
    }

    private var threads: BlockingThreads { BlockingThreads(pool: self.pool, group: self.group) }

    private func replay(_ report: inout FeedbackReport, _ consumer: PageConsumer) async throws {
        let result = try await SpoolImport.replay(
            self.configuration.scope,
            of: self.spool,
            into: consumer,
            on: self.threads,
            now: Int64(time(nil))
        )
        report.replayedTupleCount = result.tupleCount
        report.add(result)
    }

    private func read(_ report: inout FeedbackReport, _ consumer: PageConsumer, _ lease: FeedbackLease?) async throws {
        let header = SpoolHeader(
            scope: self.configuration.scope,
            host: self.configuration.endpoint.host,
            startedAt: Int64(time(nil))
        )
        let receiver = SpoolReceiver(self.spool, header, into: consumer, on: self.threads)
        try await receiver.begin()
        let ending: FeedbackHandler.ConnectionResult
        do { ending = try await self.connect(receiver, self.fence(lease)) } catch {
            try? await receiver.finish(isEnded: false)
            throw error
        }
        report.ending = ending.ending
        var failure = ending.spoolFailure ?? ending.importFailure
        do {
            if ending.importFailure == nil || receiver.unspooledByteCount > 0 {
                let isEnded = ending.ending?.reason.isByService ?? false
                try await receiver.finish(isEnded: isEnded)
            }
        } catch {
            let lostByteCount = receiver.unspooledByteCount
            failure =
                lostByteCount > 0
                ? FeedbackError.lost(byteCount: lostByteCount, underlying: error) : failure ?? error
        }
        let result = receiver.report
        report.tupleCount = result.tupleCount
        report.add(result)
        if let failure { throw failure }
        guard ending.ending != nil || !Task.isCancelled else { throw FeedbackError.stopped }
        if let found = ending.foreignProtocol { throw FeedbackError(found, self.configuration.endpoint) }
        switch ending.ending?.reason {
        case .refused: throw FeedbackError.refused(self.configuration.endpoint)
        case .failed, nil: throw ending.connectionFailure ?? ChannelError.eof
        case .closed, .silence, .deadline, .stopped, .limit, .malformed: break
        }
    }

    /// The size of the socket's receive buffer in bytes.
    ///
    /// A service may delete entries when it writes them. Those in the socket are lost if the process is killed, and
    /// the size of this buffer limits that of the service's, too.
    private static let receiveBufferByteCount = 64 * 1024

    /// Connects and reads the whole list.
    private func connect(
        _ receiver: SpoolReceiver,
        _ fence: OpeningFence?
    ) async throws -> FeedbackHandler.ConnectionResult {
        let opener = try ConnectionOpener(
            endpoint: self.configuration.endpoint,
            role: .feedbackService,
            proxy: self.configuration.proxy,
            tls: self.configuration.tls,
            connectTimeout: self.configuration.connectTimeout,
            keepaliveDelay: nil,
            receiveBufferByteCount: Self.receiveBufferByteCount,
            addresses: self.configuration.addresses ?? ServiceAddresses()
        )
        let eventLoop = self.group.next()
        let (configuration, pool) = (self.configuration, self.pool)
        let opening = eventLoop.submit {
            () -> (NIOLoopBound<FeedbackHandler>, EventLoopFuture<FeedbackHandler.ConnectionResult>) in
            let ended = eventLoop.makePromise(of: FeedbackHandler.ConnectionResult.self)
            let handler = FeedbackHandler(configuration, receiver, pool: pool, ended: ended)
            let bound = NIOLoopBound(handler, eventLoop: eventLoop)
            opener.open(
                on: eventLoop,
                adopt: { channel in
                    // The service's close is answered after what it sent is on disk.
                    try channel.syncOptions?.setOption(.allowRemoteHalfClosure, value: true)
                    let allocator = FixedSizeRecvByteBufferAllocator(capacity: FeedbackClient.readByteCount)
                    try channel.syncOptions?.setOption(.recvAllocator, value: allocator)
                },
                finish: { channel, tls in
                    // The service may send its list, and forget it, from the handshake on.
                    try fence?.check()
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

extension FeedbackReport {
    fileprivate mutating func add(_ result: SpoolImport.Report) {
        self.futureTupleCount += result.futureTupleCount
        self.leftovers += result.leftovers
    }
}

extension FeedbackClient: CustomStringConvertible, CustomReflectable {
    /// The list and its service.
    public var description: String { "client for \(self.configuration)" }

    /// Empty, so that `dump` prints only the ``description``.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}
