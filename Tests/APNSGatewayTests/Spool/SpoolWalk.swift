// SPDX-License-Identifier: Apache-2.0

import APNSProviderHTTP2
import APNSSession
import APNSWire
import NIOCore
import TestSupport

@testable import APNSGateway

/// A plausible but wrong rule around a spool, used instead of the correct one.
enum SpoolMutant: String, CaseIterable, Sendable {
    case tellsBeforeDisk = "a notification counts as stored before it is on the disk"
    case sendsBeforeDisk = "a notification is sent before its transaction is on the disk"
    case forgetsPosition = "the disk does not learn what may have been sent"
    case forgetsDoubt = "the disk does not learn what the service may have"
    case removesWhenSent = "a notification leaves the disk when it is sent"
    case unknownIsUnprocessed = "without an answer, the service has not processed the request"
    case credentialsAreRejection = "refused credentials are a rejection of the notification"
    case everyNotificationIsADevice = "notifications of a device are sent at the same time"
    case timeStandsStill = "nothing expires"
    case failedWriteIsDropped = "a failed transaction is not tried again"
}

/// A random walk of a spool's decisions between a model of the disk and a model of the service, which are killed and
/// started again.
///
/// The service's record is the truth; the first violation ends the walk.
struct SpoolWalk {
    private struct Disk {
        var rows: [Int64: SpooledNotification] = [:]
        var sentThrough: Int64 = 0
    }

    /// What the test knows of a notification.
    private struct Fact {
        var device: Int
        var expiry: UInt32?
        var arrivedAt: Int64
        var isStored = false
        var acceptedCount = 0
        /// Whether the service may have processed it without an answer that the spool knows.
        var isUnknown = false
        var cause: DeliveryCause?
    }

    private struct Flight { var id: Int64; var number: Int; var isProcessed = false }

    private let mutant: SpoolMutant?
    private let isAtMostOnce: Bool
    private var random: SplitMix64
    private var disk = Disk()
    private var late: SpoolWrite?
    private var state: SpoolState
    private var facts: [Int: Fact] = [:]
    private var flights: [Flight] = []
    private var now = Duration.seconds(1)
    private var refuses: (credentials: Bool, topic: Bool) = (false, false)
    private var isDown = false
    private(set) var killCount = 0
    private(set) var repeatCount = 0
    private(set) var expiredCount = 0
    private(set) var holdCount = 0
    private(set) var violation: String?

    init(seed: UInt64, mutant: SpoolMutant? = nil) {
        self.mutant = mutant
        self.random = SplitMix64(seed: seed)
        self.isAtMostOnce = self.random.chance(30)
        var rules = SpoolState.Rules()
        rules.countMax = [2, 4, 16][self.random.below(3)]
        rules.isAtMostOnce = self.isAtMostOnce
        rules.ageMax = .seconds(600)
        self.state = SpoolState(rules)
        self.state.open(SpoolContents())
    }

    private var time: SpoolState.Time {
        let date = self.mutant == .timeStandsStill ? 1_000_000 : self.date
        return SpoolState.Time(now: self.now, date: date)
    }

    private var date: Int64 { 1_000_000 + self.now.components.seconds }

    private mutating func violate(_ text: String) { self.violation = self.violation ?? text }

    mutating func run() {
        for _ in 0..<200 where self.violation == nil { self.step() }
        self.drain()
        for (number, fact) in self.facts where fact.isStored && fact.cause == nil {
            self.violate("\(number) is lost")
        }
        if !self.disk.rows.isEmpty { self.violate("rows stay on the disk") }
        if self.state.count != 0 || self.state.byteCount != 0 { self.violate("the counts are not 0") }
    }

    private mutating func step() {
        switch self.random.below(20) {
        case 0...4: self.append()
        case 5...9: self.work()
        case 10...11: self.send()
        case 12...15: self.answer()
        case 16: self.now += .milliseconds(self.random.below(3000))
        case 17: self.now += .milliseconds(self.random.below(200))
        case 18:
            switch self.random.below(6) {
            case 0: self.kill()
            case 1: self.isDown.toggle()
            case 2: self.refuses.credentials.toggle()
            case 3: self.refuses.topic.toggle()
            case 4: self.state.retryNow(self.now)
            default: self.now += .seconds(self.random.below(100))
            }
        default: self.stopAndStart()
        }
        if self.state.entries.count > self.state.rules.countMax { self.violate("too many in memory") }
    }

    // MARK: Provider and disk

    private mutating func append() {
        let number = self.facts.count + 1
        var fact = Fact(device: self.random.below(4), arrivedAt: self.date)
        fact.expiry =
            switch self.random.below(4) {
            case 0: nil
            case 1: 0
            default: UInt32(self.date) + 1 + UInt32(self.random.below(300))
            }
        self.facts[number] = fact
        let device = self.mutant == .everyNotificationIsADevice ? number : fact.device
        guard
            let token = try? DeviceToken(
                bytes: [UInt8](repeating: UInt8(device & 0xFF), count: 4) + [UInt8(device >> 8)]
            )
        else { return }
        let notification = SpooledNotification(
            token: token,
            payload: ByteBuffer(string: "\(number)"),
            expiry: fact.expiry,
            priority: nil,
            topic: fact.device == 0 ? "other" : "app",
            apnsID: PushIdentifier(using: &self.random),
            arrivedAt: fact.arrivedAt
        )
        let origin = DeliveryOrigin(connection: 0, number: UInt64(number))
        let receipt = SpoolReceipt(number: DeliveryNumber(rawValue: 0), origin: origin, sender: Self.sender)
        self.state.append(SpoolState.Pending(notification: notification, receipt: receipt))
        if self.mutant == .tellsBeforeDisk { self.facts[number]?.isStored = true }
    }

    private static func request(_ notification: SpooledNotification) -> PushRequest {
        var request = PushRequest(token: notification.token, payload: notification.payload)
        request.expiry = PushExpiry(wireValue: notification.expiry)
        return request
    }

    static let sender = Bridge.Sender(
        connection: 0,
        rules: RequestRules(topic: nil),
        list: TokenScope(topic: "app", environment: .sandbox),
        cooldownKey: ProviderCooldown.Key(fingerprint: "", topic: "")
    )

    static func requests(_ notifications: [SpooledNotification]) -> [SpoolState.Request] {
        notifications.map { SpoolState.Request(Self.request($0)) }
    }

    private static func number(_ notification: SpooledNotification) -> Int {
        Int(String(buffer: notification.payload)) ?? 0
    }

    private mutating func work() {
        guard let work = self.state.nextWork() else { return }
        switch work {
        case .write(let write, let receipts, let isDirect):
            guard !self.random.chance(10) else {
                if self.mutant != .failedWriteIsDropped { self.state.notWritten(write, receipts) }
                return
            }
            self.flushLate()
            if self.mutant == .sendsBeforeDisk { self.late = write } else { self.apply(write) }
            self.state.written(write, isDirect ? Self.requests(write.added) : [])
            for receipt in receipts { self.facts[Int(receipt.origin.number)]?.isStored = true }
        case .read(let id, let countMax):
            self.flushLate()
            var page = SpoolPage()
            let following = self.disk.rows.keys.filter { $0 > id }.sorted().prefix(countMax)
            page.notifications = following.compactMap { self.disk.rows[$0] }
            if following.count == countMax { page.lastID = following.last }
            self.state.read(page, Self.requests(page.notifications))
        }
        self.send()
    }

    private mutating func flushLate() {
        guard let write = self.late else { return }
        self.late = nil
        self.apply(write)
    }

    private mutating func apply(_ write: SpoolWrite) {
        for notification in write.added { self.disk.rows[notification.id] = notification }
        for id in write.removed { self.disk.rows[id] = nil }
        if self.mutant != .forgetsDoubt {
            for id in write.doubted { self.disk.rows[id]?.isInDoubt = true }
        }
        if let position = write.sentThrough, self.mutant != .forgetsPosition { self.disk.sentThrough = position }
    }

    // MARK: The service

    private mutating func send() {
        let next = self.state.next(self.time)
        for (entry, cause) in next.drops {
            self.end(Self.number(entry.notification), cause)
            self.state.remove(entry.id)
        }
        for entry in next.sends { self.begin(entry) }
    }

    private mutating func begin(_ entry: SpoolState.Entry) {
        let number = Self.number(entry.notification)
        guard let fact = self.facts[number] else { return self.violate("\(number) is unknown") }
        if let row = self.disk.rows[entry.id] {
            if entry.id > self.disk.sentThrough, !row.isInDoubt { self.violate("\(number): the disk does not know") }
        } else {
            self.violate("\(number) is not on the disk")
        }
        if fact.cause != nil, !entry.notification.isInDoubt { self.violate("\(number) has an outcome") }
        let earlier = self.facts.filter {
            $0.key < number && $0.value.device == fact.device && $0.value.isStored && $0.value.cause == nil
        }
        if !earlier.isEmpty { self.violate("\(number) overtakes \(earlier.keys.sorted())") }
        if self.flights.contains(where: { self.facts[$0.number]?.device == fact.device }) {
            self.violate("\(number): its device has another in progress")
        }
        if fact.acceptedCount > 0 {
            self.repeatCount += 1
            if !entry.notification.isInDoubt { self.violate("\(number) is doubled without a flag") }
            if self.isAtMostOnce { self.violate("\(number) is doubled") }
        }
        if let expiry = fact.expiry, expiry > 0, self.date >= Int64(expiry) { self.violate("\(number) has expired") }
        self.flights.append(Flight(id: entry.id, number: number))
        if self.mutant == .removesWhenSent { self.disk.rows[entry.id] = nil }
    }

    private mutating func process(_ index: Int) {
        guard !self.flights[index].isProcessed else { return }
        self.flights[index].isProcessed = true
        self.facts[self.flights[index].number]?.acceptedCount += 1
    }

    private mutating func answer() {
        guard !self.flights.isEmpty else { return }
        let index = self.random.below(self.flights.count)
        let flight = self.flights[index]
        let device = self.facts[flight.number]?.device
        let responseClass: ResponseClass
        switch self.random.below(12) {
        case _ where self.isDown: responseClass = .transient(self.random.chance(50) ? .unprocessed : .trouble)
        case _ where self.refuses.credentials: responseClass = .credentialFault
        case _ where self.refuses.topic && device == 0: responseClass = .misconfigured(.missingTopic)
        case 0: responseClass = .dead(since: 0)
        case 1: responseClass = .rejected(.invalidToken)
        case 2:
            self.process(index)
            responseClass = .unconfirmed
        case 3, 4:
            if self.random.chance(50) { self.process(index) }
            responseClass = .transient(self.mutant == .unknownIsUnprocessed ? .unprocessed : .unknown)
            self.facts[flight.number]?.isUnknown = true
        case 5: responseClass = .transient(.throttled)
        case 6: responseClass = .transient(.trouble)
        default:
            self.process(index)
            responseClass = .accepted
        }
        self.flights.remove(at: index)
        self.answered(flight, responseClass)
    }

    private mutating func answered(_ flight: Flight, _ responseClass: ResponseClass) {
        let told: ResponseClass =
            self.mutant == .credentialsAreRejection && responseClass == .credentialFault
            ? .rejected(.processingError) : responseClass
        let jitter = Double(self.random.below(100)) / 100
        let action = self.state.answered(flight.id, told, answer: "", self.time, jitter: jitter)
        self.holdCount += self.state.takeHoldChanges().count { $0.answer != nil }
        switch action {
        case .none: self.violate("\(flight.number) is not in progress")
        case .sendAgain: break
        case .end(let entry, let end):
            let (_, cause) = end.outcome(isUnknown: entry.retries.isUnknown, isRepeatable: false)
            if cause == .rejected, responseClass == .credentialFault { self.violate("\(flight.number) is not held") }
            let isOver = entry.isImmediate && (cause == .budgetSpent || cause == .throttled)
            self.state.remove(flight.id)
            self.end(flight.number, isOver ? .expired : cause)
        }
        self.send()
    }

    private mutating func end(_ number: Int, _ cause: DeliveryCause) {
        guard let fact = self.facts[number] else { return }
        self.facts[number]?.cause = cause
        switch cause {
        case .accepted: if fact.acceptedCount == 0 { self.violate("\(number) was not accepted") }
        case .expired:
            self.expiredCount += 1
            let isOver = fact.expiry.map { $0 == 0 || self.date >= Int64($0) } ?? (self.date > fact.arrivedAt + 600)
            if !isOver { self.violate("\(number) has not expired") }
        case .budgetSpent, .throttled: self.violate("\(number) was given up")
        case .credentialFault, .misconfigured: if fact.expiry != 0 { self.violate("\(number) was not held") }
        default: break
        }
    }

    // MARK: The end

    private mutating func kill() {
        self.killCount += 1
        for index in self.flights.indices where self.random.chance(50) { self.process(index) }
        self.flights = []
        self.late = nil
        // What was not stored may be lost with the process.
        let numbers = Set(self.disk.rows.values.map { Self.number($0) })
        for (number, fact) in self.facts where fact.cause == nil && !fact.isStored && !numbers.contains(number) {
            self.facts[number]?.cause = .ignored
        }
        for number in numbers { self.facts[number]?.isStored = true }
        self.start()
    }

    private mutating func start() {
        let rules = self.state.rules
        for (id, row) in self.disk.rows where id <= self.disk.sentThrough && !row.isInDoubt {
            self.disk.rows[id]?.isInDoubt = true
        }
        self.disk.sentThrough = 0
        var contents = SpoolContents()
        contents.count = self.disk.rows.count
        contents.byteCount = self.disk.rows.values.reduce(0) { $0 + $1.byteCount }
        contents.lastID = self.disk.rows.keys.max() ?? 0
        self.state = SpoolState(rules)
        self.state.open(contents)
        // An outcome that the disk did not learn is none.
        for row in self.disk.rows.values { self.facts[Self.number(row)]?.cause = nil }
    }

    /// An orderly end, after which only what the service may have is in doubt.
    private mutating func stopAndStart() {
        guard self.random.chance(20) else { return }
        self.state.isStopped = true
        while !self.flights.isEmpty { self.answer() }
        for _ in 0..<100 where !self.state.isWritten { self.work() }
        self.flushLate()
        guard self.state.isWritten else { return }
        for row in self.disk.rows.values where row.isInDoubt || row.id <= self.disk.sentThrough {
            let number = Self.number(row)
            guard let fact = self.facts[number] else { continue }
            if !fact.isUnknown, self.killCount == 0 { self.violate("\(number) is in doubt without a reason") }
        }
        self.start()
    }

    /// The service and the disk are good again, until nothing is left.
    private mutating func drain() {
        (self.isDown, self.refuses) = (false, (false, false))
        for _ in 0..<3000 where self.violation == nil {
            self.work()
            self.send()
            while !self.flights.isEmpty, self.violation == nil { self.answer() }
            if self.state.count == 0, self.state.isWritten { break }
            self.now += .seconds(1)
        }
    }
}
