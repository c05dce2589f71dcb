// SPDX-License-Identifier: Apache-2.0

import APNSProviderHTTP2
import APNSSession
import APNSWire
import DequeModule
import NIOCore

/// What to settle when a notification is on the disk.
struct SpoolReceipt: Sendable {
    var number: DeliveryNumber
    var origin: DeliveryOrigin
    var sender: Bridge.Sender
}

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

    /// A request in memory of its own, so that an entry is small.
    final class Request: Sendable {
        let value: PushRequest

        init(_ value: PushRequest) { self.value = value }
    }

    /// A notification in memory.
    struct Entry: Sendable {
        var notification: SpooledNotification
        fileprivate var stored: Request
        /// The headers that the service has refused.
        fileprivate var omitted: [ResponseClass.Header] = []
        var retries = RetryState()
        /// Whether a request is in progress, or its outcome is being recorded.
        fileprivate(set) var isSending = false
        /// The number of the pause before its last attempt.
        fileprivate var attemptEpoch = 0

        var id: Int64 { self.notification.id }

        /// The request for it.
        var request: PushRequest {
            var request = self.stored.value
            for header in self.omitted {
                switch header {
                case .priority: request.priority = nil
                case .pushType: request.pushType = nil
                }
            }
            return request
        }

        /// The topic of its request.
        var topic: String? { self.stored.value.topic }

        /// Whether the service does not store it: it is tried once.
        var isImmediate: Bool {
            self.stored.value.expiry.wireValue.map { $0 == 0 || Int64($0) <= self.notification.arrivedAt } ?? false
        }

        func isExpired(_ rules: Rules, date: Int64) -> Bool {
            let age = date - self.notification.arrivedAt
            if self.isImmediate { return age > rules.immediateAgeMax.components.seconds }
            guard let expiry = self.stored.value.expiry.wireValue else { return age > rules.ageMax.components.seconds }
            return date >= Int64(expiry)
        }
    }

    /// A notification that is not on the disk yet.
    struct Pending: Sendable {
        var notification: SpooledNotification
        var receipt: SpoolReceipt
    }

    /// The next work on the disk.
    enum Work: Sendable {
        /// A transaction, and the receipts of what it adds; with `isDirect`, that needs not be read back.
        case write(SpoolWrite, [SpoolReceipt], isDirect: Bool)
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
    /// Whether nothing is sent; what is in progress gets its outcome.
    var isStopped = false

    // What is on the disk.
    private var pending = Deque<Pending>()
    private(set) var pendingByteCount = 0
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
    /// The most numbers of dropped notifications among those that wait.
    private var staleCount = 0
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

    /// Accepts a notification, which gets its number when it is written.
    mutating func append(_ pending: Pending) {
        self.count += 1
        self.byteCount += pending.notification.byteCount
        self.pendingByteCount += pending.notification.byteCount
        self.pending.append(pending)
    }

    /// What to do on the disk next; `nil` for nothing.
    mutating func nextWork() -> Work? {
        guard self.isOpen else { return nil }
        var write = SpoolWrite()
        let receipts = self.takePending(&write)
        let count = write.added.count
        let isDirect = self.loadedThrough == self.durableThrough && self.entries.count + count <= self.rules.countMax
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
        if !write.isEmpty { return .write(write, receipts, isDirect: isDirect && count > 0) }
        guard self.readingRoom > self.rules.countMax / 2 else { return nil }
        return .read(after: self.loadedThrough, countMax: self.readingRoom)
    }

    /// How many notifications may be read from the disk now.
    private var readingRoom: Int {
        self.loadedThrough < self.durableThrough && !self.isStopped ? self.rules.countMax - self.entries.count : 0
    }

    private mutating func takePending(_ write: inout SpoolWrite) -> [SpoolReceipt] {
        let taken = self.pending.prefix(Self.writeCountMax)
        self.pending.removeFirst(taken.count)
        write.added = taken.map { next in
            self.lastID += 1
            var notification = next.notification
            notification.id = self.lastID
            return notification
        }
        return taken.map(\.receipt)
    }

    /// Records that a transaction is on the disk.
    ///
    /// There are requests for what it adds unless that has to be read back.
    mutating func written(_ write: SpoolWrite, _ requests: [Request]) {
        if let sentThrough = write.sentThrough {
            self.sentThrough = sentThrough
            self.wantedThrough = min(self.wantedThrough, sentThrough)
        }
        guard let last = write.added.last?.id else { return }
        self.durableThrough = last
        self.pendingByteCount -= write.added.reduce(0) { $0 + $1.byteCount }
        guard !requests.isEmpty else { return }
        self.load(write.added, requests)
        self.loadedThrough = last
    }

    /// Records that a transaction failed; it is part of the next one.
    mutating func notWritten(_ write: SpoolWrite, _ receipts: [SpoolReceipt]) {
        self.lastID -= Int64(write.added.count)
        self.pending.prepend(contentsOf: zip(write.added, receipts).map { Pending(notification: $0, receipt: $1) })
        self.removed = write.removed + self.removed
        self.doubted = write.doubted + self.doubted
    }

    /// Records what was read.
    mutating func read(_ page: SpoolPage, _ requests: [Request]) {
        self.load(page.notifications, requests)
        self.loadedThrough = page.lastID ?? self.durableThrough
        self.removed += page.damaged
        self.count -= page.damaged.count
        // What was intact when the spool was opened had another size.
        self.byteCount = self.count == 0 ? 0 : max(0, self.byteCount - page.damagedByteCount)
    }

    private mutating func load(_ notifications: [SpooledNotification], _ requests: [Request]) {
        for (notification, request) in zip(notifications, requests) {
            self.entries[notification.id] = Entry(notification: notification, stored: request)
            if self.devices[notification.token]?.waiting.append(notification.id) == nil {
                self.devices[notification.token] = Device(current: notification.id)
                self.candidates.append(notification.id)
            }
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
            guard var entry = self.entries[id], !entry.isSending else { continue }
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
            entry.isSending = true
            entry.attemptEpoch = self.epoch
            self.entries[id] = entry
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
        let dropCount = next.drops.count
        for entry in self.entries.values where !entry.isSending {
            if let cause = self.dropCause(entry, time) { self.drop(entry, cause, &next) }
        }
        self.staleCount += next.drops.count - dropCount
        if self.staleCount > self.entries.count { self.removeStale() }
    }

    /// Removes the numbers of what was dropped from where they wait, or they would grow with what expires.
    private mutating func removeStale() {
        self.staleCount = 0
        // One that is being dropped counts as in progress, and none that waits does.
        let isStale = { [entries] (id: Int64) in entries[id]?.isSending ?? true }
        self.candidates.removeAll(where: isStale)
        self.delayed.removeAll { isStale($0.id) }
        for index in self.devices.values.indices { self.devices.values[index].waiting.removeAll(where: isStale) }
        for index in self.holds.values.indices { self.holds.values[index].parked.removeAll(where: isStale) }
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
            if let header { entry.omitted.append(header) }
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
        self.byteCount -= entry.notification.byteCount
        guard let index = self.devices.index(forKey: entry.notification.token),
            self.devices.values[index].current == entry.id
        else { return }
        while let following = self.devices.values[index].waiting.popFirst() {
            guard self.entries[following] != nil else { continue }
            self.devices.values[index].current = following
            self.candidates.append(following)
            return
        }
        self.devices.remove(at: index)
    }

    /// Renews the requests of what is not being sent, or of one notification, for another configuration.
    mutating func rebuild(_ id: Int64? = nil, _ makeRequests: ([SpooledNotification]) -> [Request]) {
        let chosen = id.map { [self.entries[$0]].compactMap(\.self) } ?? Array(self.entries.values)
        let waiting = chosen.filter { !$0.isSending }.map(\.notification)
        for (notification, request) in zip(waiting, makeRequests(waiting)) {
            self.entries[notification.id]?.stored = request
        }
    }

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
