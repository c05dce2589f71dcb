// SPDX-License-Identifier: Apache-2.0

import APNSProviderHTTP2
import APNSSession
import APNSWire
import DequeModule
import NIOCore

/// Decides what a spool stores, reads, sends and drops next, without input or output.
///
/// A notification is sent only when it is on the disk, and when the disk says that it may have been sent. Those of a
/// device are sent one after another. While the service has trouble, there is one attempt at a time, after growing
/// pauses. While it refuses the credentials or a topic, what they concern is held.
struct SpoolState: Sendable {
    /// The limits and pauses of a spool.
    struct Rules: Hashable, Sendable {
        /// The most notifications in memory, which is also the most in progress.
        var countMax = BridgeConfiguration.inFlightCountMaxDefault
        /// The most bytes on the disk and on their way there; more are accepted only of what was already read.
        var byteCountMax = BridgeConfiguration.spoolByteCountMaxDefault
        /// The age at which a notification without an expiry is dropped.
        var ageMax = BridgeConfiguration.spoolAgeMaxDefault
        /// Whether a notification that the service may have is not sent again.
        var isAtMostOnce = false
        var retries = RetryRules()

        /// The pauses between attempts while the service refuses the credentials or a topic.
        var holdBackoff = Backoff(first: .seconds(1), max: .seconds(300))

        init() {}

        init(_ configuration: BridgeConfiguration) {
            self.countMax = configuration.inFlightCountMax
            self.byteCountMax = configuration.spoolByteCountMax
            self.ageMax = configuration.spoolAgeMax
            self.isAtMostOnce = configuration.retries.givesUpUnknownUnkept
            self.retries = configuration.retries
        }

        /// How long a notification that the service does not store may wait for its attempt.
        var immediateAgeMax: Duration { self.retries.budget }

        /// A notification ends by its expiry, and not by the time or the number of its attempts.
        var attempts: RetryRules {
            var rules = self.retries
            rules.budget = .seconds(Int64.max / 4)
            rules.givesUpUnknownUnkept = true
            return rules
        }
    }

    /// The time of an event: of a clock that only moves forward, and in seconds since 1970 (UTC).
    struct Time: Hashable, Sendable {
        var now: Duration
        var date: Int64
    }

    /// A notification in memory.
    struct Entry: Sendable {
        var notification: SpooledNotification
        /// The request for it, which has its payload.
        var request: PushRequest
        var retries = RetryState()
        /// Whether a request is in progress, or its outcome is being recorded.
        fileprivate(set) var isSending = false
        /// The number of the pause before its last attempt.
        fileprivate var attemptEpoch = 0

        var id: Int64 { self.notification.id }

        /// Whether the service does not store it: it is tried once.
        var isImmediate: Bool {
            self.request.expiry.wireValue.map { $0 == 0 || Int64($0) <= self.notification.arrivedAt } ?? false
        }

        func isExpired(_ rules: Rules, date: Int64) -> Bool {
            let age = date - self.notification.arrivedAt
            if self.isImmediate { return age > rules.immediateAgeMax.components.seconds }
            guard let expiry = self.request.expiry.wireValue else { return age > rules.ageMax.components.seconds }
            return date >= Int64(expiry)
        }
    }

    /// A notification that is not on the disk yet.
    struct Pending: Sendable {
        var notification: SpooledNotification
        /// Called when it is on the disk.
        var onStored: @Sendable () -> Void
    }

    /// The next work on the disk.
    enum Work: Sendable {
        /// A transaction, and what it adds; with `isDirect`, that needs not be read back.
        case write(SpoolWrite, [Pending], isDirect: Bool)
        case read(after: Int64, countMax: Int)
    }

    /// Why notifications are held: what the service refuses.
    enum HoldReason: Hashable, Sendable {
        case credentials
        case topic(String)
    }

    /// The begin or the end of a hold.
    struct HoldChange: Hashable, Sendable {
        var reason: HoldReason
        /// The service's answer; `nil` at the end.
        var answer: String?
    }

    private struct Hold: Sendable {
        var answer: String
        /// When it began, in seconds since 1970 (UTC).
        var since: Int64
        var count = 0
        var until = Duration.zero
        /// The attempt that finds out whether it has ended.
        var probe: Int64?
        var parked: [Int64] = []
    }

    /// The notifications of a device: one is sent at a time, until it has its outcome.
    private struct Device: Sendable {
        var current: Int64
        var waiting = Deque<Int64>()
    }

    /// What to do after an answer.
    enum OnAnswer: Sendable {
        /// It has its outcome: report it, then call ``SpoolState/remove(_:)``.
        case end(Entry, ResponseClass)
        /// It is sent again later.
        case sendAgain(Entry)
        /// It belongs to no notification in progress.
        case none
    }

    /// The notifications to send, and those that are dropped; when to ask again.
    struct Next: Sendable {
        var sends: [Entry] = []
        /// What is dropped without an attempt now: expired, or in doubt and not to be repeated.
        ///
        /// Report it, then call ``SpoolState/remove(_:)``.
        var drops: [(entry: Entry, cause: DeliveryCause)] = []
        var wakeAt: Duration?
    }

    var rules: Rules
    private(set) var isOpen = false
    private var isStopped = false

    // What is on the disk.
    private var pending = Deque<Pending>()
    private var pendingByteCount = 0
    private var lastID: Int64 = 0
    private var durableThrough: Int64 = 0
    private var sentThrough: Int64 = 0
    private var wantedThrough: Int64 = 0
    private var removed: [Int64] = []
    private var doubted: [Int64] = []
    /// The notifications that have no outcome, those that are not on the disk yet among them.
    private(set) var count = 0
    private(set) var byteCount = 0

    // What is in memory.
    private var loadedThrough: Int64 = 0
    private(set) var entries: [Int64: Entry] = [:]
    private var devices: [DeviceToken: Device] = [:]
    private var candidates = Deque<Int64>()
    private var delayed: [(due: Duration, id: Int64)] = []
    private var nextDue: Duration?
    private(set) var sendingCount = 0

    // The service.
    private var failureCount = 0
    private var epoch = 0
    private var pausedUntil = Duration.zero
    private var holds: [HoldReason: Hold] = [:]
    private var holdChanges: [HoldChange] = []
    /// When all in memory were last checked for their expiry.
    private var lastExpiryDate: Int64 = 0

    init(_ rules: Rules) { self.rules = rules }

    /// The most bytes on the way to the disk.
    static let pendingByteCountMax = 1 << 20
    /// The most notifications of a transaction.
    private static let writeCountMax = 4096

    // MARK: The disk

    /// Records what an earlier process left.
    mutating func open(_ contents: SpoolContents) {
        self.isOpen = true
        self.count += contents.count
        self.byteCount += contents.byteCount
        self.durableThrough = contents.lastID
        self.lastID = contents.lastID
    }

    /// Whether no more should be read from the provider.
    var isFull: Bool {
        self.byteCount >= self.rules.byteCountMax || self.pendingByteCount >= Self.pendingByteCountMax
    }

    /// Accepts a notification, which gets its number when it is written.
    mutating func append(_ notification: SpooledNotification, onStored: @escaping @Sendable () -> Void) {
        self.count += 1
        self.byteCount += notification.byteCount
        self.pendingByteCount += notification.byteCount
        self.pending.append(Pending(notification: notification, onStored: onStored))
    }

    /// What to do on the disk next; `nil` for nothing.
    mutating func nextWork() -> Work? {
        guard self.isOpen else { return nil }
        var write = SpoolWrite()
        let added = self.takePending()
        let isDirect =
            self.loadedThrough == self.durableThrough && self.entries.count + added.count <= self.rules.countMax
        write.added = added.map(\.notification)
        (write.removed, self.removed) = (self.removed, [])
        (write.doubted, self.doubted) = (self.doubted.filter { self.entries[$0] != nil }, [])
        let loadedThrough = isDirect ? self.lastID : self.loadedThrough
        if self.isFlowing {
            if loadedThrough > self.sentThrough { write.sentThrough = loadedThrough }
        } else if self.wantedThrough > self.sentThrough {
            write.sentThrough = self.wantedThrough
        } else if self.sentThrough > 0, self.sendingCount == 0 {
            // Nothing is in progress, and what the service may have is marked: the rest was certainly not sent.
            write.sentThrough = 0
        }
        if !write.isEmpty { return .write(write, added, isDirect: isDirect && !added.isEmpty) }
        let room = self.rules.countMax - self.entries.count
        guard self.loadedThrough < self.durableThrough, !self.isStopped, room > self.rules.countMax / 2 else {
            return nil
        }
        return .read(after: self.loadedThrough, countMax: room)
    }

    private mutating func takePending() -> [Pending] {
        var added: [Pending] = []
        while added.count < Self.writeCountMax, var next = self.pending.popFirst() {
            self.lastID += 1
            next.notification.id = self.lastID
            added.append(next)
        }
        return added
    }

    /// Records that a transaction is on the disk.
    ///
    /// Returns the completions to call. `makeRequest` is called for what needs not be read back.
    mutating func written(
        _ write: SpoolWrite,
        _ added: [Pending],
        isDirect: Bool,
        _ makeRequest: (SpooledNotification) -> PushRequest
    ) -> [@Sendable () -> Void] {
        if let sentThrough = write.sentThrough {
            self.sentThrough = sentThrough
            self.wantedThrough = min(self.wantedThrough, sentThrough)
        }
        guard let last = write.added.last?.id else { return [] }
        self.durableThrough = last
        for next in added {
            self.pendingByteCount -= next.notification.byteCount
            if isDirect { self.load(next.notification, makeRequest) }
        }
        if isDirect { self.loadedThrough = last }
        return added.map(\.onStored)
    }

    /// Records that a transaction failed; it is part of the next one.
    mutating func notWritten(_ write: SpoolWrite, _ added: [Pending]) {
        self.lastID -= Int64(added.count)
        self.pending.prepend(contentsOf: added)
        self.removed = write.removed + self.removed
        self.doubted = write.doubted + self.doubted
    }

    /// Records what was read.
    mutating func read(_ page: SpoolPage, _ makeRequest: (SpooledNotification) -> PushRequest) {
        for notification in page.notifications { self.load(notification, makeRequest) }
        self.loadedThrough = page.lastID ?? self.durableThrough
        self.removed += page.damaged
        self.count -= page.damaged.count
        self.byteCount -= page.damagedByteCount
    }

    private mutating func load(_ notification: SpooledNotification, _ makeRequest: (SpooledNotification) -> PushRequest)
    {
        var entry = Entry(notification: notification, request: makeRequest(notification))
        entry.notification.payload = []
        self.entries[entry.id] = entry
        if self.devices[notification.token] == nil {
            self.devices[notification.token] = Device(current: entry.id)
            self.candidates.append(entry.id)
        } else {
            self.devices[notification.token]?.waiting.append(entry.id)
        }
    }

    // MARK: The service

    /// Whether the service takes everything, so that what is in memory may be sent at once.
    private var isFlowing: Bool { self.failureCount == 0 && self.holds[.credentials] == nil && !self.isStopped }

    /// Returns what to send and to drop now.
    mutating func next(_ time: Time) -> Next {
        var next = Next()
        guard self.isOpen, !self.isStopped else { return next }
        self.resumeDelayed(time.now)
        // In an outage, nothing else reaches those behind the first.
        if !self.isFlowing || !self.holds.isEmpty, time.date != self.lastExpiryDate { self.dropExpired(time, &next) }
        self.probeHolds(time.now)
        while self.sendingCount < self.sendingCountMax(time.now), let id = self.candidates.popFirst() {
            guard let entry = self.entries[id], !entry.isSending else { continue }
            if let cause = self.dropCause(entry, time) {
                self.drop(entry, cause, &next)
                continue
            }
            if self.park(entry) { continue }
            guard id <= self.sentThrough else {
                // Not before the disk says that it may have been sent.
                self.wantedThrough = max(self.wantedThrough, id)
                self.candidates.prepend(id)
                break
            }
            self.entries[id]?.isSending = true
            self.entries[id]?.attemptEpoch = self.epoch
            self.sendingCount += 1
            next.sends.append(entry)
        }
        next.wakeAt = self.wakeTime(time.now)
        return next
    }

    /// How many notifications may be in progress now.
    private func sendingCountMax(_ now: Duration) -> Int {
        guard !self.isFlowing else { return self.rules.countMax }
        let start = max(self.holds[.credentials]?.until ?? .zero, self.failureCount > 0 ? self.pausedUntil : .zero)
        return now >= start ? 1 : 0
    }

    /// Why a notification is dropped without an attempt; `nil` if it is not.
    private func dropCause(_ entry: Entry, _ time: Time) -> DeliveryCause? {
        if entry.notification.isInDoubt, self.rules.isAtMostOnce || entry.isImmediate { return .unknown }
        return entry.isExpired(self.rules, date: time.date) ? .expired : nil
    }

    private mutating func dropExpired(_ time: Time, _ next: inout Next) {
        self.lastExpiryDate = time.date
        for entry in self.entries.values where !entry.isSending {
            if let cause = self.dropCause(entry, time) { self.drop(entry, cause, &next) }
        }
    }

    private mutating func drop(_ entry: Entry, _ cause: DeliveryCause, _ next: inout Next) {
        self.entries[entry.id]?.isSending = true
        self.sendingCount += 1
        next.drops.append((entry, cause))
    }

    /// Keeps a notification back whose topic the service refuses.
    private mutating func park(_ entry: Entry) -> Bool {
        let reason = HoldReason.topic(entry.notification.topic)
        guard let hold = self.holds[reason], hold.probe != entry.id else { return false }
        self.holds[reason]?.parked.append(entry.id)
        return true
    }

    private mutating func probeHolds(_ now: Duration) {
        for (reason, hold) in self.holds where reason != .credentials && hold.probe == nil && now >= hold.until {
            guard let id = hold.parked.min(), let index = hold.parked.firstIndex(of: id) else { continue }
            self.holds[reason]?.parked.remove(at: index)
            guard self.entries[id] != nil else { continue }
            self.holds[reason]?.probe = id
            self.candidates.prepend(id)
        }
    }

    private mutating func resumeDelayed(_ now: Duration) {
        guard let due = self.nextDue, due <= now else { return }
        let resumed = self.delayed.filter { $0.due <= now }.map(\.id).sorted()
        self.delayed.removeAll { $0.due <= now }
        self.nextDue = self.delayed.map(\.due).min()
        self.candidates.prepend(contentsOf: resumed.filter { self.entries[$0] != nil })
    }

    private func wakeTime(_ now: Duration) -> Duration? {
        var times: [Duration] = []
        if let due = self.nextDue { times.append(due) }
        for hold in self.holds.values where hold.probe == nil { times.append(hold.until) }
        if self.failureCount > 0, self.sendingCount == 0 { times.append(self.pausedUntil) }
        return times.filter { $0 > now }.min()
    }

    /// Processes the answer to a request.
    mutating func answered(
        _ id: Int64,
        _ responseClass: ResponseClass,
        answer: @autoclosure () -> String,
        _ time: Time,
        jitter: Double
    ) -> OnAnswer {
        guard var entry = self.entries[id], entry.isSending else { return .none }
        let isOnce = entry.isImmediate || self.rules.isAtMostOnce
        switch entry.retries.receive(responseClass, self.rules.attempts, isKept: !isOnce, jitter: jitter) {
        case .end(let end):
            if let reason = Self.holdReason(end, entry) {
                self.hold(reason, entry, answer(), time, jitter)
                if entry.isImmediate { return .end(entry, end) }
                self.stopSending(entry)
                if reason == .credentials {
                    self.candidates.prepend(id)
                } else {
                    self.holds[reason]?.parked.append(id)
                }
                return .sendAgain(entry)
            }
            self.resume(behind: end, entry)
            self.entries[id] = entry
            return .end(entry, end)
        case .sendAgain(let pause, let header):
            let isAtOnce = pause == .zero
            if !isAtOnce { self.failed(responseClass, entry, time, jitter) }
            self.resume(behind: responseClass, entry)
            if entry.isImmediate, !isAtOnce { return .end(entry, responseClass) }
            switch header {
            case .priority: entry.request.priority = nil
            case .pushType: entry.request.pushType = nil
            case nil: break
            }
            if responseClass == .transient(.unknown), !entry.notification.isInDoubt {
                entry.notification.isInDoubt = true
                self.doubted.append(id)
            }
            self.stopSending(entry)
            if isAtOnce {
                self.candidates.prepend(id)
            } else {
                self.delay(id, until: time.now + pause)
            }
            return .sendAgain(entry)
        }
    }

    private mutating func stopSending(_ entry: Entry) {
        self.entries[entry.id] = entry
        self.entries[entry.id]?.isSending = false
        self.sendingCount -= 1
        for (reason, hold) in self.holds where hold.probe == entry.id { self.holds[reason]?.probe = nil }
    }

    private mutating func delay(_ id: Int64, until due: Duration) {
        self.delayed.append((due, id))
        self.nextDue = min(self.nextDue ?? due, due)
    }

    /// Records that an attempt failed because of the service; those that began before the last pause count as one.
    private mutating func failed(
        _ responseClass: ResponseClass,
        _ entry: Entry,
        _ time: Time,
        _ jitter: Double
    ) {
        guard responseClass != .transient(.throttled), entry.attemptEpoch == self.epoch else { return }
        self.epoch += 1
        self.failureCount += 1
        self.pausedUntil = time.now + self.rules.retries.backoff.delay(failures: self.failureCount, jitter: jitter)
    }

    /// Records an answer about the notification itself: service, credentials and topic are good.
    private mutating func resume(behind end: ResponseClass, _ entry: Entry) {
        guard end.isNotificationAtFault || end == .transient(.throttled) else { return }
        self.failureCount = 0
        for reason in [HoldReason.credentials, .topic(entry.notification.topic)] { self.release(reason) }
    }

    private mutating func release(_ reason: HoldReason) {
        guard let hold = self.holds.removeValue(forKey: reason) else { return }
        self.holdChanges.append(HoldChange(reason: reason))
        self.candidates.prepend(contentsOf: hold.parked.filter { self.entries[$0] != nil }.sorted())
    }

    private static func holdReason(_ end: ResponseClass, _ entry: Entry) -> HoldReason? {
        switch end {
        case .credentialFault: .credentials
        case .misconfigured: .topic(entry.notification.topic)
        case .accepted, .dead, .rejected, .requestFault, .unconfirmed, .transient: nil
        }
    }

    private mutating func hold(_ reason: HoldReason, _ entry: Entry, _ answer: String, _ time: Time, _ jitter: Double) {
        if self.holds[reason] == nil { self.holdChanges.append(HoldChange(reason: reason, answer: answer)) }
        var hold = self.holds[reason] ?? Hold(answer: answer, since: time.date)
        hold.answer = answer
        if hold.probe == entry.id { hold.probe = nil }
        if entry.attemptEpoch == self.epoch || hold.count == 0 {
            self.epoch += 1
            hold.count += 1
            hold.until = time.now + self.rules.holdBackoff.delay(failures: hold.count, jitter: jitter)
        }
        self.holds[reason] = hold
        // It has answered.
        self.failureCount = 0
    }

    /// Ends the pauses: there are other credentials, or another configuration.
    mutating func retryNow(_ now: Duration) {
        self.pausedUntil = min(self.pausedUntil, now)
        for reason in self.holds.keys { self.holds[reason]?.until = now }
    }

    /// Removes a notification that has its outcome.
    mutating func remove(_ id: Int64) {
        guard let entry = self.entries[id] else { return }
        if entry.isSending { self.sendingCount -= 1 }
        self.forget(entry)
    }

    private mutating func forget(_ entry: Entry) {
        guard self.entries.removeValue(forKey: entry.id) != nil else { return }
        for (reason, hold) in self.holds where hold.probe == entry.id { self.holds[reason]?.probe = nil }
        self.removed.append(entry.id)
        self.count -= 1
        self.byteCount -= SpooledNotification.byteCount(
            entry.notification.token.byteCount + entry.request.payload.readableBytes
        )
        let token = entry.notification.token
        guard let index = self.devices.index(forKey: token), self.devices.values[index].current == entry.id else {
            return
        }
        while let following = self.devices.values[index].waiting.popFirst() {
            guard self.entries[following] != nil else { continue }
            self.devices.values[index].current = following
            self.candidates.append(following)
            return
        }
        self.devices.remove(at: index)
    }

    /// Renews the requests of what is not being sent, for another configuration.
    mutating func rebuild(_ makeRequest: (SpooledNotification) -> PushRequest) {
        for (id, entry) in self.entries where !entry.isSending {
            var notification = entry.notification
            notification.payload = Array(entry.request.payload.readableBytesView)
            self.entries[id]?.request = makeRequest(notification)
        }
    }

    /// Ends sending; what is in progress gets its outcome.
    mutating func stop() { self.isStopped = true }

    /// Begins to send again.
    mutating func resume() { self.isStopped = false }

    // MARK: Facts

    /// Returns the holds that began or ended since the last call.
    mutating func takeHoldChanges() -> [HoldChange] {
        guard !self.holdChanges.isEmpty else { return [] }
        defer { self.holdChanges = [] }
        return self.holdChanges
    }

    /// What is held, since when in seconds since 1970 (UTC), and the service's answer.
    var heldReasons: [(reason: HoldReason, since: Int64, answer: String)] {
        self.holds.map { ($0.key, $0.value.since, $0.value.answer) }
    }

    /// When the oldest notification arrived, in seconds since 1970 (UTC); `nil` if there is none.
    var oldestArrival: Int64? {
        self.entries.values.lazy.map(\.notification.arrivedAt).min() ?? self.pending.first?.notification.arrivedAt
    }

    /// Whether everything that was accepted is on the disk, and the disk knows all outcomes.
    var isWritten: Bool {
        self.pending.isEmpty && self.removed.isEmpty && self.doubted.isEmpty
            && (self.sendingCount > 0 || self.isFlowing || self.sentThrough == 0)
    }
}
