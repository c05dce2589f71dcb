// SPDX-License-Identifier: Apache-2.0

import APNSHTTP2
import APNSSession
import APNSWire
import NIOCore
import TestSupport

@testable import APNSGateway

/// A walk of a provider's machine, the gateway's machines and a model of the service together, in which chance decides
/// what happens next.
struct BridgeWalk {
    /// One connection of the provider with all that is on its way on it.
    final class Line {
        struct Message {
            /// The provider's number of the notification; `nil` for a probe.
            var number: UInt64?
            var identifier: UInt32
        }

        let number: ConnectionNumber
        var session: GatewaySession
        var messages: [Message] = []
        var readCount = 0
        var isReading = true
        var isOver = false
        var hasVanished = false
        var isEndDue = false
        var answer: ErrorResponse?
        /// Verdicts on their way to the session.
        var inbox: [(number: UInt64, verdict: Verdict)] = []
        /// The provider's numbers of what was handed on, in order.
        var handedOn: [UInt64] = []

        init(_ number: ConnectionNumber, inFlightCountMax: Int) {
            self.number = number
            self.session = GatewaySession(inFlightCountMax: inFlightCountMax)
        }
    }

    /// A notification on its way to the service.
    struct Airborne {
        var flight: Flight
        var request: PushRequest
        var origin: FlightOrigin
        var content: Int
        /// When the next try goes out; `nil` while one is out.
        var dueAt: Duration?
    }

    let mutant: BridgeMutant?
    var session: ProviderSession
    var ledger: DeliveryLedger
    var gate = IdentityGate()
    var upstream: UpstreamModel
    var random: SplitMix64
    var now = Duration.zero
    var connecting: [ConnectionNumber] = []
    var lines: [ConnectionNumber: Line] = [:]
    var airborne: [FlightNumber: Airborne] = [:]
    var settlements: [Settlement] = []
    /// Contents of which a notification was dropped on purpose, since its token is throttled.
    var dropped: [Int: Int] = [:]
    var swallowedCount: UInt64 { self.ledger.swallowedCount }
    private(set) var ending: ProviderEnding?

    /// How flights ended.
    private(set) var causes: Set<FlightEnding.Cause> = []

    private let token: DeviceToken
    private let notificationCount: UInt64
    /// How many different contents there are; the service and the gateway cannot tell notifications of one apart.
    private let contentCount: Int
    private let inFlightCountMax: Int
    private var cutBudget: Int

    private static let roundCountMax = 200_000

    init(seed: UInt64, mutant: BridgeMutant? = nil) throws {
        self.mutant = mutant
        self.token = try DeviceToken(octets: [1, 2, 3])
        self.random = SplitMix64(seed: seed)
        var limits = ProviderLimits()
        limits.policy = self.random.chance(50) ? .atLeastOnce : .atMostOnce
        limits.windowCount = UInt64(1 + self.random.below(self.random.chance(30) ? 5 : 60))
        limits.invalidTokenRunCountMax = 0
        limits.fruitlessConnectionCountMax = 200
        limits.refusedConnectionCountMax = 200
        // A probe without an answer is a fault, so the walk must not end without it.
        limits.answerDelayMax = .seconds(100_000_000)
        self.session = ProviderSession(limits: limits)
        self.notificationCount = UInt64(1 + self.random.below(self.random.chance(80) ? 30 : 120))
        self.contentCount = self.random.chance(70) ? Int(self.notificationCount) : 1 + self.random.below(8)
        self.inFlightCountMax = [1, 2, 5, 20, 1000][self.random.below(5)]
        self.cutBudget = self.random.chance(70) ? 0 : self.random.below(4)
        var faults = UpstreamModel.Faults()
        faults.badPercent = self.random.chance(20) ? 0 : self.random.below(40)
        faults.deadPercent = self.random.below(20)
        faults.budget = self.random.chance(30) ? 0 : self.random.below(20)
        self.upstream = UpstreamModel(faults: faults, random: SplitMix64(seed: ~seed))
        let swallowSet =
            switch mutant {
            case .remembersNothing: SwallowSet(countMax: 0)
            case .remembersTooFew: SwallowSet(countMax: 1)
            case .remembersTooShortly: SwallowSet(duration: .milliseconds(1))
            default: SwallowSet(duration: .seconds(1_000_000))
            }
        self.ledger = DeliveryLedger(swallowSet: swallowSet)
    }

    /// Walks to the end, and says what went wrong, or `nil`.
    mutating func run() -> String? {
        for _ in 0..<Self.roundCountMax {
            if self.ending == nil { self.advance() } else if self.airborne.isEmpty { return self.violation() }
            self.happenUpstream()
        }
        return "does not end"
    }

    private func content(_ number: UInt64) -> Int { Int(number) % self.contentCount }

    private mutating func advance() {
        guard self.random.chance(50) || (self.connecting.isEmpty && self.lines.isEmpty) else { return self.happen() }
        switch self.session.step(now: self.now) {
        case .connect(let number): self.connecting.append(number)
        case .write(let number, let numbers, let first): self.write(number, numbers, first)
        case .probe(let number, let identifier):
            self.lines[number]?.messages.append(Line.Message(number: nil, identifier: identifier))
        case .close(let number):
            self.connecting.removeAll { $0 == number }
            if let line = self.lines.removeValue(forKey: number) { self.vanish(line) }
            self.session.closed(number, now: self.now, jitter: 0.5)
        case .wait(let time): self.wait(until: time)
        case .finish(let ending): self.ending = ending
        }
        self.settlements += self.session.takeSettlements()
    }

    private mutating func write(_ number: ConnectionNumber, _ numbers: Range<UInt64>, _ first: UInt32) {
        var count = UInt64(1 + self.random.below(min(numbers.count, 30)))
        let wanted = max(numbers.lowerBound + count, self.session.taken) - self.session.taken
        let available = self.notificationCount - self.session.taken
        if wanted > available {
            count -= wanted - available
            self.session.supply(.ended)
        }
        for offset in 0..<count {
            let identifier = first + UInt32(truncatingIfNeeded: offset)
            let message = Line.Message(number: numbers.lowerBound + offset, identifier: identifier)
            self.lines[number]?.messages.append(message)
        }
        self.session.wrote(count, now: self.now)
    }

    private mutating func wait(until time: Duration?) {
        if self.random.chance(30) { self.session.supply(.available) }
        guard let time, self.random.chance(20) else { return }
        self.now = max(self.now, min(time, self.now + .milliseconds(500)))
    }
}

// MARK: - The provider's connections

extension BridgeWalk {
    private mutating func happen() {
        if let number = self.connecting.popLast() {
            let line = Line(number, inFlightCountMax: self.inFlightCountMax)
            if self.gate.closedFor(now: self.now) != nil {
                line.isOver = true
                line.isEndDue = true
            }
            self.lines[number] = line
            self.session.connected(number, now: self.now)
            return
        }
        let numbers = self.lines.keys.sorted()
        guard !numbers.isEmpty, let line = self.lines[numbers[self.random.below(numbers.count)]] else { return }
        if !line.isOver, self.cutBudget > 0, self.random.chance(1) {
            self.cutBudget -= 1
            self.vanish(line)
            line.answer = nil
            line.isEndDue = true
        }
        if self.random.chance(70) { self.read(line) }
        if self.random.chance(70) { self.empty(line) }
        guard line.isEndDue, self.random.chance(50) else { return }
        if let last = line.messages.last(where: { $0.number != nil })?.number {
            self.session.left(line.number, before: last + 1)
        }
        if let answer = line.answer {
            line.answer = nil
            self.session.received(answer, on: line.number, now: self.now, jitter: 0.5)
        } else {
            self.lines[line.number] = nil
            self.session.closed(line.number, now: self.now, jitter: 0.5)
        }
    }

    /// The connection is gone without a word to the gateway.
    private mutating func vanish(_ line: Line) {
        guard !line.hasVanished else { return }
        line.hasVanished = true
        line.isOver = true
        line.inbox = []
        line.session.connectionLost()
        self.ledger.close(line.number.rawValue)
    }

    /// The gateway reads some of what has arrived.
    private mutating func read(_ line: Line) {
        var count = 1 + self.random.below(20)
        while count > 0, line.readCount < line.messages.count, line.isReading, !line.isOver {
            count -= 1
            let message = line.messages[line.readCount]
            line.readCount += 1
            var layout = FrameLayout(command: .enhanced)
            layout.identifier = message.identifier
            if message.number != nil { (layout.tokenOctetCount, layout.payloadOctetCount) = (32, 10) }
            switch line.session.receive(layout) {
            case .handOn(let number): self.take(message, number, line)
            case .awaitEarlier, .discard: break
            case .finish(let ending): self.finish(line, ending)
            }
        }
    }

    private mutating func take(_ message: Line.Message, _ number: UInt64, _ line: Line) {
        guard let sent = message.number else { return }
        line.handedOn.append(sent)
        let content = self.content(sent)
        let origin = FlightOrigin(connection: line.number.rawValue, number: number)
        switch self.ledger.take(self.key(content, message.identifier), from: origin, now: self.now) {
        case .send(let flight):
            var request = PushRequest(token: self.token, payload: ByteBuffer())
            if self.random.chance(50) { request.expiration = 0 }
            self.airborne[flight] = Airborne(
                flight: Flight(rules: RetryRules(), now: self.now),
                request: request,
                origin: origin,
                content: content
            )
        case .settle(let verdict): return self.run(line.session.settle(number, verdict), line)
        case .wait where self.mutant == .flyingCountsAsDelivered:
            return self.run(line.session.settle(number, .accepted), line)
        case .wait: break
        }
        let isFull = self.random.chance(20)
        if line.session.wait(for: number, isFull: isFull) == .stopReading { line.isReading = false }
    }

    private func key(_ content: Int, _ identifier: UInt32) -> ResendKey {
        var payload = self.mutant == .keyHasNoPayload ? [0] : [content]
        if self.mutant == .keyHasIdentifier { payload.append(Int(identifier)) }
        return payload.withUnsafeBytes { [token] in ResendKey(token: token, payload: $0, expiry: 0, priority: nil) }
    }

    /// The session gets the verdicts that are on their way.
    private mutating func empty(_ line: Line) {
        let inbox = line.inbox
        line.inbox = []
        for (number, verdict) in inbox where !line.isOver { self.run(line.session.settle(number, verdict), line) }
    }

    private mutating func run(_ action: GatewaySession.OnVerdict, _ line: Line) {
        switch action {
        case .none: break
        case .stopReading: line.isReading = false
        case .resumeReading, .awaitEarlier: line.isReading = true
        case .finish(let ending): self.finish(line, ending)
        }
    }

    private mutating func finish(_ line: Line, _ ending: GatewayEnding) {
        let number = self.mutant == .cutBehindNext ? ending.number + 2 : ending.number
        self.ledger.end(line.number.rawValue, at: number, now: self.now)
        line.isReading = true
        line.isOver = true
        line.isEndDue = true
        line.answer = ending.response
    }
}

// MARK: - The service

extension BridgeWalk {
    private mutating func happenUpstream() {
        guard !self.airborne.isEmpty, self.ending != nil || self.random.chance(40) else { return }
        let numbers = self.airborne.keys.sorted { $0.rawValue < $1.rawValue }
        let number = numbers[self.random.below(numbers.count)]
        guard var airborne = self.airborne[number] else { return }
        if let due = airborne.dueAt {
            // Time goes on also where nothing else happens.
            if due > self.now { self.now += min(due - self.now, .milliseconds(100)) }
            if due <= self.now { airborne.dueAt = nil }
            self.airborne[number] = airborne
            return
        }
        let answer = self.upstream.answer(airborne.content)
        let action = airborne.flight.receive(
            answer,
            to: &airborne.request,
            now: self.now,
            date: 1_800_000_000,
            jitter: .random(in: 0...1, using: &self.random)
        )
        switch action {
        case .sendAgain(let wait):
            airborne.dueAt = self.now + wait
            self.airborne[number] = airborne
            if self.mutant == .troubleIsRejected, wait > .zero {
                self.end(number, airborne, .rejected(8, .rejected))
            }
        case .end(let ending): self.end(number, airborne, ending)
        }
    }

    private mutating func end(_ number: FlightNumber, _ airborne: Airborne, _ ending: FlightEnding) {
        self.airborne[number] = nil
        self.causes.insert(ending.cause)
        var verdict = ending.verdict
        switch ending.cause {
        case .throttled: self.dropped[airborne.content, default: 0] += 1
        case .credentialFault, .misconfigured, .budgetSpent:
            self.gate.fault(now: self.now, jitter: .random(in: 0...1, using: &self.random))
        case .accepted: self.gate.success()
        default: break
        }
        if self.mutant == .deadIsRejected, verdict == .dead { verdict = .rejected(.invalidToken) }
        if self.mutant == .spentIsAccepted, [.serviceFault, .notPermitted].contains(verdict) { verdict = .accepted }
        if self.mutant == .failedCountsAsDelivered, self.lines[ConnectionNumber(airborne.origin)]?.isOver ?? true {
            verdict = .accepted
        }
        guard var target = self.ledger.end(number, from: airborne.origin, verdict) else { return }
        if self.mutant == .verdictGoesToOldConnection { target = airborne.origin }
        self.lines[ConnectionNumber(target)]?.inbox.append((target.number, verdict))
    }

    private mutating func violation() -> String? {
        guard self.ending == .completed else { return "ended \(String(describing: self.ending))" }
        var counts: [Int: (accepted: Int, rejected: Int, indeterminate: Int, isFlagged: Bool)] = [:]
        var next: UInt64 = 0
        for settlement in self.settlements {
            guard settlement.numbers.lowerBound == next else { return "settlements leave a gap at \(next)" }
            next = settlement.numbers.upperBound
            for number in settlement.numbers {
                var count = counts[self.content(number)] ?? (0, 0, 0, false)
                switch settlement.outcome {
                case .accepted: count.accepted += 1
                case .rejected: count.rejected += 1
                case .indeterminate: count.indeterminate += 1
                default: return "\(number) has outcome \(settlement.outcome)"
                }
                count.isFlagged = count.isFlagged || settlement.possibleDuplicate
                counts[self.content(number)] = count
            }
        }
        guard next == self.notificationCount else { return "\(next) of \(self.notificationCount) settled" }
        for (content, count) in counts {
            let processed = self.upstream.processed[content, default: 0]
            let dropped = self.dropped[content, default: 0]
            let isUnknown = self.upstream.unknown.contains(content) || count.isFlagged
            if processed + dropped < count.accepted { return "\(content): \(processed) processed, \(count) said" }
            if processed > count.accepted + count.indeterminate, !isUnknown {
                return "\(content): \(processed) processed, \(count) said"
            }
            let isBad = self.upstream.fate(content) == .bad
            if isBad != (count.rejected > 0), count.rejected > 0 || count.indeterminate == 0 && dropped == 0 {
                return "\(content): \(count) said of a \(isBad ? "bad" : "good") one"
            }
        }
        return nil
    }
}

extension ConnectionNumber {
    fileprivate init(_ origin: FlightOrigin) { self.init(rawValue: origin.connection) }
}
