// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import APNSSession
import APNSTransport
import APNSWire
import Logging
import NIOConcurrencyHelpers
import NIOCore
import OpenSSLTLS

/// Carries out ``PushWorkerStateMachine`` on one event loop, and reports the outcomes of its requests.
final class HTTP2ConnectionWorker: ConnectionWorker {
    /// State shared by all workers of a client or a batch.
    final class Shared: Sendable {
        let configuration: HTTP2Configuration
        let opener: ConnectionOpener
        let queue: PushQueue
        let observer: DeliveryObserver
        let logger: Logger
        let retries: RetryRules

        init(
            _ configuration: HTTP2Configuration,
            _ opener: ConnectionOpener,
            _ source: RequestSource? = nil,
            outages: OutageLog? = nil,
            observer: DeliveryObserver,
            logger: Logger
        ) {
            self.configuration = configuration
            self.opener = opener
            self.observer = observer
            self.logger = logger
            self.retries = RetryRules(configuration, sendCountMax: source?.sendCountMax ?? 1)
            self.queue = PushQueue(
                countMax: configuration.requestCountMax,
                workerCount: configuration.connectionCount,
                source: source,
                outages: outages,
                observer: observer
            )
        }
    }

    private let index: Int
    private let shared: Shared
    private let eventLoop: any EventLoop
    private var machine: PushWorkerStateMachine<PushConnection>
    private var timer: Scheduled<Void>?
    private let finished: EventLoopPromise<WorkerEnding>
    /// Gives up the rest of a batch whose source was stopped.
    private var drainTimer: Scheduled<Void>?
    /// Outcomes not yet reported to the queue.
    private var settledCount = 0
    private var now = NIODeadline.now()
    /// Whether no request was answered in this read yet.
    private var isBeforeAnswers = true

    /// The names that the texts of failures contain.
    var names: TLSErrorNames { self.shared.opener.names }

    /// The number of requests to write before other work of the event loop gets its turn.
    private static let batchCountMax = 256
    private static let checkInterval = TimeAmount.milliseconds(500)

    init(index: Int, shared: Shared, eventLoop: any EventLoop, finished: EventLoopPromise<WorkerEnding>) {
        self.index = index
        self.shared = shared
        self.eventLoop = eventLoop
        self.finished = finished
        let configuration = shared.configuration
        self.machine = PushWorkerStateMachine(
            ConnectFailureCounter(backoff: configuration.backoff, countMax: configuration.connectFailureCountMax),
            endsWhenRefused: configuration.endsWhenRefused,
            names: shared.opener.names
        )
    }

    /// Creates the workers of a run, one per call.
    static func factory(_ shared: Shared) -> WorkerFactory {
        let nextIndex = NIOLockedValueBox(0)
        return { eventLoop, finished in
            let index = nextIndex.withLockedValue { next in
                defer { next += 1 }
                return next
            }
            return HTTP2ConnectionWorker(index: index, shared: shared, eventLoop: eventLoop, finished: finished)
        }
    }

    func begin() {
        let bound = NIOLoopBound(self, eventLoop: self.eventLoop)
        let eventLoop = self.eventLoop
        let isWoken = self.shared.queue.enter(self.index) { eventLoop.execute { bound.value.advance() } }
        self.watch()
        if isWoken { self.advance() }
    }

    /// Checks deadlines periodically until the end.
    private func watch() {
        self.timer = self.eventLoop.assumeIsolated().scheduleTask(in: Self.checkInterval) { [weak self] in
            guard let self, !self.machine.isOver else { return }
            self.check()
            if !self.machine.isOver { self.watch() }
        }
    }

    /// Checks the source of a batch for notifications.
    func wake() {
        guard let source = self.shared.queue.source, !self.machine.isOver else { return }
        self.shared.queue.askSourceAgain()
        if source.notifications.isStopped { self.limitDrain(source) }
        // The end must be detected even if no connection can be opened.
        if source.notifications.isEnded { self.checkForEnd() }
        self.advance()
    }

    /// Asks the source while nothing can be sent, and repeats this, after other events, if all its notifications were
    /// invalid.
    private func checkForEnd() {
        guard self.machine.isPausing, !self.machine.isOver, self.shared.queue.checkForEnd(at: .now()) else { return }
        self.eventLoop.assumeIsolated().execute { [weak self] in self?.checkForEnd() }
    }

    /// Checks whether there is something to send, or everything has ended.
    private func advance() {
        guard !self.machine.isOver else { return }
        guard !self.shared.queue.isOver else { return self.end() }
        self.now = .now()
        self.fill()
    }

    /// Does nothing, since each notification has its own answer.
    func checkpoint() {}

    func abandon() {
        self.shared.queue.stop(.stopped, isAtOnce: true)
        self.advance()
    }

    /// Limits the time for the remaining notifications of a stopped source; without a connection they are given up
    /// immediately.
    private func limitDrain(_ source: RequestSource) {
        if source.isAbandoned { self.shared.queue.stop(.stopped) }
        guard self.shared.queue.limitDrain() else { return }
        let queue = self.shared.queue
        self.drainTimer = self.eventLoop.assumeIsolated().scheduleTask(in: TimeAmount(source.drainTimeout)) {
            queue.stop(.stopped, isAtOnce: true)
        }
    }

    /// Closes the connections: requests without an answer are reported as lost.
    ///
    /// The deadlines of their channels guarantee that this ends.
    private func end() {
        let actions = self.machine.end()
        self.timer?.cancel()
        self.drainTimer?.cancel()
        self.shared.queue.leave(self.index)
        for connection in self.machine.connections { connection.close() }
        self.perform(actions)
    }

    private func finish() {
        let failure = self.shared.queue.failure
        // The queue contains the reason for the other workers.
        self.finished.succeed(
            WorkerEnding(
                ending: failure == nil ? .completed : .unavailable,
                failure: failure,
                hasUnsettled: failure != nil
            )
        )
    }

    private func fill() {
        guard self.machine.mayFill else { return }
        guard let current = self.machine.current else {
            if self.shared.queue.hasWork(self.index, at: self.now) { self.connect() }
            return
        }
        let room = min(current.room, Self.batchCountMax)
        guard room > 0 else { return }
        let pushes = self.shared.queue.dequeue(room, worker: self.index, at: self.now)
        guard !pushes.isEmpty else { return }
        self.write(pushes, on: current)
        if pushes.count == Self.batchCountMax {
            self.eventLoop.assumeIsolated().execute { [weak self] in self?.fill() }
        }
    }

    private func write(_ pushes: [PendingPush], on connection: PushConnection) {
        var token: ProviderTokenSource.Current?
        do {
            token = try self.shared.configuration.providerToken?.current()
        } catch {
            self.shared.queue.requeue(pushes)
            self.shared.queue.fail(.tls(error))
            return
        }
        self.now = .now()
        var unwritten: [PendingPush] = []
        let (now, authorization) = (self.now, token?.authorization)
        for var push in pushes {
            push.writtenAt = now
            push.tokenIssuedAt = token?.issuedAt
            if !connection.write(push, authorization: authorization) { unwritten.append(push) }
        }
        self.shared.queue.requeue(unwritten)
        connection.flush()
    }

    // MARK: Connections

    private func connect() {
        self.shared.observer.connecting()
        let connection = PushConnection(
            configuration: self.shared.configuration,
            worker: self,
            observer: self.shared.observer
        )
        self.machine.connecting(connection)
        let bound = NIOLoopBound(connection, eventLoop: self.eventLoop)
        self.shared.opener.open(on: self.eventLoop, adopt: { _ in }) { channel, tls in
            bound.value.tls = tls
            try channel.pipeline.syncOperations.addHandlers(tls, bound.value)
        }
        .whenFailure { bound.value.end($0) }
    }

    func opened(_ connection: PushConnection) {
        self.shared.logger.debug(
            "connected to push service",
            metadata: [LogKey.endpoint: "\(self.shared.configuration.endpoint)"]
        )
        self.fill()
    }

    /// The service closes a connection gracefully.
    func goingAway(_ connection: PushConnection, unprocessed: [PendingPush]) {
        self.shared.logger.debug(
            "push service is going away",
            metadata: [LogKey.answerReason: "\(connection.goAwayReason?.text ?? "")"]
        )
        self.unprocessed(unprocessed)
        self.perform(self.machine.goingAway(connection, jitter: .random(in: 0...1)))
    }

    /// Lets a connection finish, and replaces it by another one.
    private func release(_ connection: PushConnection) {
        self.perform(self.machine.release(connection, jitter: .random(in: 0...1)))
    }

    /// A connection has ended.
    func ended(
        _ connection: PushConnection,
        unknown: [PendingPush],
        unprocessed: [PendingPush],
        failure error: (any Error)?
    ) {
        let failure =
            error.map { ConnectionFailure($0, self.names) }
            ?? ConnectionFailure(.closed(nil), "\(self.names.remote) closed the connection")
        self.unprocessed(unprocessed)
        if let error, ConnectionFailure.provesNothingProcessed(error, connection.tls) {
            self.unprocessed(unknown)
        } else {
            self.unknown(unknown, self.machine.isOver ? .stopped : .connectionLost(failure))
        }
        self.notifyQueue()
        if !self.machine.isOver {
            self.shared.logger.debug("connection to push service ended", metadata: [LogKey.failure: "\(failure)"])
        }
        let actions = self.machine.ended(
            connection,
            failure,
            hadRequests: !unknown.isEmpty || !unprocessed.isEmpty,
            hasWaiting: !self.shared.queue.isEmpty,
            jitter: .random(in: 0...1)
        )
        self.perform(actions)
    }

    private func perform(_ actions: [PushWorkerStateMachine<PushConnection>.Action]) {
        for action in actions {
            switch action {
            case .fill: self.fill()
            case .retire(let connection): connection.retire()
            case .refuse(let failure) where self.shared.configuration.endsWhenRefused:
                self.shared.queue.fail(.notPermitted(failure))
            case .refuse(let failure): self.shared.queue.reject(.notPermitted(failure))
            case .count(let failure): self.shared.observer.failed(failure)
            case .reportOutage(let failure): self.hasLostConnection(failure)
            case .pause(let pause, let failure, let attempt): self.pause(pause, failure, attempt)
            case .giveUp(let failure): self.shared.queue.fail(.unavailable(failure))
            case .finish: self.finish()
            }
        }
    }

    private func pause(_ pause: Duration, _ failure: ConnectionFailure, _ attempt: Int) {
        self.shared.queue.pause(self.index)
        if attempt > 0 {
            let countMax = self.shared.configuration.connectFailureCountMax
            self.shared.observer.retries(attempt, failureCountMax: countMax, after: pause)
        }
        self.shared.logger.debug(
            "reconnecting after a delay",
            metadata: [LogKey.failure: "\(failure)", LogKey.connectionPause: "\(pause)"]
        )
        self.eventLoop.assumeIsolated().scheduleTask(in: TimeAmount(pause)) { [weak self] in
            self?.machine.resume()
            self?.fill()
        }
    }

    private func hasLostConnection(_ failure: ConnectionFailure) {
        self.shared.configuration.onConnectFailure?(failure)
        self.shared.queue.outage = failure
        guard let source = self.shared.queue.source else { return }
        source.classifier.loseConnection()
        if source.isAbandoned { self.shared.queue.stop(.stopped) }
    }

    // MARK: Outcomes

    /// A connection received its first answer, or the first one after a failure of another connection.
    func answersBegin() {
        self.shared.queue.outage = nil
        self.shared.configuration.onFirstAnswer?()
    }

    func answered(
        _ push: PendingPush,
        _ outcome: DeliveryOutcome,
        _ fields: ResponseFields? = nil,
        on connection: PushConnection
    ) {
        // Once for each read, since the queue is shared by all workers.
        if self.isBeforeAnswers, self.shared.queue.outage != nil { self.answersBegin() }
        self.isBeforeAnswers = false
        switch outcome {
        case .accepted:
            self.machine.succeeded()
            self.shared.queue.source?.classifier.accepted()
        case .rejected(let rejection): return self.rejected(push, rejection, fields, on: connection)
        default: break
        }
        self.settle(push, outcome, isAnswer: true, fields)
    }

    private func rejected(
        _ push: PendingPush,
        _ rejection: Rejection,
        _ fields: ResponseFields?,
        on connection: PushConnection
    ) {
        // The time of removal does not matter here.
        let responseClass = ResponseClass(rejection, now: .max)
        // The service is about to close the connection.
        if responseClass == .transient(.unprocessed) { self.release(connection) }
        var push = push
        let issuedAt = push.tokenIssuedAt
        let classifier = self.shared.queue.source?.classifier
        let decision = push.receive(rejection, responseClass, self.shared.retries, classifier, fields) { reason in
            self.canRenew(reason, issuedAt)
        }
        switch decision {
        case .settle(let outcome): self.settle(push, outcome, isAnswer: true, fields)
        case .sendAgain(.zero):
            if responseClass == .transient(.connection) { self.release(connection) }
            self.shared.observer.repeated(1)
            self.shared.queue.requeue([push])
        case .sendAgain(let pause):
            self.shared.observer.repeated(1)
            self.log("request postponed", push, .rejected(rejection))
            self.postpone(push, TimeAmount(pause))
        }
        // Waiting requests would fail, too.
        if classifier?.failure != nil { self.shared.queue.stop(.stopped) }
    }

    /// Whether another attempt with another provider token, or on another connection, may succeed.
    private func canRenew(_ reason: ResponseClass.TransientReason, _ issuedAt: Int64?) -> Bool {
        guard let issuedAt, let tokens = self.shared.configuration.providerToken else { return false }
        switch reason {
        case .providerToken: return tokens.expired(issuedAt: issuedAt)
        case .providerTokenRate: return tokens.renewalRefused(issuedAt: issuedAt)
        case .connection: return true
        default: return false
        }
    }

    private func postpone(_ push: PendingPush, _ pause: TimeAmount) {
        guard self.shared.queue.postpone(push, until: .now() + pause) else { return }
        self.eventLoop.assumeIsolated().scheduleTask(in: pause) { [weak self] in self?.advance() }
    }

    /// Handles requests that were verified as not processed.
    func unprocessed(_ pushes: [PendingPush]) {
        self.resend(pushes, isUnknown: false, else: .unsent(.refusedTooOften))
        if self.settledCount > 0 { self.notifyQueue() }
    }

    /// Handles requests that may have been processed.
    func unknown(_ pushes: [PendingPush], _ trouble: DeliveryOutcome.Reason) {
        guard self.machine.isOver || trouble == .acceptanceIncomplete else {
            return self.resend(pushes, isUnknown: true, else: .indeterminate(trouble))
        }
        for push in pushes { self.settle(push, .indeterminate(trouble)) }
    }

    /// Sends requests again if permitted, and settles the rest.
    private func resend(_ pushes: [PendingPush], isUnknown: Bool, else outcome: DeliveryOutcome) {
        var (again, spent): ([PendingPush], [PendingPush]) = ([], [])
        for var push in pushes {
            if push.retries.resend(isUnknown: isUnknown, self.shared.retries) {
                again.append(push)
            } else {
                spent.append(push)
            }
        }
        self.shared.observer.repeated(again.count)
        self.shared.queue.requeue(again)
        for push in spent { self.settle(push, outcome) }
    }

    private func settle(
        _ push: PendingPush,
        _ outcome: DeliveryOutcome,
        isAnswer: Bool = false,
        _ fields: ResponseFields? = nil
    ) {
        var outcome = outcome
        // An earlier attempt may have arrived, so sending it again is not safe.
        if case .unsent(let reason) = outcome { outcome = push.unprocessed(reason) }
        self.shared.observer.settled(outcome)
        self.log("request settled", push, outcome)
        self.settledCount += 1
        push.settle(outcome, at: isAnswer ? self.now : nil, fields)
    }

    private func log(_ message: Logger.Message, _ push: PendingPush, _ outcome: DeliveryOutcome) {
        let level: Logger.Level = if case .accepted = outcome { .trace } else { .debug }
        guard level >= self.shared.logger.logLevel else { return }
        var metadata: Logger.Metadata = [
            LogKey.request: "\(push.submission.request.apnsID)", LogKey.outcome: "\(outcome.name)",
        ]
        if case .rejected(.http2(let rejection)) = outcome {
            metadata[LogKey.answerStatus] = "\(rejection.status)"
            metadata[LogKey.answerReason] = "\(rejection.reason.text)"
        }
        self.shared.logger.log(level: level, message, metadata: metadata)
    }

    private func notifyQueue() {
        let count = self.settledCount
        self.settledCount = 0
        self.shared.queue.settled(count)
    }

    /// Input begins; its time is used for all frames of one read.
    func readBegins() {
        self.now = .now()
        self.isBeforeAnswers = true
    }

    /// Input of one read was processed, or there is room again.
    func readComplete(_ connection: PushConnection) {
        self.notifyQueue()
        guard connection === self.machine.current else { return }
        if connection.isRetired { self.release(connection) } else { self.fill() }
    }

    private func check() {
        self.now = .now()
        let outage = self.shared.queue.outage
        let reason = outage.map { DeliveryOutcome.Reason.unavailable($0) } ?? .deadline
        let time = self.now + self.shared.configuration.queueDurationCut(outage)
        for push in self.shared.queue.takeOverdue(at: time) { self.settle(push, .unsent(reason)) }
        let limit = self.shared.configuration.responseTimeout
        let isWanted = self.shared.queue.isWaiting
        for connection in self.machine.connections {
            let overdue = connection.check(
                at: self.now,
                responseTimeout: limit,
                isWanted: isWanted && connection === self.machine.current
            )
            self.unknown(overdue.unknown, .deadline)
            self.unknown(overdue.accepting, .acceptanceIncomplete)
            self.unprocessed(overdue.unprocessed)
        }
        self.notifyQueue()
        self.fill()
    }
}
