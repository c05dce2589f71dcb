// SPDX-License-Identifier: Apache-2.0

import APNSProviderHTTP2
import APNSSession
import APNSTestKit
import APNSWire
import ListenerFixtures
import Logging
import NIOConcurrencyHelpers
import NIOCore
import NIOEmbedded
import OpenSSLTLS
import TestSupport

@testable import APNSGateway
@testable import APNSServer

/// A random walk of a provider and the gateway's own code, from its socket to its requests, against a model of the
/// service.
///
/// The gateway may end, die, start again and reload at any time.
final class BridgeWalk {
    private let loop = EmbeddedEventLoop()
    private let mutant: BridgeMutant?
    private let certificate: TLSCertificate
    private let listener: BinaryListenerConfiguration
    private let recorder = MemoryRecorder()
    private let disk = WalkDisk()
    private var process: WalkProcess?
    private var session: ProviderSession
    private(set) var upstream: UpstreamModel
    private var random: SplitMix64
    private let jitter: NIOLockedValueBox<SplitMix64>
    private var connecting: [ConnectionNumber] = []
    private var connections: [ConnectionNumber: WalkConnection] = [:]
    /// Connections whose provider has gone, which may still deliver.
    private var abandoned: [WalkConnection] = []
    private var settlements: [Settlement] = []
    private var ending: ProviderEnding?
    /// The time limit of a gateway that was asked to end.
    private var endsAt: Duration?
    private var lastConnection: UInt64 = 0

    private let token: DeviceToken
    private let notificationCount: UInt64
    /// The number of distinct contents; the service and the gateway cannot distinguish notifications with the same one.
    private let contentCount: Int
    /// The lifetime with which the provider computes the expiry at each write; `nil` for expiry 0.
    private let lifetime: UInt32?
    private var cutBudget: Int
    private var restartBudget: Int

    /// How often the gateway was asked to end, was killed, and was asked to reload.
    private(set) var (terminationCount, killCount, reloadCount) = (0, 0, 0)
    /// The number of messages that were delivered although they may be resends.
    private(set) var possibleResendCount: UInt64 = 0
    /// The number of recognized resends.
    private(set) var resendCount = 0
    private var processingErrors: Set<Int> = []

    private static let roundCountMax = 400_000

    init(seed: UInt64, mutant: BridgeMutant? = nil) throws {
        self.mutant = mutant
        self.certificate = try ListenerFixture.provider.get().identity.certificate
        self.token = try DeviceToken(bytes: [1, 2, 3])
        self.random = SplitMix64(seed: seed)
        self.jitter = NIOLockedValueBox(SplitMix64(seed: seed ^ 0x5555))
        var limits = BinaryLimits()
        limits.policy = self.random.chance(50) ? .atLeastOnce : .atMostOnce
        limits.windowCount = UInt64(1 + self.random.below(self.random.chance(30) ? 5 : 60))
        limits.invalidTokenRunCountMax = 0
        limits.fruitlessConnectionCountMax = 200
        limits.refusedConnectionCountMax = 200
        // A probe without a response is an error, so the walk must not end without one.
        limits.responseTimeout = .seconds(100_000_000)
        self.session = ProviderSession(limits: limits)
        self.notificationCount = UInt64(1 + self.random.below(self.random.chance(80) ? 30 : 120))
        self.contentCount = self.random.chance(70) ? Int(self.notificationCount) : 1 + self.random.below(8)
        self.cutBudget = self.random.chance(70) ? 0 : self.random.below(4)
        self.restartBudget = self.random.chance(40) ? 0 : 1 + self.random.below(4)
        var faults = UpstreamModel.Faults()
        faults.badPercent = self.random.chance(20) ? 0 : self.random.below(40)
        faults.deadPercent = self.random.below(20)
        faults.throttledPercent = self.random.chance(20) ? 5 : 0
        faults.budget = self.random.chance(30) ? 0 : self.random.below(20)
        self.upstream = UpstreamModel(faults: faults, random: SplitMix64(seed: ~seed))
        let inFlightCountMax = [1, 2, 5, 20, 1000][self.random.below(5)]
        let outcomeTimeout: Duration = self.random.chance(20) ? .seconds(3) : .seconds(300)
        self.listener = try ListenerFixture.configuration { listener in
            listener.inFlightCountMax = inFlightCountMax
            listener.outcomeTimeout = outcomeTimeout
            listener.shutdownTimeout = .seconds(5)
        }
        var other = SplitMix64(seed: seed ^ 0xAAAA)
        self.lifetime = other.chance(50) ? nil : 3600
        self.startProcess()
    }

    private var now: Duration { .nanoseconds(Int64(self.loop.now.uptimeNanoseconds)) }

    private func startProcess() {
        let jitter = self.jitter
        self.process = WalkProcess(
            self.disk,
            recorder: self.recorder,
            loop: self.loop,
            mutant: self.mutant,
            jitter: { jitter.withLockedValue { Double.random(in: 0...1, using: &$0) } },
            configure: self.configuration
        )
        self.endsAt = nil
    }

    private func configuration(_ upstream: any Upstream) -> BridgeConfiguration {
        let pin = AdmissionRule.Pin(fingerprint: self.certificate.fingerprint, allowsExpired: true)
        var bridge = BridgeConfiguration(
            name: "shop",
            admission: AdmissionRule(pins: [pin]),
            environment: .sandbox,
            upstream: upstream
        )
        bridge.rememberedDuration = self.mutant?.rememberedDuration ?? .seconds(1_000_000)
        return bridge
    }

    /// Runs the walk, and returns the error, or `nil`.
    func run() throws -> String? {
        for _ in 0..<Self.roundCountMax {
            if self.ending == nil {
                try self.advance()
            } else if self.process?.isIdle ?? true {
                return self.violation()
            }
            self.happenInGateway()
            self.happenUpstream()
        }
        return "does not end"
    }

    private func content(_ number: UInt64) -> Int { Int(number) % self.contentCount }

    private func advance() throws {
        guard self.random.chance(50) || (self.connecting.isEmpty && self.connections.isEmpty) else {
            return try self.happen()
        }
        switch self.session.step(now: self.now) {
        case .connect(let number): self.connecting.append(number)
        case .write(let number, let numbers, let first): try self.write(number, numbers, first)
        case .probe(let number, let identifier):
            try self.connections[number]?.write(.probe(identifier: identifier, command: .enhanced), number: nil)
        case .close(let number):
            self.connecting.removeAll { $0 == number }
            if let connection = self.connections.removeValue(forKey: number) { self.abandon(connection) }
            self.session.closed(number, now: self.now, jitter: 0.5)
        case .wait(let time): self.wait(until: time)
        case .finish(let ending): self.ending = ending
        }
        self.settlements += self.session.takeSettlements()
    }

    private func abandon(_ connection: WalkConnection) {
        connection.close(arrivesWhole: self.random.chance(50))
        if connection.channel.isActive { self.abandoned.append(connection) }
    }

    private func write(_ number: ConnectionNumber, _ numbers: Range<UInt64>, _ first: UInt32) throws {
        var count = UInt64(1 + self.random.below(min(numbers.count, 30)))
        let wanted = max(numbers.lowerBound + count, self.session.nextNumber) - self.session.nextNumber
        let available = self.notificationCount - self.session.nextNumber
        if wanted > available {
            count -= wanted - available
            self.session.supply(.ended)
        }
        for offset in 0..<count {
            let frame = NotificationFrame(
                token: self.token,
                payload: ByteBuffer(string: "{\"aps\":\(self.content(numbers.lowerBound + offset))}"),
                expiry: self.expiry,
                identifier: first + UInt32(truncatingIfNeeded: offset),
                command: .enhanced
            )
            try self.connections[number]?.write(frame, number: numbers.lowerBound + offset)
        }
        self.session.wrote(count, now: self.now)
    }

    /// The expiry of what is written now.
    private var expiry: UInt32 {
        guard let lifetime = self.lifetime else { return 0 }
        return UInt32(1_800_000_000 + self.now.components.seconds) + lifetime
    }

    private func wait(until time: Duration?) {
        if self.random.chance(30) { self.session.supply(.available) }
        guard let time, self.random.chance(20), time > self.now else { return }
        self.pass(min(time - self.now, .milliseconds(500)))
    }

    private func pass(_ duration: Duration) { self.loop.advanceTime(by: TimeAmount(duration)) }
}

// MARK: - The provider's connections

extension BridgeWalk {
    private func happen() throws {
        if let number = self.connecting.popLast() { return try self.connect(number) }
        let numbers = self.connections.keys.sorted()
        guard !numbers.isEmpty, let connection = self.connections[numbers[self.random.below(numbers.count)]] else {
            return
        }
        if !connection.isEndDue, self.cutBudget > 0, self.random.chance(1) {
            self.cutBudget -= 1
            connection.kill()
        }
        if self.random.chance(70) { connection.read(byteCountMax: 1 + self.random.below(1500)) }
        guard connection.isEndDue, self.random.chance(50) else { return }
        let number = ConnectionNumber(rawValue: connection.number)
        if let last = connection.last { self.session.sent(number, before: last + 1) }
        if let answer = try connection.answer(), !connection.isOver {
            connection.close(arrivesWhole: true)
            self.session.received(answer, on: number, now: self.now, jitter: 0.5)
        } else {
            self.connections[number] = nil
            self.abandon(connection)
            self.session.closed(number, now: self.now, jitter: 0.5)
        }
    }

    private func connect(_ number: ConnectionNumber) throws {
        guard let process = self.process, self.endsAt == nil else {
            self.session.closed(number, permanently: false, now: self.now, jitter: 0.5)
            return
        }
        self.lastConnection += 1
        let logger = Logger(label: "walk") { _ in SwiftLogNoOpLogHandler() }
        let registry = ConnectionRegistry(countMax: 1000, unauthenticatedCountMax: 1000)
        let connection = try WalkConnection(number.rawValue, certificate: self.certificate, loop: self.loop) { tls in
            let connection = Listener.Connection(
                number: self.lastConnection,
                eventLoop: self.loop,
                tls: tls,
                admission: ConnectionAdmission(registry, logger: logger),
                logger: logger
            )
            return BinaryConnectionHandler(connection, self.listener, backend: process.mutated)
        }
        self.connections[number] = connection
        self.session.connected(number, now: self.now)
    }
}

// MARK: - The gateway

extension BridgeWalk {
    private func happenInGateway() {
        self.loop.run()
        guard let process = self.process else {
            if self.random.chance(30) { self.startProcess() }
            return
        }
        process.upstream.setHasRoom(self.random.chance(90))
        if self.random.chance(40) { process.store.write() }
        if self.random.chance(5) || self.ending != nil { self.pass(.milliseconds(self.random.below(300))) }
        self.abandoned.removeAll { !$0.channel.isActive }
        if let endsAt = self.endsAt {
            let isOver = process.isIdle && self.open.isEmpty
            if isOver || self.now >= endsAt { self.end(process) }
        } else if self.restartBudget > 0, self.ending == nil, self.random.chance(2) {
            self.restartBudget -= 1
            self.signal(process)
        }
    }

    private var open: [WalkConnection] {
        (Array(self.connections.values) + self.abandoned).filter(\.channel.isActive)
    }

    private func signal(_ process: WalkProcess) {
        switch self.random.below(3) {
        case 0:
            self.killCount += 1
            self.end(process)
        case 1:
            self.terminationCount += 1
            self.endsAt = self.now + .seconds(6)
            for connection in self.open.sorted(by: { $0.number < $1.number }) {
                let event = BinaryConnectionHandler.Shutdown(isAnnounced: true)
                connection.channel.pipeline.triggerUserOutboundEvent(event, promise: nil)
            }
        default:
            self.reloadCount += 1
            process.backend.reload([self.configuration(process.upstream)])
        }
        self.loop.run()
    }

    /// The process died, with everything that was only in its memory.
    private func end(_ process: WalkProcess) {
        // The disk may have more than was reported to the process.
        while process.store.count > 0, self.random.chance(50) { process.store.write(tells: false) }
        self.resendCount += process.resendCount
        self.possibleResendCount += process.possibleResendCount
        process.kill()
        while process.upstream.count > 0 {
            let request = process.upstream.take(0)
            if self.random.chance(50) { self.upstream.process(unanswered: Self.content(of: request.request)) }
        }
        for connection in self.open { connection.kill() }
        self.loop.run()
        self.process = nil
    }
}

// MARK: - The service

extension BridgeWalk {
    private static func content(of request: PushRequest) -> Int {
        let digits = request.payload.readableBytesView.filter { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
        return Int(String(decoding: digits, as: UTF8.self)) ?? -1
    }

    private func happenUpstream() {
        guard let process = self.process, process.upstream.count > 0, self.ending != nil || self.random.chance(40)
        else { return }
        let request = process.upstream.take(self.random.below(process.upstream.count))
        let answer = self.upstream.answer(Self.content(of: request.request))
        process.answer(request, answer)
        self.loop.run()
    }

    private func violation() -> String? {
        guard self.ending == .completed else { return "ended \(String(describing: self.ending))" }
        if let process = self.process {
            self.resendCount += process.resendCount
            self.possibleResendCount += process.possibleResendCount
        }
        var doubledCount: UInt64 = 0
        var counts: [Int: (accepted: Int, rejected: Int, indeterminate: Int, isFlagged: Bool)] = [:]
        var next: UInt64 = 0
        for settlement in self.settlements {
            guard settlement.numbers.lowerBound == next else { return "settlements leave a gap at \(next)" }
            next = settlement.numbers.upperBound
            for number in settlement.numbers {
                var count = counts[self.content(number)] ?? (0, 0, 0, false)
                switch settlement.outcome {
                case .accepted: count.accepted += 1
                case .rejected(let rejection):
                    count.rejected += 1
                    if rejection == .binary(.processingError) { self.processingErrors.insert(self.content(number)) }
                case .indeterminate: count.indeterminate += 1
                default: return "\(number) has outcome \(settlement.outcome)"
                }
                count.isFlagged = count.isFlagged || settlement.isPossibleDuplicate
                counts[self.content(number)] = count
            }
        }
        guard next == self.notificationCount else { return "\(next) of \(self.notificationCount) settled" }
        for (content, count) in counts {
            let processed = self.upstream.processed[content, default: 0]
            let isUnknown = self.upstream.unknown.contains(content) || count.isFlagged
            if processed < count.accepted { return "\(content): \(processed) processed, \(count) said" }
            if processed > count.accepted + count.indeterminate, !isUnknown {
                // What may be a resend with another expiry is delivered, and counted.
                doubledCount += UInt64(processed - count.accepted - count.indeterminate)
                if doubledCount > self.possibleResendCount {
                    return "\(content): \(processed) processed, \(count) said"
                }
            }
            let isBad = self.upstream.behavior(content) == .bad
            // Status 1 for the first notification in an outage, which the provider gives up after some attempts.
            if !isBad, count.rejected > 0, self.processingErrors.contains(content), processed <= count.accepted {
                continue
            }
            if isBad != (count.rejected > 0), count.rejected > 0 || count.indeterminate == 0 {
                return "\(content): \(count) said of a \(isBad ? "bad" : "good") one"
            }
        }
        return nil
    }
}
