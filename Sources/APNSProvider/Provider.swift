// SPDX-License-Identifier: Apache-2.0

public import APNSSession
public import APNSWire
public import Logging
import NIOConcurrencyHelpers
public import NIOCore
public import NIOPosix
public import ServiceLifecycle

/// Sends notifications one by one, and says what became of each.
///
/// ``run()`` does the work; while it runs, ``send(_:)`` may be called from any task and ``outcomes`` be read by one.
/// The whole may be lent with ``withProvider(_:eventLoopGroup:logger:onOutcome:_:)``, or run as a service of
/// swift-service-lifecycle, whose graceful shutdown sends and proves what was taken.
public struct Provider: Service, Sendable {
    /// What became of the notifications, by the numbers that ``send(_:)`` returned; for one reader.
    ///
    /// It must be read: once 10,000 entries wait, no more notifications are taken. It ends when everything that was
    /// taken has its outcome.
    public let outcomes: Outcomes

    private let sender: BatchSender
    private let submissionQueue: SubmissionQueue
    private let phase = NIOLockedValueBox(false)

    /// Prepares a provider; nothing is connected yet.
    ///
    /// - Parameters:
    ///   - configuration: where and how to send.
    ///   - eventLoopGroup: the threads that do it; NIO's own by default.
    ///   - logger: gets debug messages.
    /// - Throws: ``ProviderError/configuration(_:)`` for values out of their range, and errors of `OpenSSLTLS` for
    ///   certificates and keys that cannot be used.
    public init(
        _ configuration: ProviderConfiguration,
        eventLoopGroup: any EventLoopGroup = MultiThreadedEventLoopGroup.singleton,
        logger: Logger = .current
    ) throws {
        self.init(
            try BatchSender(configuration, eventLoopGroup: eventLoopGroup, logger: logger),
            command: configuration.command,
            payloadByteCountMax: configuration.payloadByteCountMax,
            suppressesRejectedTokens: configuration.suppressesRejectedTokens
        )
    }

    /// Prepares a provider over any transport; nothing is connected yet.
    ///
    /// - Parameters:
    ///   - sender: carries what is put in.
    ///   - command: the format that notifications wait in, which says what of them is kept.
    ///   - payloadByteCountMax: the longest payload.
    ///   - suppressesRejectedTokens: whether no more is sent for tokens that were rejected.
    package init(
        _ sender: BatchSender,
        command: Command,
        payloadByteCountMax: Int,
        suppressesRejectedTokens: Bool
    ) {
        let buffer = OutcomeBuffer()
        self.sender = sender
        self.submissionQueue = SubmissionQueue(
            command: command,
            payloadByteCountMax: payloadByteCountMax,
            suppressesRejectedTokens: suppressesRejectedTokens,
            outcomes: buffer,
            observer: sender.observer
        )
        self.outcomes = Outcomes(buffer: buffer)
    }

    /// Keeps the connections until ``finish()`` was called and everything is settled; may be called once.
    ///
    /// When the task is cancelled, sending stops at once: what may have been processed is indeterminate, the rest
    /// unsent. A graceful shutdown does what ``finish()`` does.
    ///
    /// - Throws: ``ProviderError/alreadyRan``; ``ProviderError/stopped(_:underlying:)`` where sending stopped early.
    ///   Every notification has its outcome by then, too.
    public func run() async throws {
        let isFirst = self.phase.withLockedValue { hasRun in
            defer { hasRun = true }
            return !hasRun
        }
        guard isFirst else { throw ProviderError.alreadyRan }
        try await withGracefulShutdownHandler {
            try await self.sender.run(self.submissionQueue)
        } onGracefulShutdown: {
            self.submissionQueue.finish()
        }
    }

    /// Takes a notification if there is room, without waiting.
    ///
    /// The notification is framed here and now, on the caller's thread; that takes a fraction of a microsecond.
    ///
    /// - Parameter notification: what to send.
    /// - Returns: its number, from 0 in the order of taking; `nil` where there is no room now.
    /// - Throws: ``ProviderError/notRunning`` after ``finish()``, and after ``run()`` has ended.
    public func trySend(_ notification: borrowing PushNotification) throws(ProviderError) -> UInt64? {
        switch self.submissionQueue.put(notification) {
        case .taken(let number): number
        case .full: nil
        case .ended: throw .notRunning
        }
    }

    /// Takes a notification, and waits for room only where there is none.
    ///
    /// - Parameter notification: what to send.
    /// - Returns: its number, from 0 in the order of taking.
    /// - Throws: ``ProviderError/notRunning`` after ``finish()``, and after ``run()`` has ended;
    ///   ``ProviderError/cancelled`` where the task is cancelled while there is no room.
    @discardableResult
    public func send(_ notification: PushNotification) async throws(ProviderError) -> UInt64 {
        while true {
            if let number = try self.trySend(notification) { return number }
            guard !Task.isCancelled else { throw .cancelled }
            await self.submissionQueue.waitForRoom()
        }
    }

    /// Takes all notifications of a sequence, with back-pressure.
    ///
    /// - Parameter notifications: what to send.
    /// - Returns: the numbers that they got; gaps are possible where others send at the same time.
    /// - Throws: what the sequence throws, and ``ProviderError/notRunning``.
    @discardableResult
    public func send<Notifications: AsyncSequence>(
        contentsOf notifications: Notifications
    ) async throws -> Range<UInt64>? where Notifications.Element == PushNotification {
        var numbers: Range<UInt64>?
        for try await notification in notifications {
            let number = try await self.send(notification)
            numbers = (numbers?.lowerBound ?? number)..<(number + 1)
        }
        return numbers
    }

    /// Says that nothing more comes: what was taken is sent and proved, then ``run()`` returns.
    public func finish() {
        self.submissionQueue.finish()
    }
}

extension Provider {
    /// Lends a running provider, and afterwards sends and proves what was taken, on every way out but cancellation.
    ///
    /// When the task is cancelled, sending stops at once; `onOutcome` is still called for everything that was taken.
    ///
    /// - Parameters:
    ///   - configuration: where and how to send.
    ///   - eventLoopGroup: the threads that do it; NIO's own by default.
    ///   - logger: gets debug messages.
    ///   - onOutcome: is told what became of notifications that followed one another.
    ///   - body: is lent the provider.
    /// - Returns: what `body` returns.
    /// - Throws: what `body` throws, and what ``run()`` throws. Where sending stopped early, so that `body` could not
    ///   send, why it stopped.
    public static func withProvider<Value: Sendable>(
        _ configuration: ProviderConfiguration,
        eventLoopGroup: any EventLoopGroup = MultiThreadedEventLoopGroup.singleton,
        logger: Logger = .current,
        onOutcome: @escaping @Sendable (Settlement) async -> Void,
        _ body: @Sendable (Provider) async throws -> Value
    ) async throws -> Value {
        let provider = try Provider(configuration, eventLoopGroup: eventLoopGroup, logger: logger)
        async let running: Void = provider.run()
        async let reading: Void = {
            for await settlement in provider.outcomes { await onOutcome(settlement) }
        }()
        let result: Result<Value, any Error>
        do { result = .success(try await body(provider)) } catch { result = .failure(error) }
        provider.finish()
        let ran: Result<Void, any Error>
        do { ran = .success(try await running) } catch { ran = .failure(error) }
        await reading
        // A reader that is cancelled leaves what had not come by then; now everything is there.
        for await settlement in provider.outcomes { await onOutcome(settlement) }
        if case .failure(ProviderError.notRunning) = result { try ran.get() }
        let value = try result.get()
        try ran.get()
        return value
    }
}

/// What became of notifications, in ranges of their numbers; for one reader.
public struct Outcomes: AsyncSequence, Sendable {
    /// Notifications that followed one another and have the same outcome.
    public typealias Element = Settlement
    /// Reading outcomes does not fail.
    public typealias Failure = Never

    let buffer: OutcomeBuffer

    /// Reads the outcomes.
    public struct Iterator: AsyncIteratorProtocol {
        let buffer: OutcomeBuffer

        /// The next outcome; `nil` when everything that was taken has one, or when the task is cancelled.
        public mutating func next() async -> Settlement? { await self.buffer.next() }

        /// The next outcome, as ``next()``.
        ///
        /// - Parameter actor: where the caller is.
        /// - Returns: the next outcome, or `nil`.
        public mutating func next(isolation actor: isolated (any Actor)?) async -> Settlement? {
            await self.buffer.next()
        }
    }

    /// Begins to read.
    public func makeAsyncIterator() -> Iterator { Iterator(buffer: self.buffer) }
}
