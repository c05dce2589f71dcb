// SPDX-License-Identifier: Apache-2.0

import APNSProviderHTTP2
package import APNSSession
import APNSWire
import Dispatch
import Logging
import Metrics
import NIOConcurrencyHelpers
import NIOCore

/// Stores the notifications of one provider on the disk, and delivers them when the service takes them.
///
/// It outlives the connections of the provider and reloads of its configuration. One thread writes many notifications
/// per transaction. If the disk fails, nothing counts as stored, the provider is not read, and the transaction is tried
/// again after a pause. ``SpoolState`` has the decisions.
package final class NotificationSpool: Sendable {
    /// Where the notifications of a spool go, under one version of the configuration.
    struct Destination: Sendable {
        var configuration: BridgeConfiguration
        var recorder: any FeedbackRecorder
        var outcomes: (any OutcomeRecorder)?
        var observer: BridgeObserver
        var group: any EventLoopGroup
        var clock: BridgeClock
        var logger: Logger

        var time: SpoolState.Time { SpoolState.Time(now: self.clock.now(), date: Int64(self.clock.date())) }

        /// The topic of a notification: that of the configuration, which may have been corrected, or of its connection.
        func topic(of notification: SpooledNotification) -> String {
            self.configuration.admission.topic ?? notification.topic
        }

        func list(of notification: SpooledNotification) -> TokenScope {
            TokenScope(topic: self.topic(of: notification), environment: self.configuration.environment)
        }

        func request(for notification: SpooledNotification) -> PushRequest {
            var rules = self.configuration.requests
            rules.topic = self.topic(of: notification)
            var request = rules.request(
                token: notification.token,
                payload: ByteBuffer(bytes: notification.payload),
                expiry: notification.expiry,
                priority: notification.priority,
                now: UInt32(clamping: notification.arrivedAt)
            )
            request.apnsID = notification.apnsID
            return request
        }
    }

    /// The state of a spool, for operators.
    package struct Status: Sendable {
        /// The number of notifications without an outcome.
        package var count: Int
        package var byteCount: Int
        /// How long ago the oldest one arrived, in seconds; 0 if there is none.
        package var oldestAge: Int64
        /// Why the spool cannot be used; `nil` if it can.
        package var problem: String?
        /// What the service refuses, and since when, in one line each; empty if nothing is held.
        package var held: [String]
    }

    private struct State: Sendable {
        var machine: SpoolState
        var destination: Destination?
        var store: (any NotificationSpoolStore)?
        var isWorking = false
        var isPumping = false
        var pumpsAgain = false
        var problem: String?
        var failureCount = 0
        var timerAt: Duration?
    }

    /// How long the provider is not read before the spool is asked again.
    private static let readingPause = Duration.milliseconds(250)

    /// The receive buffer of a connection whose notifications are stored, in bytes, which Linux doubles: what is in it
    /// is lost if the process is killed.
    package static let receiveBufferByteCount = 8 * 1024

    /// The pauses between attempts to use the disk.
    private static let backoff = Backoff(first: .milliseconds(250), max: .seconds(15))

    /// The folder, for messages.
    package let path: String
    private let open: @Sendable () throws -> any NotificationSpoolStore
    private let repeated: Counter
    private let state = NIOLockedValueBox(State(machine: SpoolState(SpoolState.Rules())))
    private let thread = DispatchQueue(label: "notification spool")

    /// Creates a spool; it is opened when it has a destination.
    package init(provider: String, path: String, open: @escaping @Sendable () throws -> any NotificationSpoolStore) {
        self.path = path
        self.open = open
        self.repeated = Counter(label: "apns.legacy.spool.repeated", dimensions: [("provider", provider)])
    }

    /// Delivers to this destination from now on.
    func deliver(to destination: Destination) {
        let isFirst = self.state.withLockedValue { state in
            defer { state.destination = destination }
            state.machine.rules = SpoolState.Rules(destination.configuration)
            state.machine.rebuild { destination.request(for: $0) }
            state.machine.retryNow(destination.clock.now())
            state.machine.resume()
            return state.destination == nil
        }
        if isFirst { self.thread.async { self.openStore() } }
        self.pump()
    }

    // MARK: Notifications

    /// Whether no more should be read from the provider.
    var isFull: Bool { self.state.withLockedValue { $0.machine.isFull || $0.problem != nil || !$0.machine.isOpen } }

    /// How long not to read from the provider; `nil` if there is room.
    var readingDelay: Duration? { self.isFull ? Self.readingPause : nil }

    /// Stores a notification, and delivers it later.
    ///
    /// `onStored` is called once, when it is on the disk.
    func append(_ notification: SpooledNotification, onStored: @escaping @Sendable () -> Void) {
        let startsWorking = self.state.withLockedValue { state in
            state.machine.append(notification, onStored: onStored)
            return Self.startsWorking(&state)
        }
        if startsWorking { self.thread.async { self.work() } }
    }

    private static func startsWorking(_ state: inout State) -> Bool {
        guard !state.isWorking, state.store != nil else { return false }
        state.isWorking = true
        return true
    }

    // MARK: The disk

    private func openStore() {
        do {
            let store = try self.open()
            let contents = try store.contents
            let logger = self.state.withLockedValue { state in
                state.machine.open(contents)
                (state.store, state.isWorking) = (store, true)
                return state.destination?.logger
            }
            self.succeeded()
            if contents.count > 0 {
                logger?.notice(
                    "spooled notifications are delivered; those in doubt may arrive twice",
                    metadata: [
                        LogKey.spool: "\(self.path)", LogKey.spooled: "\(contents.count)",
                        LogKey.inDoubt: "\(contents.inDoubtCount)",
                    ]
                )
            }
            self.work()
        } catch {
            self.failed(error) { self.openStore() }
        }
    }

    /// Carries out all work on the disk; on the thread of the spool.
    private func work() {
        while true {
            let next = self.state.withLockedValue {
                state -> (any NotificationSpoolStore, SpoolState.Work, Destination)? in
                guard let store = state.store, let destination = state.destination,
                    let work = state.machine.nextWork()
                else {
                    state.isWorking = false
                    return nil
                }
                return (store, work, destination)
            }
            guard let (store, work, destination) = next else { return }
            guard self.carryOut(work, store, destination) else { return }
            self.succeeded()
            self.pump()
        }
    }

    /// Returns whether it succeeded; if not, it is tried again later.
    private func carryOut(
        _ work: SpoolState.Work,
        _ store: any NotificationSpoolStore,
        _ destination: Destination
    ) -> Bool {
        switch work {
        case .write(let write, let added, let isDirect):
            do { try store.write(write) } catch {
                self.state.withLockedValue { $0.machine.notWritten(write, added) }
                self.failed(error) { self.work() }
                return false
            }
            let completions = self.state.withLockedValue { state in
                state.machine.written(write, added, isDirect: isDirect) { destination.request(for: $0) }
            }
            for completion in completions { completion() }
        case .read(let id, let countMax):
            do {
                let page = try store.page(after: id, countMax: countMax)
                self.state.withLockedValue { state in state.machine.read(page) { destination.request(for: $0) } }
                for row in page.damaged {
                    destination.observer.ended(.damaged)
                    destination.logger.error(
                        "spooled notification damaged, not delivered",
                        metadata: [LogKey.spool: "\(self.path)", LogKey.message: "\(row)"]
                    )
                }
            } catch {
                self.failed(error) { self.work() }
                return false
            }
        }
        return true
    }

    private func succeeded() {
        let logger = self.state.withLockedValue { state -> Logger? in
            guard state.problem != nil else { return nil }
            (state.problem, state.failureCount) = (nil, 0)
            return state.destination?.logger
        }
        logger?.notice("spool usable again", metadata: [LogKey.spool: "\(self.path)"])
    }

    private func failed(_ error: any Error, then body: @escaping @Sendable () -> Void) {
        let (logger, failureCount) = self.state.withLockedValue { state -> (Logger?, Int) in
            let isNew = state.problem != "\(error)"
            state.problem = "\(error)"
            state.failureCount += 1
            return (isNew ? state.destination?.logger : nil, state.failureCount)
        }
        logger?.error(
            "spool not usable, retrying; the provider is not read",
            metadata: [LogKey.spool: "\(self.path)", LogKey.failure: "\(error)"]
        )
        let pause = Self.backoff.delay(failures: failureCount, jitter: 1)
        self.thread.asyncAfter(deadline: .now() + pause / .seconds(1), execute: body)
    }

    // MARK: The service

    /// Sends what may be sent now; one thread at a time does that for all.
    private func pump() {
        while true {
            let found = self.state.withLockedValue { state -> (Destination, SpoolState.Next, timer: Duration?)? in
                guard let destination = state.destination else { return nil }
                guard !state.isPumping else {
                    state.pumpsAgain = true
                    return nil
                }
                (state.isPumping, state.pumpsAgain) = (true, false)
                let next = state.machine.next(destination.time)
                var timer = next.wakeAt
                if let time = timer, let present = state.timerAt, present <= time { timer = nil }
                if timer != nil { state.timerAt = timer }
                return (destination, next, timer)
            }
            guard let (destination, next, timer) = found else { return }
            for (entry, cause) in next.drops { self.drop(entry, cause, destination) }
            for entry in next.sends { self.send(entry, destination) }
            if let timer { self.wake(at: timer, destination) }
            let (pumpsAgain, startsWorking) = self.state.withLockedValue { state in
                state.isPumping = false
                return (state.pumpsAgain, Self.startsWorking(&state))
            }
            if startsWorking { self.thread.async { self.work() } }
            guard pumpsAgain else { return }
        }
    }

    private func wake(at time: Duration, _ destination: Destination) {
        let delay = max(.milliseconds(1), time - destination.clock.now())
        destination.group.any().scheduleTask(in: TimeAmount(delay)) {
            self.state.withLockedValue { state in
                if state.timerAt == time { state.timerAt = nil }
            }
            self.pump()
        }
    }

    private func send(_ entry: SpoolState.Entry, _ destination: Destination) {
        if entry.notification.isInDoubt {
            self.repeated.increment()
            destination.logger.info("sent again, may arrive twice", metadata: Self.metadata(entry))
        }
        destination.configuration.upstream.send(entry.request) { answer, latency in
            if let latency { destination.observer.answered(after: latency) }
            self.receive(answer, entry.id)
        }
    }

    private func receive(_ answer: DeliveryOutcome, _ id: Int64) {
        let found = self.state.withLockedValue {
            state -> (SpoolState.OnAnswer, [SpoolState.HoldChange], Destination)? in
            guard let destination = state.destination, let entry = state.machine.entries[id] else { return nil }
            let time = destination.time
            let responseClass = ResponseClass(
                answer,
                topic: entry.request.topic,
                now: UInt32(clamping: time.date)
            )
            let isAccepted = responseClass == .accepted
            let action = state.machine.answered(
                id,
                responseClass,
                answer: Bridge.text(answer),
                time,
                jitter: isAccepted ? 0 : destination.clock.jitter()
            )
            return (action, state.machine.takeHoldChanges(), destination)
        }
        guard let (action, changes, destination) = found else { return }
        switch action {
        case .none: break
        case .sendAgain(let entry):
            destination.observer.sentAgain()
            destination.logger.debug("retrying", metadata: Self.metadata(entry, answer))
        case .end(let entry, let responseClass): self.end(entry, responseClass, answer, destination)
        }
        for change in changes { self.log(change, destination) }
        if case .end = action { return }
        self.pump()
    }

    private func log(_ change: SpoolState.HoldChange, _ destination: Destination) {
        var metadata: Logger.Metadata = [LogKey.spool: "\(self.path)"]
        if case .topic(let topic) = change.reason { metadata[LogKey.topic] = "\(topic)" }
        guard let answer = change.answer else {
            return destination.logger.notice("notifications delivered again", metadata: metadata)
        }
        metadata[LogKey.answer] = "\(answer)"
        let message: Logger.Message =
            change.reason == .credentials
            ? "notifications held: the service refuses the credentials; correct them and reload"
            : "notifications held: the service refuses the topic; correct it or the credentials and reload"
        destination.logger.error(message, metadata: metadata)
    }

    // MARK: Outcomes

    private func end(
        _ entry: SpoolState.Entry,
        _ responseClass: ResponseClass,
        _ answer: DeliveryOutcome,
        _ destination: Destination
    ) {
        let (outcome, found) = responseClass.outcome(isUnknown: entry.retries.isUnknown, isRepeatable: false)
        // What the service does not store is tried once, and its time is over then.
        let isOver = entry.isImmediate && (found == .budgetSpent || found == .throttled)
        let cause: DeliveryCause =
            switch found {
            case .rejected, .gatewayFault: .ignored
            default: isOver ? .expired : found
            }
        let settle: @Sendable () -> Void = { self.settle(entry, outcome.explained(by: answer), cause, destination) }
        let (list, now) = (destination.list(of: entry.notification), destination.clock.date())
        switch found {
        case .accepted:
            destination.logger.debug("delivered", metadata: Self.metadata(entry, answer))
            destination.recorder.forget(entry.notification.token, in: list)
            settle()
        case .dead:
            destination.logger.debug("token dead", metadata: Self.metadata(entry, answer))
            let time = Bridge.deathDate(outcome, now: now)
            let tuple = FeedbackTuple(token: entry.notification.token, failedAt: time)
            destination.recorder.record(tuple, in: list, onKept: settle)
        case .rejected, .gatewayFault:
            let level: Logger.Level = found == .gatewayFault ? .error : .info
            let metadata = Self.metadata(entry, answer, found)
            destination.logger.log(level: level, "not delivered, no error response sent", metadata: metadata)
            guard destination.configuration.listsRejectedTokens, outcome == .rejected(.binary(.invalidToken)) else {
                return settle()
            }
            let tuple = FeedbackTuple(token: entry.notification.token, failedAt: now)
            destination.recorder.record(tuple, in: list, onKept: settle)
        default:
            let level: Logger.Level = isOver ? .info : .error
            destination.logger.log(level: level, "not delivered", metadata: Self.metadata(entry, answer, cause))
            settle()
        }
    }

    /// Reports a notification that is dropped without an attempt.
    private func drop(_ entry: SpoolState.Entry, _ cause: DeliveryCause, _ destination: Destination) {
        let level: Logger.Level = cause == .expired ? .info : .error
        destination.logger.log(level: level, "not delivered", metadata: Self.metadata(entry, nil, cause))
        self.settle(entry, cause == .expired ? .unsent(.deadline) : .indeterminate(nil), cause, destination)
    }

    /// Counts an outcome, and removes the notification as soon as it is recorded.
    private func settle(
        _ entry: SpoolState.Entry,
        _ outcome: DeliveryOutcome,
        _ cause: DeliveryCause,
        _ destination: Destination
    ) {
        destination.observer.ended(cause)
        guard let outcomes = destination.outcomes, outcomes.records(cause) else { return self.remove(entry.id) }
        let isDoubtful = entry.notification.isInDoubt || entry.retries.isUnknown
        let recorded = RecordedOutcome(
            provider: destination.configuration.name,
            list: destination.list(of: entry.notification),
            identifier: entry.notification.identifier,
            token: entry.notification.token,
            apnsID: entry.notification.apnsID,
            outcome: outcome,
            cause: cause,
            isPossibleDuplicate: isDoubtful && outcome.kind != .indeterminate,
            milliseconds: destination.clock.milliseconds()
        )
        outcomes.record(recorded) { self.remove(entry.id) }
    }

    private func remove(_ id: Int64) {
        self.state.withLockedValue { $0.machine.remove(id) }
        self.pump()
    }

    private static func metadata(
        _ entry: SpoolState.Entry,
        _ answer: DeliveryOutcome? = nil,
        _ cause: DeliveryCause? = nil
    ) -> Logger.Metadata {
        var metadata: Logger.Metadata = [
            LogKey.topic: "\(entry.notification.topic)", LogKey.request: "\(entry.notification.apnsID)",
        ]
        if let answer { metadata[LogKey.answer] = "\(Bridge.text(answer))" }
        if let cause { metadata[LogKey.cause] = "\(cause.rawValue)" }
        return metadata
    }

    // MARK: The end

    /// Ends sending: what is in progress gets its outcome, the rest stays on the disk.
    package func stop() {
        self.state.withLockedValue { $0.machine.stop() }
        self.pump()
    }

    /// Waits until the disk has everything, or has failed once more.
    package func flush() async {
        await withCheckedContinuation { continuation in
            self.thread.async {
                self.work()
                continuation.resume()
            }
        }
    }

    /// The state now.
    package var status: Status {
        self.state.withLockedValue { state in
            let date = state.destination.map { Int64($0.clock.date()) } ?? 0
            let held = state.machine.heldReasons.map { reason, since, answer in
                let what: String =
                    switch reason {
                    case .credentials: "the credentials"
                    case .topic(let topic): "the topic \(topic)"
                    }
                let time = TimeText(seconds: since).text
                return "notifications are held since \(time): the service refuses \(what): \(answer)"
            }
            return Status(
                count: state.machine.count,
                byteCount: state.machine.byteCount,
                oldestAge: state.machine.oldestArrival.map { max(0, date - $0) } ?? 0,
                problem: state.problem,
                held: held.sorted()
            )
        }
    }
}
