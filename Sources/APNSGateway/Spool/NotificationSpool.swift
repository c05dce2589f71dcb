// SPDX-License-Identifier: Apache-2.0

import APNSProviderHTTP2
package import APNSSession
import APNSWire
import Dispatch
import Logging
import Metrics
import NIOConcurrencyHelpers
import NIOCore
import NIOPosix

/// Stores the notifications of one provider on the disk, and delivers them when the service takes them.
///
/// It outlives the connections of the provider and reloads of its configuration. One thread does everything for many
/// notifications at once: it takes what arrived and what was answered meanwhile, sends what may be sent, and writes a
/// transaction. If the disk fails, nothing counts as stored, the provider is not read, and the transaction is tried
/// again after a pause. ``SpoolState`` has the decisions.
package final class NotificationSpool: Sendable {
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

    /// What has happened since the thread looked last.
    private struct Events: Sendable {
        var arrived: [SpoolState.Pending] = []
        var answers: [(id: Int64, answer: DeliveryOutcome)] = []
        /// What has its outcome.
        var ended: [Int64] = []
        /// Another version of the configuration.
        var destination: Bridge?
        var isStopping: Bool?
    }

    /// What other threads and the thread of the spool tell each other.
    private struct Shared: Sendable {
        var events = Events()
        var hasEvents = false
        var isWorking = false

        // The room for what arrives.
        var isBlocked = true
        var pendingByteCount = 0
        var byteCount = 0
        var byteCountMax = 0

        var isFull: Bool {
            self.isBlocked || self.byteCount >= self.byteCountMax
                || self.pendingByteCount >= SpoolState.pendingByteCountMax
        }

        mutating func takeEvents() -> Events {
            defer { (self.events, self.hasEvents) = (Events(), false) }
            return self.events
        }

        /// Ends the work unless more has happened; returns whether it ends.
        mutating func endWork() -> Bool {
            self.isWorking = self.hasEvents
            return !self.isWorking
        }
    }

    private struct State: Sendable {
        var machine: SpoolState
        /// Where the notifications go.
        var destination: Bridge?
        var store: (any NotificationSpoolStore)?
        var problem: String?
        var failureCount = 0
        /// Whether the disk is not used until the end of a pause.
        var isPaused = false
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
    private let shared = NIOLockedValueBox(Shared())
    private let state = NIOLockedValueBox(State(machine: SpoolState(SpoolState.Rules())))
    private let thread = DispatchQueue(label: "notification spool")

    /// Creates a spool; it is opened when it has a destination.
    package init(provider: String, path: String, open: @escaping @Sendable () throws -> any NotificationSpoolStore) {
        self.path = path
        self.open = open
        self.repeated = Counter(label: "apns.legacy.spool.repeated", dimensions: [("provider", provider)])
    }

    /// Delivers as this bridge does, from now on.
    func deliver(to destination: Bridge) {
        self.wake { shared in
            shared.byteCountMax = destination.configuration.spoolByteCountMax
            (shared.events.destination, shared.events.isStopping) = (destination, false)
        }
    }

    // MARK: Notifications

    /// Whether no more should be read from the provider.
    var isFull: Bool { self.shared.withLockedValue(\.isFull) }

    /// How long not to read from the provider; `nil` if there is room.
    var readingDelay: Duration? { self.isFull ? Self.readingPause : nil }

    /// Stores a notification, and delivers it later; its receipt goes to ``Bridge/stored(_:)`` when it is on the disk.
    func append(_ notification: SpooledNotification, _ receipt: SpoolReceipt) {
        self.wake { shared in
            shared.events.arrived.append(SpoolState.Pending(notification: notification, receipt: receipt))
            shared.byteCount += notification.byteCount
            shared.pendingByteCount += notification.byteCount
        }
    }

    // MARK: The thread

    /// Lets the thread work, from any thread.
    private func wake(for change: (inout Shared) -> Void) {
        let isFirst = self.shared.withLockedValue { shared in
            change(&shared)
            defer { (shared.hasEvents, shared.isWorking) = (true, true) }
            return !shared.isWorking
        }
        guard isFirst else { return }
        // An event loop finishes its current work first, which has more for the thread.
        guard let loop = MultiThreadedEventLoopGroup.currentEventLoop else { return self.thread.async { self.work() } }
        loop.execute { self.thread.async { self.work() } }
    }

    private func work(after delay: Duration, _ change: @escaping @Sendable (inout State) -> Void) {
        self.thread.asyncAfter(deadline: .now() + delay / .seconds(1)) {
            self.state.withLockedValue(change)
            self.work()
        }
    }

    /// Does everything that there is to do; on the thread.
    private func work() {
        repeat {
            self.process(self.shared.withLockedValue { $0.takeEvents() })
            self.send()
        } while self.useDisk() || !self.shared.withLockedValue { $0.endWork() }
    }

    private func process(_ events: Events) {
        let (actions, changes, destination) = self.state.withLockedValue { state in
            if let destination = events.destination {
                state.destination = destination
                state.machine.rules = SpoolState.Rules(destination.configuration)
                state.machine.rebuild { destination.requests(for: $0) }
                state.machine.retryNow(destination.clock.now())
            }
            if let isStopping = events.isStopping { state.machine.isStopped = isStopping }
            for pending in events.arrived { state.machine.append(pending) }
            for id in events.ended { state.machine.remove(id) }
            let actions = Self.receive(events.answers, &state)
            return (actions, state.machine.takeHoldChanges(), state.destination)
        }
        guard let destination else { return }
        var settled: [Int64] = []
        for (action, (id, answer)) in zip(actions, events.answers) {
            switch action {
            case .none: break
            case .sendAgain(let entry):
                destination.observer.sentAgain()
                destination.logger.debug("retrying", metadata: Self.metadata(entry, answer))
            case .end(let entry, let responseClass):
                if self.end(entry, responseClass, answer, destination) { settled.append(id) }
            }
        }
        for change in changes { self.log(change, destination) }
        guard !settled.isEmpty else { return }
        self.state.withLockedValue { state in
            for id in settled { state.machine.remove(id) }
        }
    }

    private static func receive(
        _ answers: [(id: Int64, answer: DeliveryOutcome)],
        _ state: inout State
    ) -> [SpoolState.OnAnswer] {
        guard let destination = state.destination else { return [] }
        let time = destination.spoolTime
        return answers.map { id, answer in
            let topic = state.machine.entries[id]?.topic
            let responseClass = ResponseClass(answer, topic: topic, now: UInt32(clamping: time.date))
            let action = state.machine.answered(
                id,
                responseClass,
                answer: Bridge.text(answer),
                time,
                jitter: responseClass == .accepted ? 0 : destination.clock.jitter()
            )
            // The configuration may have changed since the request was made.
            if case .sendAgain = action { state.machine.rebuild(id) { destination.requests(for: $0) } }
            return action
        }
    }

    // MARK: The disk

    /// Carries out the next work on the disk; returns whether there was any.
    private func useDisk() -> Bool {
        let (destination, present) = self.state.withLockedValue { ($0.isPaused ? nil : $0.destination, $0.store) }
        guard let destination else { return false }
        do {
            if let store = present {
                guard let work = self.state.withLockedValue({ $0.machine.nextWork() }) else { return false }
                try self.carryOut(work, store, destination)
            } else {
                try self.openStore(destination)
            }
        } catch {
            self.failed(error, destination)
            return true
        }
        let isUsableAgain = self.state.withLockedValue { state in
            defer { (state.problem, state.failureCount) = (nil, 0) }
            return state.problem != nil
        }
        if isUsableAgain {
            destination.logger.notice("spool usable again", metadata: [LogKey.spool: "\(self.path)"])
        }
        return true
    }

    private func openStore(_ destination: Bridge) throws {
        let store = try self.open()
        let contents = try store.contents
        self.state.withLockedValue { state in
            state.machine.open(contents)
            state.store = store
        }
        guard contents.count > 0 else { return }
        destination.logger.notice(
            "spooled notifications are delivered; those in doubt may arrive twice",
            metadata: [
                LogKey.spool: "\(self.path)", LogKey.spooled: "\(contents.count)",
                LogKey.inDoubt: "\(contents.inDoubtCount)",
            ]
        )
    }

    private func carryOut(
        _ work: SpoolState.Work,
        _ store: any NotificationSpoolStore,
        _ destination: Bridge
    ) throws {
        switch work {
        case .write(let write, let receipts, let isDirect):
            do { try store.write(write) } catch {
                self.state.withLockedValue { $0.machine.notWritten(write, receipts) }
                throw error
            }
            let requests = isDirect ? destination.requests(for: write.added) : []
            self.state.withLockedValue { $0.machine.written(write, requests) }
            if !receipts.isEmpty { destination.stored(receipts) }
        case .read(let id, let countMax):
            let page = try store.page(after: id, countMax: countMax)
            let requests = destination.requests(for: page.notifications)
            self.state.withLockedValue { $0.machine.read(page, requests) }
            for id in page.damaged {
                destination.observer.ended(.damaged)
                destination.logger.error(
                    "spooled notification damaged, not delivered",
                    metadata: [LogKey.spool: "\(self.path)", LogKey.message: "\(id)"]
                )
            }
        }
    }

    private func failed(_ error: any Error, _ destination: Bridge) {
        let (isNew, failureCount) = self.state.withLockedValue { state in
            let isNew = state.problem != "\(error)"
            (state.problem, state.isPaused) = ("\(error)", true)
            state.failureCount += 1
            return (isNew, state.failureCount)
        }
        if isNew {
            destination.logger.error(
                "spool not usable, retrying; the provider is not read",
                metadata: [LogKey.spool: "\(self.path)", LogKey.failure: "\(error)"]
            )
        }
        self.work(after: Self.backoff.delay(failures: failureCount, jitter: 1)) { $0.isPaused = false }
    }

    // MARK: The service

    /// Sends what may be sent now, and tells other threads how much room there is.
    private func send() {
        let (next, destination, delay) = self.state.withLockedValue {
            state -> (SpoolState.Next, Bridge?, Duration?) in
            self.shared.withLockedValue { shared in
                let arrived = shared.events.arrived.reduce(0) { $0 + $1.notification.byteCount }
                shared.isBlocked = !state.machine.isOpen || state.problem != nil
                shared.byteCount = state.machine.byteCount + arrived
                shared.pendingByteCount = state.machine.pendingByteCount + arrived
            }
            guard let destination = state.destination else { return (SpoolState.Next(), nil, nil) }
            let time = destination.spoolTime
            let next = state.machine.next(time)
            guard let wakeAt = next.wakeAt, state.timerAt.map({ wakeAt < $0 }) ?? true else {
                return (next, destination, nil)
            }
            state.timerAt = wakeAt
            return (next, destination, max(Duration.milliseconds(1), wakeAt - time.now))
        }
        guard let destination else { return }
        for (entry, cause) in next.drops { self.drop(entry, cause, destination) }
        for entry in next.sends { self.send(entry, destination) }
        if let delay { self.work(after: delay) { $0.timerAt = nil } }
    }

    private func send(_ entry: SpoolState.Entry, _ destination: Bridge) {
        if entry.notification.isInDoubt {
            self.repeated.increment()
            destination.logger.info("sent again, may arrive twice", metadata: Self.metadata(entry))
        }
        let (id, observer) = (entry.id, destination.observer)
        destination.configuration.upstream.send(entry.request) { answer, latency in
            if let latency { observer.answered(after: latency) }
            self.wake { $0.events.answers.append((id, answer)) }
        }
    }

    private func log(_ change: SpoolState.HoldChange, _ destination: Bridge) {
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

    /// Reports an outcome; returns whether it is recorded, so that the notification can be removed.
    private func end(
        _ entry: SpoolState.Entry,
        _ responseClass: ResponseClass,
        _ answer: DeliveryOutcome,
        _ destination: Bridge
    ) -> Bool {
        let (outcome, found) = responseClass.outcome(isUnknown: entry.retries.isUnknown, isRepeatable: false)
        // What the service does not store is tried once, and its time is over then.
        let isOver = entry.isImmediate && (found == .budgetSpent || found == .throttled)
        let cause: DeliveryCause =
            switch found {
            case .rejected, .gatewayFault: .ignored
            default: isOver ? .expired : found
            }
        let (list, now) = (destination.list(of: entry.notification), destination.clock.date())
        var failedAt: UInt32?
        switch found {
        case .accepted:
            destination.logger.debug("delivered", metadata: Self.metadata(entry, answer))
            destination.recorder.forget(entry.notification.token, in: list)
        case .dead:
            destination.logger.debug("token dead", metadata: Self.metadata(entry, answer))
            failedAt = Bridge.deathDate(outcome, now: now)
        case .rejected, .gatewayFault:
            let level: Logger.Level = found == .gatewayFault ? .error : .info
            let metadata = Self.metadata(entry, answer, found)
            destination.logger.log(level: level, "not delivered, no error response sent", metadata: metadata)
            let isListed = destination.configuration.listsRejectedTokens
            if isListed, outcome == .rejected(.binary(.invalidToken)) { failedAt = now }
        default:
            let level: Logger.Level = isOver ? .info : .error
            destination.logger.log(level: level, "not delivered", metadata: Self.metadata(entry, answer, cause))
        }
        guard let failedAt else { return self.settle(entry, outcome.explained(by: answer), cause, destination) }
        let tuple = FeedbackTuple(token: entry.notification.token, failedAt: failedAt)
        destination.recorder.record(tuple, in: list) {
            if self.settle(entry, outcome.explained(by: answer), cause, destination) { self.ended(entry.id) }
        }
        return false
    }

    /// Removes a notification that has its outcome, from any thread.
    private func ended(_ id: Int64) { self.wake { $0.events.ended.append(id) } }

    /// Reports a notification that is dropped without an attempt.
    private func drop(_ entry: SpoolState.Entry, _ cause: DeliveryCause, _ destination: Bridge) {
        let level: Logger.Level = cause == .expired ? .info : .error
        destination.logger.log(level: level, "not delivered", metadata: Self.metadata(entry, nil, cause))
        let outcome = cause == .expired ? DeliveryOutcome.unsent(.deadline) : .indeterminate(nil)
        if self.settle(entry, outcome, cause, destination) { self.ended(entry.id) }
    }

    /// Counts an outcome; returns whether it is recorded, and if not, removes the notification later.
    private func settle(
        _ entry: SpoolState.Entry,
        _ outcome: DeliveryOutcome,
        _ cause: DeliveryCause,
        _ destination: Bridge
    ) -> Bool {
        destination.observer.ended(cause)
        guard let outcomes = destination.outcomes, outcomes.records(cause) else { return true }
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
        outcomes.record(recorded) { self.ended(entry.id) }
        return false
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
    package func stop() { self.wake { $0.events.isStopping = true } }

    /// Waits until the disk has everything, or has failed once more.
    package func flush() async {
        await withCheckedContinuation { continuation in
            self.thread.async {
                self.state.withLockedValue { $0.isPaused = false }
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

extension Bridge {
    fileprivate var spoolTime: SpoolState.Time {
        SpoolState.Time(now: self.clock.now(), date: Int64(self.clock.date()))
    }

    /// The topic of a notification: that of the configuration, which may have been corrected, or of its connection.
    private func topic(of notification: SpooledNotification) -> String {
        self.configuration.admission.topic ?? notification.topic
    }

    fileprivate func list(of notification: SpooledNotification) -> TokenScope {
        TokenScope(topic: self.topic(of: notification), environment: self.configuration.environment)
    }

    fileprivate func requests(for notifications: [SpooledNotification]) -> [SpoolState.Request] {
        var rules = self.configuration.requests
        return notifications.map { notification in
            let topic = self.topic(of: notification)
            if topic != rules.topic { rules.topic = topic }
            var request = rules.request(
                token: notification.token,
                payload: notification.payload,
                expiry: notification.expiry,
                priority: notification.priority,
                now: UInt32(clamping: notification.arrivedAt)
            )
            request.apnsID = notification.apnsID
            return SpoolState.Request(request)
        }
    }
}
