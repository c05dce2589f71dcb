// SPDX-License-Identifier: Apache-2.0

import APNSWire

/// Compares what a client wrote and believes with what the service did, notification by notification.
///
/// For all clients:
/// - What an error response says is accepted was delivered, or rejected without a report; except after a rejection
///   whose identifier the client used several times.
/// - What a unique identifier with status 1 names was not delivered, unless the log says that it is in doubt.
/// - Nothing is delivered twice that was written once, or again because an error response asked for it, unless the log
///   counts it as a possible resend, or says that it is in doubt.
/// - The service receives a request twice only with the same `apns-id`, after an answer was lost.
/// - Status 10 names an identifier that was used once on the connection, or never.
/// - With nothing outstanding, a connection ends without status 10.
///
/// For clients that read:
/// - Everything is delivered, or named by a rejection; when the gateway stops or the service fails, by status 1.
/// - A client that does not act on each response and each close loses only what it no longer kept or had in doubt.
///
/// For clients that never read:
/// - Without a fault that ends connections, everything is delivered or rejected.
/// - Otherwise only the end of what was written on a connection is lost, and the next write fails. At SIGTERM, that is
///   only what had not arrived. In an outage, what the log has as not delivered may be lost as well.
/// - Their gateway never sends status 10.
struct HabitOracle {
    /// The numbers of a cell, added up over its seeds.
    struct Counts {
        var written = 0
        var toldAccepted = 0
        /// Named by status 1 and not sent again by a client that does not retry these.
        var toldFailed = 0
        var resentAsTold = 0
        var resentUnproved = 0
        /// Neither delivered nor rejected by the service.
        var lost = 0
        /// Delivered more than once, with different `apns-id` values.
        var doubled = 0
        var repeatedRequests = 0
        var shutdownCount = 0

        static func += (left: inout Counts, right: Counts) {
            left.written += right.written
            left.toldAccepted += right.toldAccepted
            left.toldFailed += right.toldFailed
            left.resentAsTold += right.resentAsTold
            left.resentUnproved += right.resentUnproved
            left.lost += right.lost
            left.doubled += right.doubled
            left.repeatedRequests += right.repeatedRequests
            left.shutdownCount += right.shutdownCount
        }
    }

    /// A broken promise.
    enum Violation: String, CaseIterable {
        case lostThoughAccepted = "lost, though told accepted"
        case lost = "lost"
        case doubled = "delivered twice, though told to resend or written once"
        case repeatedRequest = "requested twice, though answered"
        case ambiguousShutdown = "status 10 names an identifier that was used several times"
        case needlessShutdown = "status 10 with nothing outstanding"
        case ignoredShutdown = "status 10 with rejections ignored"
        case falselyRejected = "told rejected, though the service did not reject it"
        case lostBeforeEnd = "lost, though later ones of the connection were delivered"
        case lostWithoutReset = "lost without a failed write afterwards"
        case lostLongBefore = "lost long before the write failed"
        case lostAfterArrival = "lost, though it had arrived before SIGTERM"
        case lostWhenIdle = "lost after an end with nothing outstanding"
        case unwritten = "never written"
    }

    /// The longest time between the first lost write and the failed one, for a client that never reads and pauses
    /// before each write.
    private static let lossDurationMax = Duration.seconds(1)

    private(set) var counts = Counts()
    private(set) var violations: [Violation: Set<UInt32>] = [:]

    private let habits: ClientHabits
    private let fault: HabitRun.Fault
    private let inFlightCountMax: Int
    private let signals: [ContinuousClock.Instant]
    private let requests: [UInt32: [ChainRecord.Request]]
    /// The lines of the log about this provider.
    private let log: [Substring]

    init(_ client: Int, of run: HabitRun, _ outcome: HabitRun.Outcome, _ lines: [Substring]) {
        self.habits = run.habits[client]
        self.fault = run.fault
        self.inFlightCountMax = run.inFlightCountMax
        self.signals = outcome.signals
        self.log = lines.filter { $0.contains("\"apns.legacy.provider\":\"\(run.habits[client].name)\"") }
        let all = outcome.records[client]
        let numbers = Set(all.flatMap { $0.writes.map(\.number) })
        self.requests = Dictionary(grouping: outcome.requests.filter { numbers.contains(UInt32($0.number)) }) {
            UInt32($0.number)
        }
        for record in all { self.check(record) }
        let shutdowns = self.log.count { $0.contains("error response sent") && $0.contains("\"10 (shutdown)\"") }
        self.counts.shutdownCount = shutdowns
        if self.habits.reading == .never, shutdowns > 0 { self.violations[.ignoredShutdown] = [] }
        // What is flagged in the log: resends whose expiry moved that were not certain; notifications that the service
        // may have accepted without an answer; and those whose retry budget was used up while later ones were
        // delivered, to a provider that cannot be asked to resend.
        let unknownCount = self.log.count { $0.contains("not delivered") && $0.contains("it can arrive twice") }
        self.allow(.doubled, upTo: self.countInLog("possible resends delivered") + unknownCount)
        self.allow(.falselyRejected, upTo: unknownCount)
        if self.fault.isOutage { self.allow(.lostBeforeEnd, upTo: self.countInLog("not delivered")) }
    }

    /// The number of notifications in lines with this message.
    private func countInLog(_ message: String) -> Int {
        self.log.lazy.filter { $0.contains("\"message\":\"\(message)\"") }.reduce(0) { sum, line in
            let count = line.firstMatch(of: /"apns.legacy.notifications.resent.possible":"([0-9]+)"/).flatMap {
                Int($0.1)
            }
            return sum + (count ?? 1)
        }
    }

    private mutating func allow(_ violation: Violation, upTo count: Int) {
        if let numbers = self.violations[violation], numbers.count <= count { self.violations[violation] = nil }
    }

    private mutating func note(_ violation: Violation, _ number: UInt32) {
        self.violations[violation, default: []].insert(number)
    }

    private func isDelivered(_ number: UInt32) -> Bool { self.requests[number]?.contains(where: \.isTaken) ?? false }

    private func isRejected(_ number: UInt32) -> Bool {
        self.requests[number]?.contains { $0.status == 400 } ?? false
    }

    private func isSettled(_ number: UInt32) -> Bool { self.isDelivered(number) || self.isRejected(number) }

    private mutating func check(_ record: ClientRecord) {
        let writes = Dictionary(grouping: record.writes, by: \.number)
        self.counts.written += writes.count
        for number in record.unwritten where !self.isSettled(number) { self.note(.unwritten, number) }
        for (number, writes) in writes.sorted(by: { $0.key < $1.key }) {
            self.checkDuplicates(number, writes)
            let belief = record.beliefs[number] ?? .unknown
            if case .accepted = belief { self.counts.toldAccepted += 1 }
            self.checkRejection(number, belief)
            guard !self.isSettled(number) else { continue }
            self.counts.lost += 1
            if let violation = self.violation(of: belief, writes, record) { self.note(violation, number) }
        }
        self.checkEndings(record)
        if self.habits.reading == .never { self.checkUnread(record) }
    }

    private mutating func checkRejection(_ number: UInt32, _ belief: ClientRecord.Belief) {
        guard case .rejected(let status, isUnique: true) = belief, !self.isRejected(number) else { return }
        if self.mayFail(status), !self.isDelivered(number) {
            self.counts.toldFailed += 1
        } else {
            self.note(.falselyRejected, number)
        }
    }

    /// Whether the gateway may name a notification with this status that the service did not reject.
    private func mayFail(_ status: UInt8) -> Bool { status == 1 && (self.fault == .terminate || self.fault.isOutage) }

    private mutating func checkDuplicates(_ number: UInt32, _ writes: [ClientRecord.Write]) {
        let written = writes.filter { !$0.isFailed }
        self.counts.resentAsTold += written.count { $0.reason == .toldToResend }
        self.counts.resentUnproved += written.count { $0.reason == .unproved }
        let taken = (self.requests[number] ?? []).filter(\.isTaken)
        let count = Set(taken.map(\.identifier)).count
        if count > 1 { self.counts.doubled += 1 }
        if count > written.count(where: { $0.reason != .toldToResend }) { self.note(.doubled, number) }
        guard taken.count > count else { return }
        self.counts.repeatedRequests += taken.count - count
        if self.fault != .lostAnswer, self.fault != .lostService { self.note(.repeatedRequest, number) }
    }

    /// Why a notification may not be lost; `nil` if it may, or if ``checkUnread(_:)`` decides.
    private func violation(
        of belief: ClientRecord.Belief,
        _ writes: [ClientRecord.Write],
        _ record: ClientRecord
    ) -> Violation? {
        switch belief {
        case .accepted(status: 10, _), .accepted(_, isUnique: true): return .lostThoughAccepted
        // With an identifier that the client used several times, it cannot place a rejection.
        case .accepted: return nil
        // The service rejected another one.
        case .rejected(_, isUnique: false): return nil
        case .rejected(let status, _): return self.mayFail(status) ? nil : .lost
        case .abandoned(.tooManyAttempts): return .lost
        case .abandoned(.notKept), .abandoned(.unknownIdentifier): return self.habits.isConforming ? .lost : nil
        case .unknown:
            if self.habits.reading == .never { return nil }
            if self.habits.isConforming { return .lost }
            let connection = writes.last?.connection
            let isInDoubt = record.endings.contains { $0.connection == connection && $0.response == nil }
            return isInDoubt ? nil : .lost
        }
    }

    private mutating func checkEndings(_ record: ClientRecord) {
        for ending in record.endings {
            guard let response = ending.response, response.status == .shutdown else { continue }
            if ending.useCount > 1 { self.note(.ambiguousShutdown, response.identifier) }
            if ending.isSettled { self.note(.needlessShutdown, response.identifier) }
        }
    }

    // MARK: Clients that never read

    private mutating func checkUnread(_ record: ClientRecord) {
        let last = record.writes.last?.number
        for (_, writes) in Dictionary(grouping: record.writes, by: \.connection) {
            let written = writes.filter { !$0.isFailed }
            let closesItself = self.habits.halfClosesAfter != nil && writes.last?.isFailed == false
            // What it wrote before it closed the connection has arrived.
            let delivered = closesItself ? written.count - 1 : written.lastIndex { self.isSettled($0.number) } ?? -1
            let gaps = written.prefix(delivered + 1).filter { !self.isSettled($0.number) }
            let end = written[(delivered + 1)...]
            if gaps.count > self.gapCountMax { for gap in gaps { self.note(.lostBeforeEnd, gap.number) } }
            guard let first = end.first, let final = writes.last else { continue }
            if !self.endsConnections { for write in end { self.note(.lost, write.number) } }
            // Otherwise nothing is left that it could write.
            if !final.isFailed, final.number != last { self.note(.lostWithoutReset, first.number) }
            guard self.fault != .kill else { continue }
            if self.habits.isIdleDuringFault { self.note(.lostWhenIdle, first.number) }
            if self.habits.pause > 0, final.instant - first.instant > Self.lossDurationMax {
                self.note(.lostLongBefore, first.number)
            }
            guard self.fault == .terminate else { continue }
            let signal = self.signals.first { $0 > written[0].instant }
            for write in end where signal.map({ write.instant < $0 }) ?? true {
                self.note(.lostAfterArrival, write.number)
            }
        }
    }

    /// Whether the fault ends connections of clients that never read.
    private var endsConnections: Bool {
        switch self.fault {
        case .terminate, .kill, .outage, .lostService: true
        case .reload, .badToken, .lostAnswer: false
        }
    }

    /// The most notifications that may be lost before others of the same connection that were delivered.
    private var gapCountMax: Int {
        switch self.fault {
        // What the gateway had read; of a client that has closed its connection, everything.
        case .kill: self.habits.halfClosesAfter ?? self.inFlightCountMax
        // Each is in the log.
        case .outage, .lostService: self.log.count { $0.contains("\"message\":\"not delivered\"") }
        case .terminate, .reload, .badToken, .lostAnswer: 0
        }
    }
}
