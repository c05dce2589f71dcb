// SPDX-License-Identifier: Apache-2.0

import Logging
import NIOCore
import OpenSSLTLS

/// One connection at a time and what becomes of its requests, on one event loop.
///
/// A connection that the service leaves goes on until its last answer, beside the one that takes its place.
final class HTTP2ConnectionWorker {
    /// What all workers of a client share.
    struct Shared: Sendable {
        let configuration: PushConfiguration
        let opener: PushOpener
        let queue: PushQueue
        let tokens: ProviderTokenSource?
        let observer: PushObserver
        let logger: Logger
        /// Ends the client.
        let stop: @Sendable (PushError) -> Void
    }

    private let index: Int
    private let shared: Shared
    private let eventLoop: any EventLoop
    private var current: PushConnection?
    private var leaving: [PushConnection] = []
    private var failures: ConnectFailureCounter
    private var isPausing = false
    private var isOver = false
    private var timer: Scheduled<Void>?
    private var closed: EventLoopPromise<Void>?
    /// Outcomes since the queue was last told.
    private var settledCount = 0
    private var now = NIODeadline.now()

    /// The most requests that are written before other work of the event loop gets its turn.
    private static let batchCountMax = 256
    private static let checkInterval = TimeAmount.milliseconds(500)

    init(index: Int, shared: Shared, eventLoop: any EventLoop) {
        self.index = index
        self.shared = shared
        self.eventLoop = eventLoop
        let configuration = shared.configuration
        self.failures = ConnectFailureCounter(
            backoff: configuration.backoff,
            failureCountMax: configuration.connectFailureCountMax
        )
    }

    /// Looks after deadlines until ``close()``.
    func begin() {
        self.timer = self.eventLoop.assumeIsolated().scheduleTask(in: Self.checkInterval) { [weak self] in
            guard let self, !self.isOver else { return }
            self.check()
            if !self.isOver { self.begin() }
        }
    }

    /// Ends: what has no answer is reported as lost.
    ///
    /// - Returns: succeeds when all connections have ended; their channels' own deadlines see to that.
    func close() -> EventLoopFuture<Void> {
        self.isOver = true
        self.timer?.cancel()
        let promise = self.eventLoop.makePromise(of: Void.self)
        self.closed = promise
        for connection in self.leaving + [self.current].compactMap(\.self) { connection.close() }
        self.finishClosing()
        return promise.futureResult
    }

    private func finishClosing() {
        guard self.isOver, self.current == nil, self.leaving.isEmpty else { return }
        self.closed?.succeed(())
        self.closed = nil
    }

    /// There is something to send.
    func wake() {
        guard !self.isOver else { return }
        self.now = .now()
        self.fill()
    }

    private func fill() {
        guard !self.isPausing, !self.isOver else { return }
        guard let current = self.current else {
            if self.shared.queue.isEmpty {
                self.shared.queue.setStatus(.resting, worker: self.index)
            } else {
                self.connect()
            }
            return
        }
        let room = min(current.room, Self.batchCountMax)
        guard room > 0 else { return }
        let pushes = self.shared.queue.take(room, worker: self.index)
        guard !pushes.isEmpty else { return }
        self.write(pushes, on: current)
        if pushes.count == Self.batchCountMax {
            self.eventLoop.assumeIsolated().execute { [weak self] in self?.fill() }
        }
    }

    private func write(_ pushes: [PendingPush], on connection: PushConnection) {
        var token: ProviderTokenSource.Current?
        do {
            token = try self.shared.tokens?.current()
        } catch {
            self.shared.queue.putBack(pushes)
            self.shared.stop(.tls(error))
            return
        }
        self.now = .now()
        var unwritten: [PendingPush] = []
        for push in pushes {
            var push = push
            push.writtenAt = self.now
            push.tokenIssuedAt = token?.issuedAt
            if !connection.write(push, authorization: token?.authorization) { unwritten.append(push) }
        }
        self.shared.queue.putBack(unwritten)
        connection.flush()
    }

    // MARK: Connections

    private func connect() {
        self.shared.observer.connecting()
        let connection = PushConnection(configuration: self.shared.configuration, worker: self)
        self.current = connection
        let bound = NIOLoopBound(connection, eventLoop: self.eventLoop)
        self.shared.opener.open(connection, on: self.eventLoop).whenFailure { bound.value.end($0) }
    }

    func opened(_ connection: PushConnection) {
        self.shared.logger.debug(
            "connected to push service",
            metadata: [LogKey.endpoint: "\(self.shared.configuration.endpoint)"]
        )
        self.fill()
    }

    /// The service leaves a connection.
    func goingAway(_ connection: PushConnection, unprocessed: [PendingPush]) {
        self.shared.logger.debug(
            "push service is going away",
            metadata: [LogKey.reason: "\(connection.goAwayReason?.text ?? "")"]
        )
        self.unprocessed(unprocessed)
        if let reason = connection.goAwayReason, Self.isAboutIdentity(reason) { self.refused(reason.text) }
        self.release(connection)
    }

    /// The service does not let this client in, or is not the one that it should be.
    private func refused(_ text: String) {
        if self.shared.configuration.endsWhenRefused {
            self.shared.stop(.notPermitted(text))
        } else {
            self.shared.queue.reject(.notPermitted(text))
        }
    }

    private static func isAboutIdentity(_ reason: PushReason) -> Bool {
        switch reason {
        case .badCertificate, .badCertificateEnvironment: true
        default: false
        }
    }

    /// Lets a connection end by itself, and another one take its place.
    private func release(_ connection: PushConnection) {
        guard connection === self.current else { return }
        self.leaving.append(connection)
        self.current = nil
        connection.retire()
        if connection.hasAccepted {
            self.fill()
        } else {
            let text = connection.goAwayReason?.text ?? "it went away and had accepted nothing"
            self.pause(text, hasAnswered: connection.hasAnswered)
        }
    }

    /// A connection has ended.
    ///
    /// - Parameters:
    ///   - connection: the connection.
    ///   - waiting: what left it whole and has no answer.
    ///   - unwritten: what was begun, and did not leave it whole.
    ///   - failure: why it has ended, where that is known.
    func ended(
        _ connection: PushConnection,
        waiting: [PendingPush],
        unwritten: [PendingPush],
        failure: (any Error)?
    ) {
        let text = failure.map { "\($0)" } ?? "closed by the other end"
        let wasCurrent = connection === self.current
        if wasCurrent { self.current = nil }
        self.leaving.removeAll { $0 === connection }
        let isPermanent =
            (failure as? TLSError)?.isPermanent ?? (failure as? ProxyError == .authenticationRequired)
        self.unprocessed(unwritten)
        if Self.provesNothingProcessed(failure, connection) {
            self.unprocessed(waiting)
        } else {
            self.unknown(waiting, self.isOver ? .stopped : .connectionLost(text))
        }
        self.tellQueue()
        guard !self.isOver else { return self.finishClosing() }
        self.shared.logger.debug("connection to push service ended", metadata: [LogKey.failure: "\(text)"])
        if isPermanent {
            self.refused(text)
            if self.shared.configuration.endsWhenRefused { return }
        }
        if wasCurrent {
            // One that was given up failed, though all that waited on it may have its outcome by now.
            var wasIdle = waiting.isEmpty && unwritten.isEmpty && self.shared.queue.isEmpty
            if case .stalled = failure as? PushConnectionError { wasIdle = false }
            self.replace(connection, wasIdle: wasIdle, text)
        }
    }

    private func replace(_ connection: PushConnection, wasIdle: Bool, _ text: String) {
        if connection.hasAccepted || connection.isGreeted && wasIdle {
            self.fill()
        } else {
            if !connection.hasAnswered { self.shared.observer.failed() }
            self.pause(text, hasAnswered: connection.hasAnswered)
        }
    }

    /// Under TLS 1.3 a certificate is refused after the client has begun to write, and nothing is read before that.
    private static func provesNothingProcessed(_ failure: (any Error)?, _ connection: PushConnection) -> Bool {
        guard case .ownCertificateRefused = failure as? TLSError else { return false }
        return connection.tls?.negotiatedVersion == .tls1_3
    }

    private func pause(_ text: String, hasAnswered: Bool) {
        if !hasAnswered { self.shared.configuration.onConnectFailure?(text) }
        switch self.failures.failed(hasAnswered: hasAnswered, jitter: .random(in: 0...1)) {
        case .giveUp:
            self.shared.stop(.unavailable(text))
        case .wait(let pause):
            self.isPausing = true
            self.shared.queue.setStatus(.busy, worker: self.index)
            self.shared.logger.debug(
                "connecting again after a pause",
                metadata: [LogKey.failure: "\(text)", LogKey.pause: "\(pause)"]
            )
            self.eventLoop.assumeIsolated().scheduleTask(in: TimeAmount(pause)) { [weak self] in
                self?.isPausing = false
                self?.fill()
            }
        }
    }

    // MARK: Outcomes

    /// A connection answers for the first time.
    func answersBegin() { self.shared.configuration.onFirstAnswer?() }

    func answered(_ push: PendingPush, _ outcome: PushOutcome, on connection: PushConnection) {
        if case .accepted = outcome { self.failures.succeeded() }
        if case .rejected(let rejection) = outcome, Self.isAboutConnection(rejection.reason) {
            self.release(connection)
        }
        if case .rejected(let rejection) = outcome, self.isMended(push, rejection.reason, connection) {
            var push = push
            push.hasNewToken = true
            self.shared.observer.repeated(1)
            self.shared.queue.putBack([push])
        } else {
            self.settle(push, outcome, isAnswer: true)
        }
    }

    /// Whether a rejection says that this connection is of no more use.
    private static func isAboutConnection(_ reason: PushReason) -> Bool {
        switch reason {
        case .idleTimeout, .shutdown: true
        default: false
        }
    }

    /// Whether another try with another provider token, or on another connection, may do.
    private func isMended(_ push: PendingPush, _ reason: PushReason, _ connection: PushConnection) -> Bool {
        guard !push.hasNewToken, let issuedAt = push.tokenIssuedAt, let tokens = self.shared.tokens else {
            return false
        }
        switch reason {
        case .expiredProviderToken: return tokens.expired(issuedAt: issuedAt)
        case .tooManyProviderTokenUpdates: return tokens.renewalRefused(issuedAt: issuedAt)
        case .unrelatedKeyIdInToken:
            self.release(connection)
            return true
        default: return false
        }
    }

    /// Takes requests that were proved not to be processed.
    func unprocessed(_ pushes: [PendingPush]) {
        let limit = self.shared.configuration.attemptCountMax
        self.shared.observer.repeated(pushes.count)
        self.shared.queue.putBack(pushes.filter { $0.attempts < limit })
        for push in pushes where push.attempts >= limit { self.settle(push, .unsent(.refusedTooOften)) }
        if self.settledCount > 0 { self.tellQueue() }
    }

    /// Takes requests whose fate is unknown.
    func unknown(_ pushes: [PendingPush], _ trouble: PushTrouble) {
        let configuration = self.shared.configuration
        guard configuration.resendsUnknown, !self.isOver else {
            for push in pushes { self.settle(push, .indeterminate(trouble)) }
            return
        }
        let again = pushes.filter { $0.attempts < configuration.attemptCountMax }.map { push in
            var push = push
            push.possibleDuplicate = true
            return push
        }
        self.shared.observer.repeated(again.count)
        self.shared.queue.putBack(again)
        for push in pushes where push.attempts >= configuration.attemptCountMax {
            self.settle(push, .indeterminate(trouble))
        }
    }

    private func settle(_ push: PendingPush, _ outcome: PushOutcome, isAnswer: Bool = false) {
        var outcome = outcome
        // An earlier attempt may have arrived, so it is not safe to send it again.
        if push.possibleDuplicate, case .unsent(let trouble) = outcome { outcome = .indeterminate(trouble) }
        self.shared.observer.settled(outcome)
        self.log(push, outcome)
        self.settledCount += 1
        push.settle(outcome, at: isAnswer ? self.now : nil)
    }

    private func log(_ push: PendingPush, _ outcome: PushOutcome) {
        let level: Logger.Level = if case .accepted = outcome { .trace } else { .debug }
        guard level >= self.shared.logger.logLevel else { return }
        var metadata: Logger.Metadata = [
            LogKey.request: "\(push.submission.request.identifier)", LogKey.outcome: "\(outcome.name)",
        ]
        if case .rejected(let rejection) = outcome {
            metadata[LogKey.status] = "\(rejection.status)"
            metadata[LogKey.reason] = "\(rejection.reason.text)"
        }
        self.shared.logger.log(level: level, "request settled", metadata: metadata)
    }

    private func tellQueue() {
        let count = self.settledCount
        self.settledCount = 0
        self.shared.queue.settled(count)
    }

    /// Frames come; the time of the first counts for all of one read.
    func readBegins() { self.now = .now() }

    /// Everything that came with one read was handled, or there is room again.
    func readComplete(_ connection: PushConnection) {
        self.tellQueue()
        if connection === self.current, connection.isRetired {
            self.release(connection)
        } else if connection === self.current {
            self.fill()
        }
    }

    private func check() {
        self.now = .now()
        for push in self.shared.queue.takeOverdue(at: self.now) { self.settle(push, .unsent(.deadline)) }
        let limit = self.shared.configuration.answerDurationMax
        let isWanted = !self.shared.queue.isEmpty
        for connection in self.leaving + [self.current].compactMap(\.self) {
            let overdue = connection.check(
                at: self.now,
                answerDurationMax: limit,
                isWanted: isWanted && connection === self.current
            )
            self.unknown(overdue.written, .deadline)
            self.unprocessed(overdue.unwritten)
        }
        self.tellQueue()
        self.fill()
    }
}
