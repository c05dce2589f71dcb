// SPDX-License-Identifier: Apache-2.0

import APNSSession
import DequeModule

/// Recognizes resends of notifications that were already delivered.
///
/// A provider that receives an error response assumes that everything after the named message was discarded, and
/// resends it. Each entry in here stands for one such resend, which is not to be delivered. An entry is removed by the
/// resend or when it expires.
///
/// A message with the key of an entry is its resend. A message that differs from it only in the expiry is its resend if
/// the expiry has moved by the time that has passed, and the message is part of a ``ResendRun``.
struct ResendDeduplicator {
    /// A message of a provider.
    struct Message {
        var key: ResendKey
        /// Its lifetime; `nil` without an expiry.
        var lifetime: ExpectedResend.Lifetime?
        var delivery: DeliveryNumber
        var origin: DeliveryOrigin
    }

    /// What a message is.
    enum Match: Hashable {
        /// It is no resend: deliver it.
        case new
        /// It may be a resend, but that is not certain: deliver it.
        case possible
        /// It is the resend of this one: do not deliver it.
        case resend(ExpectedResend, hasNewExpiry: Bool)
        /// Hold it until the run of its connection is certain, or ended; with the first one, start the timer.
        case held(isFirst: Bool)
    }

    /// What to do about held messages, and what to log.
    struct Resolution {
        /// Held messages that are resends.
        var resent: [(delivery: DeliveryNumber, resend: ExpectedResend)] = []
        /// Held messages to deliver.
        var released: [DeliveryNumber] = []
        var report: ResendCounts?
    }

    /// An error response, after which messages are resent.
    private struct Response {
        /// The number of the last connection that was opened before it.
        var lastConnection: UInt64
        /// When its connection closed; `nil` while it is open.
        var closedAt: Duration?
        /// Whether it names the message before the first place, which some providers resend and others do not.
        var namesFirst: Bool
        /// The number of the first entry; the others follow in the order of their places.
        var firstSerial: Int
        /// The places of the entries, including removed ones.
        var indices: [Int64]
        /// The number of entries that are left.
        var count: Int

        /// The number of the entry in a place.
        func serial(at index: Int64) -> Int? {
            var (low, high) = (0, self.indices.count)
            while low < high {
                let middle = (low + high) / 2
                if self.indices[middle] < index { low = middle + 1 } else { high = middle }
            }
            return low < self.indices.count && self.indices[low] == index ? self.firstSerial + low : nil
        }
    }

    /// Below this number of entries, removed ones are not cleaned up.
    private static let compactionCountMin = 1024
    /// The maximum number of equal entries among which the one in the right place is sought.
    private static let equalCountMax = 16

    private let rules: ResendRunRules
    private var countMax: Int
    private var duration: Duration
    private var entries: [Int: ExpectedResend] = [:]
    /// The entries with each key, the oldest first.
    private var byKey: [ResendKey: Deque<Int>] = [:]
    /// The entries with each content, the oldest first.
    private var byContent: [ResendKey: Deque<Int>] = [:]
    /// All entries in order of arrival, including removed ones.
    private var ages: Deque<(serial: Int, since: Duration)> = []
    private var responses: [Int64: Response] = [:]
    /// The error response of each open connection that has one.
    private var openResponses: [UInt64: Int64] = [:]
    private var runs: [UInt64: ResendRun] = [:]
    /// The number of the last entry.
    private(set) var lastSerial = 0
    private var lastResponse: Int64 = 0
    /// The last error responses of all gateways, and their times in order.
    private var seen: Set<Int64> = []
    private var seenAges: Deque<(response: Int64, since: Duration)> = []
    private var lastConnection: UInt64 = 0

    /// The number of resends that did not arrive in time.
    private(set) var expiredCount: UInt64 = 0
    /// The number of delivered messages that may be resends.
    private(set) var possibleCount: UInt64 = 0

    init(countMax: Int, duration: Duration, rules: ResendRunRules = ResendRunRules()) {
        self.countMax = max(0, countMax)
        self.duration = duration
        self.rules = rules
    }

    /// Changes the limits for resends that are added from now on.
    mutating func bound(countMax: Int, duration: Duration) {
        self.countMax = max(0, countMax)
        self.duration = duration
    }

    /// The number of expected resends.
    var count: Int { self.entries.count }

    /// Whether a message of a connection may be a resend, or ends a run.
    func concerns(_ connection: UInt64) -> Bool {
        !self.entries.isEmpty || !self.runs.isEmpty && self.runs[connection] != nil
    }

    /// The number of error responses that are known, including those whose resends have all arrived.
    var seenCount: Int { self.seen.count }

    /// Whether there is room for this many more.
    mutating func hasRoom(for count: Int, now: Duration) -> Bool {
        self.expire(now: now)
        return count == 0 || count <= self.countMax - self.count
    }

    /// Assigns a number to an error response.
    mutating func numberResponse() -> Int64 {
        self.lastResponse &+= 1
        return self.lastResponse
    }

    /// Adds expected resends, either all or none.
    ///
    /// Returns whether there was room.
    mutating func insert(
        _ resends: some Collection<ExpectedResend>,
        of connection: UInt64?,
        namesFirst: Bool = false,
        now: Duration
    ) -> Bool {
        guard self.hasRoom(for: resends.count, now: now) else { return false }
        self.add(resends, of: connection, namesFirst: namesFirst, now: now)
        return true
    }

    private mutating func add(
        _ resends: some Collection<ExpectedResend>,
        of connection: UInt64?,
        namesFirst: Bool,
        now: Duration
    ) {
        // Removed entries keep their places until all earlier ones are removed, so one that is never resent blocks
        // many.
        if self.ages.count > 2 * self.countMax + Self.compactionCountMin {
            self.ages.removeAll { self.entries[$0.serial] == nil }
        }
        for resend in resends {
            self.lastSerial += 1
            self.entries[self.lastSerial] = resend
            self.byKey[resend.key, default: []].append(self.lastSerial)
            if let lifetime = resend.lifetime { self.byContent[lifetime.content, default: []].append(self.lastSerial) }
            self.ages.append((self.lastSerial, now))
            guard let place = resend.place else { continue }
            let new = Response(
                lastConnection: self.lastConnection,
                closedAt: connection == nil ? now : nil,
                namesFirst: namesFirst,
                firstSerial: self.lastSerial,
                indices: [],
                count: 0
            )
            self.responses[place.response, default: new].indices.append(place.index)
            self.responses[place.response]?.count += 1
            self.lastResponse = max(self.lastResponse, place.response)
            if self.seen.insert(place.response).inserted { self.seenAges.append((place.response, now)) }
            if let connection { self.openResponses[connection] = place.response }
        }
    }

    /// Takes over what a store has that several gateways share: removes the entries that another gateway has claimed,
    /// and adds those of error responses of other gateways.
    ///
    /// Entries after `serial`, the last one when the store was asked, are younger than its answer. All entries of an
    /// error response are in the store at once; so those of a known one that are not in memory were claimed here.
    mutating func merge(_ resends: [ExpectedResend], since serial: Int, now: Duration) {
        self.expire(now: now)
        let stored = Set(resends.lazy.compactMap(\.place))
        for (number, entry) in self.entries where number <= serial && !(entry.place.map(stored.contains) ?? true) {
            _ = self.remove(number)
        }
        let new = resends.filter { resend in resend.place.map { !self.seen.contains($0.response) } ?? false }
        self.add(new, of: nil, namesFirst: false, now: now)
    }

    // MARK: Connections

    /// Records that a connection was opened; the numbers of connections increase.
    mutating func open(_ connection: UInt64) { self.lastConnection = max(self.lastConnection, connection) }

    /// Records that a connection has closed.
    mutating func close(_ connection: UInt64, now: Duration) -> Resolution {
        if let response = self.openResponses.removeValue(forKey: connection) {
            self.responses[response]?.closedAt = now
        }
        var resolution = self.endRun(of: connection)
        resolution.report = self.runs[connection]?.report(isLast: true)
        self.runs[connection] = nil
        return resolution
    }

    /// Ends the run of a connection unless it is certain.
    mutating func endRun(of connection: UInt64) -> Resolution {
        var resolution = Resolution()
        guard var run = self.runs[connection] else { return resolution }
        resolution.released = run.end()
        self.possibleCount += UInt64(resolution.released.count)
        self.runs[connection] = run
        return resolution
    }

    // MARK: Messages

    /// Determines what a message is.
    ///
    /// Returns what it is, and what follows for messages that were held before it.
    mutating func classify(_ message: Message, now: Duration) -> (match: Match, resolution: Resolution) {
        self.expire(now: now)
        let connection = message.origin.connection
        let known = self.runs.removeValue(forKey: connection)
        var run = known ?? ResendRun()
        var resolution = Resolution()
        var match = Match.new
        let index = Int64(clamping: message.origin.number) - 1
        if case .candidate(let candidate) = run.phase, candidate.next != index - candidate.precedingCount {
            self.end(&run, &resolution)
        }
        if let found = self.exact(message, index, run, now: now) {
            let resend = self.remove(found.serial)
            match = .resend(resend, hasNewExpiry: false)
            run.count { $0.resent += 1 }
            if found.isInPlace {
                self.proceed(&run, resend, index, held: nil)
            } else {
                self.skip(&run, index, &resolution)
            }
        } else if let serial = self.moved(message, index, run, now: now), let resend = self.entries[serial] {
            if case .certain = run.phase {
                _ = self.remove(serial)
                match = .resend(resend, hasNewExpiry: true)
                run.count { ($0.resent, $0.resentWithNewExpiry) = ($0.resent + 1, $0.resentWithNewExpiry + 1) }
                self.proceed(&run, resend, index, held: nil)
            } else {
                match = self.hold(message, serial, resend, index, &run)
            }
        } else {
            self.skip(&run, index, &resolution)
            if let lifetime = message.lifetime, self.byContent[lifetime.content] != nil { match = .possible }
        }
        if case .possible = match {
            self.possibleCount += 1
            run.count { $0.possible += 1 }
        }
        self.settleHeld(&run, &resolution)
        // This message may be among those that the run was waiting for.
        if let last = resolution.resent.last, last.delivery == message.delivery {
            resolution.resent.removeLast()
            match = .resend(last.resend, hasNewExpiry: true)
        } else if resolution.released.last == message.delivery {
            resolution.released.removeLast()
            match = .possible
        }
        if case .new = match { resolution.report = run.report(isLast: false) }
        if known != nil || match != .new, !self.entries.isEmpty || !run.isSpent { self.runs[connection] = run }
        return (match, resolution)
    }

    /// Finds the entry that a message with the key of an entry stands for: the one with the key in the right place,
    /// the one in the right place whose expiry has moved to that of a later one, or the oldest with the key.
    private func exact(_ message: Message, _ index: Int64, _ run: ResendRun, now: Duration)
        -> (serial: Int, isInPlace: Bool)?
    {
        guard let serials = self.byKey[message.key], let oldest = serials.first else { return nil }
        let serial =
            self.inPlace(serials, index, run, message.origin.connection, now: now) { _ in true }
            ?? self.moved(message, index, run, now: now)
        return (serial ?? oldest, serial != nil)
    }

    /// Finds the entry in the right place with the content of a message and an expiry that has moved with the time.
    private func moved(_ message: Message, _ index: Int64, _ run: ResendRun, now: Duration) -> Int? {
        guard let lifetime = message.lifetime, let serials = self.byContent[lifetime.content] else { return nil }
        return self.inPlace(serials, index, run, message.origin.connection, now: now) { entry in
            guard let known = entry.lifetime?.milliseconds else { return false }
            let (difference, isOver) = known.subtractingReportingOverflow(lifetime.milliseconds)
            return !isOver && difference.magnitude <= self.rules.toleranceMilliseconds.magnitude
        }
    }

    /// Finds the entry that a run continues or begins with.
    private func inPlace(
        _ serials: Deque<Int>,
        _ index: Int64,
        _ run: ResendRun,
        _ connection: UInt64,
        now: Duration,
        where isEqual: (ExpectedResend) -> Bool
    ) -> Int? {
        func isIn(_ serial: Int, _ isRight: (ExpectedResend.Place) -> Bool) -> Bool {
            guard let entry = self.entries[serial], let place = entry.place else { return false }
            return isRight(place) && isEqual(entry)
        }
        switch run.phase {
        case .idle:
            return serials.suffix(Self.equalCountMax).last { serial in
                isIn(serial) { self.mayBegin($0, index, connection, now: now) }
            }
        case .candidate(let candidate):
            let isHeld = Set(candidate.held.map(\.serial))
            return serials.prefix(Self.equalCountMax).first { serial in
                !isHeld.contains(serial)
                    && isIn(serial) { place in
                        place.response == candidate.response && self.rules.mayFollow(place.index, candidate.next)
                    }
            }
        case .certain(let response, let next):
            return serials.prefix(Self.equalCountMax).first { serial in
                isIn(serial) { $0.response == response && $0.index >= next }
            }
        case .over: return nil
        }
    }

    /// Whether a run may begin with a message: it is the first of its connection, as far as those before it were not
    /// delivered, and resends are still likely.
    private func mayBegin(_ place: ExpectedResend.Place, _ index: Int64, _ connection: UInt64, now: Duration) -> Bool {
        guard let response = self.responses[place.response], let first = response.indices.first,
            self.rules.mayFollow(place.index, index)
                || response.namesFirst && self.rules.mayFollow(place.index, index - 1),
            self.rules.mayBegin(place.index, first),
            response.indices.count >= self.rules.distinctCountMin
        else { return false }
        let isInTime = response.closedAt.map { now <= $0 + self.rules.startDelayMax } ?? true
        return isInTime && self.rules.isLater(connection, response.lastConnection)
    }

    /// Records that a message is in its place.
    private func proceed(_ run: inout ResendRun, _ resend: ExpectedResend, _ index: Int64, held: ResendRun.Held?) {
        guard let place = resend.place else { return }
        switch run.phase {
        case .idle:
            let precedingCount: Int64 = self.rules.mayFollow(place.index, index) ? 0 : 1
            run.phase = .candidate(
                ResendRun.Candidate(response: place.response, next: place.index, precedingCount: precedingCount)
            )
        case .candidate: break
        case .certain(let response, _):
            run.phase = .certain(response: response, next: place.index &+ 1)
            return
        case .over: return
        }
        guard case .candidate(var candidate) = run.phase else { return }
        candidate.next += 1
        candidate.contents.insert(resend.lifetime?.content ?? resend.key)
        if let held { candidate.held.append(held) }
        run.phase = .candidate(candidate)
    }

    private func hold(
        _ message: Message,
        _ serial: Int,
        _ resend: ExpectedResend,
        _ index: Int64,
        _ run: inout ResendRun
    ) -> Match {
        let isFirst = if case .candidate(let candidate) = run.phase { candidate.held.isEmpty } else { true }
        self.proceed(&run, resend, index, held: ResendRun.Held(delivery: message.delivery, serial: serial))
        return .held(isFirst: isFirst)
    }

    /// Records a message that is no resend in its place: it is permitted only where nothing was delivered.
    private mutating func skip(_ run: inout ResendRun, _ index: Int64, _ resolution: inout Resolution) {
        guard case .candidate(var candidate) = run.phase else { return }
        let response = self.responses[candidate.response]
        let place = index - candidate.precedingCount
        let isLast = response?.indices.last.map { place > $0 } ?? true
        guard !isLast, response?.serial(at: place).flatMap({ self.entries[$0] }) == nil else {
            return self.end(&run, &resolution)
        }
        candidate.next += 1
        run.phase = .candidate(candidate)
    }

    private mutating func end(_ run: inout ResendRun, _ resolution: inout Resolution) {
        let released = run.end()
        self.possibleCount += UInt64(released.count)
        resolution.released += released
    }

    /// Decides about held messages.
    private mutating func settleHeld(_ run: inout ResendRun, _ resolution: inout Resolution) {
        guard case .candidate(let candidate) = run.phase else { return }
        guard candidate.contents.count >= self.rules.distinctCountMin else {
            if candidate.held.count >= self.rules.heldCountMax { self.end(&run, &resolution) }
            return
        }
        run.phase = .certain(response: candidate.response, next: candidate.next)
        for held in candidate.held {
            // Another connection may have sent it meanwhile.
            guard self.entries[held.serial] != nil else {
                self.possibleCount += 1
                run.count { $0.possible += 1 }
                resolution.released.append(held.delivery)
                continue
            }
            run.count { ($0.resent, $0.resentWithNewExpiry) = ($0.resent + 1, $0.resentWithNewExpiry + 1) }
            resolution.resent.append((held.delivery, self.remove(held.serial)))
        }
    }

    // MARK: Entries

    private mutating func remove(_ serial: Int) -> ExpectedResend {
        guard let entry = self.entries.removeValue(forKey: serial) else {
            preconditionFailure("An expected resend was removed twice.")
        }
        Self.remove(serial, from: &self.byKey, entry.key)
        if let lifetime = entry.lifetime { Self.remove(serial, from: &self.byContent, lifetime.content) }
        if let response = entry.place?.response {
            self.responses[response]?.count -= 1
            if self.responses[response]?.count == 0 { self.responses[response] = nil }
        }
        if self.entries.isEmpty { self.ages = [] }
        return entry
    }

    private static func remove(_ serial: Int, from list: inout [ResendKey: Deque<Int>], _ key: ResendKey) {
        guard let index = list[key]?.firstIndex(of: serial) else { return }
        list[key]?.remove(at: index)
        if list[key]?.isEmpty == true { list[key] = nil }
    }

    private mutating func expire(now: Duration) {
        // In a shared store, the rows of older ones have expired.
        while let first = self.seenAges.first, first.since + self.duration * 2 < now {
            self.seen.remove(first.response)
            self.seenAges.removeFirst()
        }
        while let first = self.ages.first {
            if self.entries[first.serial] != nil {
                guard first.since + self.duration <= now else { return }
                _ = self.remove(first.serial)
                self.expiredCount += 1
                // Removing the last one removes all ages.
                if self.ages.isEmpty { return }
            }
            self.ages.removeFirst()
        }
    }
}
