// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSWire
import NIOCore
import TestSupport

@testable import APNSGateway

/// A random walk of providers that compute the expiry of a notification when they write it.
///
/// Each round has a connection with an error response, and what the provider writes afterwards: resends, or new
/// notifications with the same texts.
struct ResendRunWalk {
    /// What a provider writes after an error response.
    enum Habit: CaseIterable {
        // Resends.
        case all, lastOnes, mixedWithNewOnes, onTwoConnections, onOlderConnection
        // New notifications, although they look like resends.
        case onlyFirst, everythingAgain, later, withOtherLifetime, afterNewOnes, inOtherOrder, onOlderConnectionAnew,
            oneText

        var isResend: Bool {
            switch self {
            case .all, .lastOnes, .mixedWithNewOnes, .onTwoConnections, .onOlderConnection: true
            case .onlyFirst, .everythingAgain, .later, .withOtherLifetime, .afterNewOnes, .inOtherOrder,
                .onOlderConnectionAnew, .oneText:
                false
            }
        }
    }

    /// A notification that the provider writes: its text, and the lifetime that it computes the expiry with.
    private struct Mail {
        var text: Int
        var lifetime: UInt32
    }

    private enum Decision { case delivered, resent, held }

    private let rules: ResendRunRules
    private var random: SplitMix64
    private var deduplicator: ResendDeduplicator
    private var now = Duration.seconds(1)
    private var lastConnection: UInt64 = 0
    private var lastDelivery: UInt64 = 0
    private var lastText = 0
    private var decisions: [DeliveryNumber: (text: Int, decision: Decision)] = [:]
    /// When the hold of a connection ends.
    private var holds: [UInt64: Duration] = [:]
    private var numbers: [UInt64: UInt64] = [:]
    /// The expected resends that were not used, as they are on the disk.
    private var stored: [ExpectedResend] = []
    /// How often each text was recorded as expected, and resent.
    private var (expected, resent): ([Int: Int], [Int: Int]) = ([:], [:])

    init(seed: UInt64, rules: ResendRunRules = ResendRunRules()) {
        self.rules = rules
        self.random = SplitMix64(seed: seed)
        self.deduplicator = ResendDeduplicator(countMax: 10_000, duration: .seconds(120), rules: rules)
    }

    private static let start: Int64 = 1_800_000_000_000

    private var milliseconds: Int64 { Self.start + Int64(self.now / .milliseconds(1)) }

    /// Runs the walk, and returns the error, or `nil`.
    mutating func run() throws -> String? {
        for _ in 0..<3 {
            guard let habit = Habit.allCases.randomElement(using: &self.random) else { continue }
            if let violation = try self.round(habit) { return "\(habit): \(violation)" }
            if self.random.chance(50) { self.pass(.seconds(self.random.below(200))) }
        }
        return nil
    }

    private mutating func round(_ habit: Habit) throws -> String? {
        let lifetime = UInt32(3600 + self.random.below(100) * 60)
        // The text of all notifications if they have the same.
        self.lastText += 1
        let count = 8 + self.random.below(20)
        let mails = (0..<count).map { _ in self.mail(lifetime, isNew: habit != .oneText) }
        let (bad, taken) = (self.random.below(3), count - self.random.below(3))
        let older = habit == .onOlderConnection || habit == .onOlderConnectionAnew ? self.open() : nil
        let told = self.open()
        var arrivals: [Int64] = []
        for _ in mails {
            self.pass(.milliseconds(self.random.below(30)))
            arrivals.append(self.milliseconds)
        }
        var delivered: [Int] = []
        for index in (bad + 1)..<taken where !habit.isResend || self.random.chance(85) { delivered.append(index) }
        let response = self.deduplicator.numberResponse()
        let resends = try delivered.map { index in
            // The provider computed the expiry up to 0.9 seconds before the gateway read it.
            let content = try Self.content(mails[index], at: arrivals[index] - Int64(self.random.below(900)))
            self.expected[mails[index].text, default: 0] += 1
            return ExpectedResend(
                key: content.key,
                place: .init(response: response, index: Int64(index - bad - 1)),
                lifetime: content.lifetime(arrivedAt: arrivals[index])
            )
        }
        guard self.deduplicator.insert(resends, of: told, now: self.now) else { return "no room" }
        self.stored += resends
        if self.random.chance(50) { self.close(told) }
        // At least a second later, so that the expiry of new ones differs.
        self.pass(.milliseconds(1000 + self.random.below(habit == .later ? 1 : 5000)))
        self.close(told)
        if self.random.chance(20), older == nil { self.restart() }
        if habit == .later { self.pass(.seconds(20 + self.random.below(60))) }
        let possibleBefore = self.deduplicator.possibleCount
        let deliveredBefore = self.decisions.count
        try self.write(habit, mails, bad: bad, older: older)
        let possible = Int(self.deduplicator.possibleCount - possibleBefore)
        guard self.decisions.count > deliveredBefore else { return nil }
        return self.violation(habit, delivered.map { mails[$0] }, mails, bad: bad, possible: possible)
    }

    private mutating func mail(_ lifetime: UInt32, isNew: Bool = true) -> Mail {
        if isNew { self.lastText += 1 }
        return Mail(text: self.lastText, lifetime: lifetime)
    }

    /// The provider writes after the error response, and closes.
    private mutating func write(_ habit: Habit, _ mails: [Mail], bad: Int, older: UInt64?) throws {
        let tail = Array(mails[(bad + 1)...])
        let connection = older ?? self.open()
        var other: UInt64?
        var sequence = tail
        switch habit {
        case .all, .onOlderConnection, .onOlderConnectionAnew, .later, .oneText: break
        case .lastOnes: sequence = Array(tail.suffix(1 + self.random.below(tail.count)))
        case .mixedWithNewOnes:
            for _ in 0..<3 { sequence.insert(self.mail(tail[0].lifetime), at: self.random.below(sequence.count)) }
        case .onTwoConnections: other = self.open()
        case .onlyFirst: sequence = Array(tail.prefix(1 + self.random.below(4)))
        case .everythingAgain: sequence = mails
        case .withOtherLifetime:
            let shift = UInt32(4 + self.random.below(100))
            sequence = tail.map { Mail(text: $0.text, lifetime: $0.lifetime + shift) }
        case .afterNewOnes: for index in 0..<2 { sequence[index] = self.mail(tail[0].lifetime) }
        case .inOtherOrder: sequence = [tail[0]] + tail.dropFirst().reversed()
        }
        for mail in sequence {
            let target = self.random.chance(50) ? other ?? connection : connection
            self.pass(.milliseconds(self.random.below(30)))
            try self.take(mail, on: target)
        }
        if self.random.chance(50) { self.pass(.seconds(3)) }
        for connection in [connection, other].compactMap(\.self) { self.close(connection) }
    }

    private func violation(_ habit: Habit, _ delivered: [Mail], _ mails: [Mail], bad: Int, possible: Int) -> String? {
        var counts: [Int: (delivered: Int, resent: Int)] = [:]
        for (text, decision) in self.decisions.values {
            switch decision {
            case .delivered: counts[text, default: (0, 0)].delivered += 1
            case .resent: counts[text, default: (0, 0)].resent += 1
            case .held: return "a message is held for ever"
            }
        }
        let texts = Set(delivered.map(\.text))
        let lost = texts.reduce(0) { $0 + (counts[$1]?.resent ?? 0) }
        for text in texts where (counts[text]?.resent ?? 0) > self.expected[text, default: 0] { return "used twice" }
        guard habit.isResend else { return lost > 0 ? "\(lost) new ones were not delivered" : nil }
        let doubled = texts.reduce(0) { $0 + (counts[$1]?.delivered ?? 0) }
        if doubled > possible { return "\(doubled) were delivered twice, \(possible) of them logged" }
        let isCertain = habit == .all && texts.count >= 5
        if isCertain, doubled > 0 { return "\(doubled) of \(texts.count) were delivered twice" }
        for mail in mails[(bad + 1)...] where !texts.contains(mail.text) && counts[mail.text]?.resent ?? 0 > 0 {
            return "a notification that was not delivered counts as resent"
        }
        return nil
    }
}

// MARK: - The gateway

extension ResendRunWalk {
    private static func content(_ mail: Mail, at milliseconds: Int64) throws -> ResendContent {
        ResendContent(
            token: try DeviceToken(bytes: [1, 2, 3]),
            payload: ByteBuffer(string: "\(mail.text)"),
            expiry: UInt32(milliseconds / 1000) + mail.lifetime,
            priority: nil
        )
    }

    private mutating func pass(_ duration: Duration) {
        self.now += duration
        for (connection, end) in self.holds where end <= self.now {
            self.holds[connection] = nil
            self.carryOut(self.deduplicator.endRun(of: connection))
        }
    }

    private mutating func open() -> UInt64 {
        self.lastConnection += 1
        self.deduplicator.open(self.lastConnection)
        return self.lastConnection
    }

    private mutating func close(_ connection: UInt64) {
        self.holds[connection] = nil
        self.carryOut(self.deduplicator.close(connection, now: self.now))
    }

    /// The process ends, and another one reads what is on the disk.
    private mutating func restart() {
        self.deduplicator = ResendDeduplicator(countMax: 10_000, duration: .seconds(120), rules: self.rules)
        _ = self.deduplicator.insert(self.stored, of: nil, now: self.now)
        self.lastConnection = 0
        self.numbers = [:]
    }

    private mutating func take(_ mail: Mail, on connection: UInt64) throws {
        self.lastDelivery += 1
        self.numbers[connection, default: 0] += 1
        let delivery = DeliveryNumber(rawValue: self.lastDelivery)
        let content = try Self.content(mail, at: self.milliseconds)
        let message = ResendDeduplicator.Message(
            key: content.key,
            lifetime: content.lifetime(arrivedAt: self.milliseconds),
            delivery: delivery,
            origin: DeliveryOrigin(connection: connection, number: self.numbers[connection] ?? 1)
        )
        let (match, resolution) = self.deduplicator.classify(message, now: self.now)
        switch match {
        case .new, .possible: self.decisions[delivery] = (mail.text, .delivered)
        case .resend(let resend, _):
            self.decisions[delivery] = (mail.text, .resent)
            self.forget(resend)
        case .held(let isFirst):
            self.decisions[delivery] = (mail.text, .held)
            if isFirst { self.holds[connection] = self.now + self.rules.holdDuration }
        }
        self.carryOut(resolution)
    }

    private mutating func carryOut(_ resolution: ResendDeduplicator.Resolution) {
        for delivery in resolution.released { self.decisions[delivery]?.decision = .delivered }
        for (delivery, resend) in resolution.resent {
            self.decisions[delivery]?.decision = .resent
            self.forget(resend)
        }
    }

    private mutating func forget(_ resend: ExpectedResend) {
        if let index = self.stored.firstIndex(of: resend) { self.stored.remove(at: index) }
    }
}
