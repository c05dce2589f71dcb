// SPDX-License-Identifier: Apache-2.0

import APNSTestKit
import APNSWire
import Foundation
import NIOConcurrencyHelpers
import NIOCore
import OpenSSLTLS
import TestSupport

/// Old clients with different habits at the same time on one gateway, which meets a fault.
///
/// Each client is a provider of the configuration, so that none affects another one.
struct HabitRun: Sendable {
    /// What happens while the clients write.
    enum Fault: String, CaseIterable, Sendable {
        /// SIGTERM, and another process of the gateway.
        case terminate
        /// SIGKILL, and another process of the gateway.
        case kill
        /// SIGHUP.
        case reload
        /// The service answers 503 for longer than the gateway retries.
        case outage
        /// The same, but the connections end instead, with requests that the service has accepted or not.
        case lostService = "lost-service"
        /// The service rejects tokens, and reports others as dead.
        case badToken = "bad-token"
        /// A connection to the service ends after a request, without an answer.
        case lostAnswer = "lost-answer"

        /// Whether the gateway gives up notifications because of the service.
        var isOutage: Bool { self == .outage || self == .lostService }
    }

    /// What happened.
    struct Outcome: Sendable {
        /// The records of the threads of each client.
        var records: [[ClientRecord]] = []
        var requests: [ChainRecord.Request] = []
        /// The logs of all processes of the gateway.
        var log = ""
        var endings: [Child.Ending] = []
        /// When the processes of the gateway were asked to end or killed.
        var signals: [ContinuousClock.Instant] = []
        var seconds = 0.0
    }

    let fault: Fault
    let habits: [ClientHabits]
    /// The most unanswered notifications of a connection.
    let inFlightCountMax: Int
    private let seed: UInt64
    private let bad: Set<UInt32>
    private let dead: Set<UInt32>
    private let lost: Set<UInt32>
    private let slowPercent: UInt64
    private let millisecondsMax: UInt64
    /// The shares of all notifications after which signals are sent.
    private let strikes: [Double]
    /// The number of notifications given up after which an outage ends.
    private let outageEnd: Int

    init(_ fault: Fault, _ habits: [ClientHabits], seed: UInt64) {
        var random = SplitMix64(seed: seed)
        self.fault = fault
        self.habits = habits
        self.seed = seed
        self.inFlightCountMax = [5, 20, 100, 1000][random.below(4)]
        self.slowPercent = [0, 10, 50, 100][random.below(4)]
        self.millisecondsMax = [3, 30][random.below(2)]
        self.strikes = (0..<1 + random.below(2)).map { _ in 0.02 + 0.4 * Double(random.below(1000)) / 1000 }.sorted()
        self.outageEnd = 1 + random.below(40)
        // The same numbers for each client, so that a run with fewer clients is the same for these.
        let places = (0..<4).map { _ in 1 + random.below(ClientHabits.usualCount - 10) }
        func numbers(_ places: ArraySlice<Int>) -> Set<UInt32> {
            var numbers: Set<UInt32> = []
            for (index, habits) in habits.enumerated() {
                // A client cannot learn of a rejection in command 0.
                let isSimple = { (place: Int) in habits.simpleEvery > 0 && place % habits.simpleEvery == 0 }
                numbers.formUnion(places.map { Self.number(index, isSimple($0) ? $0 + 1 : $0) })
            }
            return numbers
        }
        self.bad = fault == .badToken ? numbers(places[..<(1 + random.below(2))]) : []
        self.dead = fault == .badToken ? numbers(places[3...]) : []
        self.lost = fault == .lostAnswer ? numbers(places[..<(1 + random.below(3))]) : []
    }

    /// The number of a client's notification, counted from 1; a multiple of 12 in the same places for each client.
    private static func number(_ client: Int, _ place: Int) -> UInt32 { UInt32((client + 1) * 12_000 + place) }

    /// The bytes of a notification; without an identifier in command 0.
    static func frame(_ number: UInt32, identifier: UInt32?, expiry: UInt32, usesItems: Bool) -> [UInt8] {
        var bytes = ByteBuffer()
        let frame = NotificationFrame(
            token: try? GatewayProgram.token(number),
            payload: ByteBuffer(string: "{\"aps\":{\"alert\":\"number \(number)\"}}"),
            expiry: expiry,
            identifier: identifier,
            command: identifier == nil ? .simple : usesItems ? .items : .enhanced
        )
        try? frame.write(into: &bytes)
        return Array(bytes.readableBytesView)
    }

    /// The service.
    private func record(_ isOut: NIOLockedValueBox<Bool>) -> ChainRecord {
        ChainRecord { [self] occasion in
            let number = UInt32(occasion.number)
            if isOut.withLockedValue({ $0 }) {
                guard self.fault == .lostService else { return .unavailable }
                let reply = number % 2 == 0 ? PushReply.accepted : ChainRecord.Answer.unavailable.reply
                return ChainRecord.Answer(reply: reply, moment: .lost)
            }
            if self.bad.contains(number) { return .badToken }
            var answer = self.dead.contains(number) ? .dead : ChainRecord.Answer()
            if self.lost.contains(number), occasion.attempt == 1 {
                answer.moment = .lost
                return answer
            }
            var random = SplitMix64(seed: self.seed &* 1_000_003 &+ UInt64(number) * 101 + UInt64(occasion.attempt))
            guard random.next() % 100 < self.slowPercent else { return answer }
            answer.moment = .after(milliseconds: Int64(1 + random.next() % self.millisecondsMax))
            return answer
        }
    }
}

// MARK: - The files

extension HabitRun {
    private func configure(
        _ folder: GatewayProgram.Folder,
        servicePort: Int,
        port: Int,
        feedbackPort: Int
    ) throws {
        var text = """
            listen: {port: \(port), feedbackPort: \(feedbackPort)}
            admin: {port: 0}
            server: {certificate: server.pem}
            feedback: database/feedback.sqlite
            limits: {shutdown: 10s, inFlightPerConnection: \(self.inFlightCountMax)}
            providers:

            """
        for habits in self.habits {
            let identity = try folder.authority.issueClient(topic: GatewayProgram.topic, keyKind: .p256)
            try folder.write("\(habits.name).pem", identity.pem)
            text += """
                  - name: \(habits.name)
                    clients: {pins: [{fingerprint: "\(identity.identity.certificate.fingerprint)"}]}
                    environment: sandbox
                    rejections: \(habits.rejections)
                    retry: {budget: \(self.fault.isOutage ? "500ms" : "30s"), first: 20ms, longest: 100ms}
                    upstream:
                      {certificate: upstream.pem, host: localhost, port: \(servicePort), trust: upstream-ca.pem}

                """
        }
        try folder.write("gateway.yaml", Array(text.utf8))
    }

    private func makeClients(
        _ folder: GatewayProgram.Folder,
        port: Int,
        _ stage: NIOLockedValueBox<LegacyClient.Stage>
    ) -> [[LegacyClient]] {
        self.habits.enumerated().map { index, habits in
            (0..<habits.connectionCount).map { part in
                let places = stride(from: part + 1, through: habits.count, by: habits.connectionCount)
                let numbers = places.map { Self.number(index, $0) }
                let pem = folder.path("\(habits.name).pem")
                return LegacyClient(habits, numbers: numbers, port: port, pem: pem, stage: stage)
            }
        }
    }
}

// MARK: - The run

extension HabitRun {
    /// The processes of the gateway, one after the other.
    private struct Gateways {
        var current: GatewayProgram
        var log = ""
        var endings: [Child.Ending] = []
        var signals: [ContinuousClock.Instant] = []

        mutating func end(_ signal: CInt) async throws {
            self.signals.append(.now)
            self.current.child.send(signal)
            self.endings.append(try await self.current.child.end())
            self.log += self.current.log
        }
    }

    func callAsFunction() async throws -> Outcome {
        let folder = try GatewayProgram.Folder()
        let (port, feedbackPort) = (try ReservedPort(), try ReservedPort())
        let isOut = NIOLockedValueBox(false)
        let record = self.record(isOut)
        let start = ContinuousClock.now
        return try await record.upstream().run(folder) { servicePort in
            try self.configure(
                folder,
                servicePort: servicePort,
                port: port.number,
                feedbackPort: feedbackPort.number
            )
            let stage = NIOLockedValueBox(LegacyClient.Stage.beforeFault)
            defer { stage.withLockedValue { $0 = .over } }
            let clients = self.makeClients(folder, port: port.number, stage)
            var gateways = Gateways(current: try await GatewayProgram(folder))

            // These have nothing outstanding when the fault happens.
            let idle = clients.joined().filter(\.habits.isIdleDuringFault)
            var records = Dictionary(uniqueKeysWithValues: idle.map { (ObjectIdentifier($0), $0.start()) })
            _ = try await self.settle(idle, record, gateways.current)
            for client in clients.joined() where records[ObjectIdentifier(client)] == nil {
                records[ObjectIdentifier(client)] = client.start()
            }
            try await self.meetFault(&gateways, record, isOut)
            stage.withLockedValue { $0 = .afterFault }
            _ = try await self.settle(Array(clients.joined()), record, gateways.current)
            try await gateways.end(SIGTERM)
            stage.withLockedValue { $0 = .over }

            var outcome = Outcome(requests: record.requests, log: gateways.log, endings: gateways.endings)
            outcome.signals = gateways.signals
            for parts in clients {
                var all: [ClientRecord] = []
                for part in parts { all += try await [records[ObjectIdentifier(part)]?.get()].compactMap { $0 } }
                outcome.records.append(all)
            }
            outcome.seconds = (ContinuousClock.now - start) / .seconds(1)
            return outcome
        }
    }

    private func meetFault(
        _ gateways: inout Gateways,
        _ record: ChainRecord,
        _ isOut: NIOLockedValueBox<Bool>
    ) async throws {
        let count = self.habits.filter { !$0.isIdleDuringFault }.map(\.count).reduce(0, +)
        let idleCount = record.takenCounts.count
        for (index, share) in self.strikes.enumerated() {
            _ = try await record.wait(takenCount: idleCount + Int(share * Double(count)))
            switch self.fault {
            case .terminate, .kill:
                try await gateways.end(self.fault == .kill ? SIGKILL : SIGTERM)
                gateways.current = try await GatewayProgram(gateways.current.folder)
            case .reload:
                gateways.current.child.send(SIGHUP)
                try await gateways.current.lines("configuration reloaded", countMin: index + 1)
            case .outage where index == 0, .lostService where index == 0:
                isOut.withLockedValue { $0 = true }
                defer { isOut.withLockedValue { $0 = false } }
                try await gateways.current.lines("\"not delivered\"", countMin: self.outageEnd)
            case .outage, .lostService, .badToken, .lostAnswer: break
            }
        }
    }

    /// Waits until the clients are idle and the service has settled what they wrote, for a limited time, after which
    /// something is missing.
    private func settle(
        _ clients: [LegacyClient],
        _ record: ChainRecord,
        _ gateway: GatewayProgram
    ) async throws -> Bool {
        let names = Set(clients.map(\.habits.name))
        do {
            try await eventually("all is settled", within: .seconds(12)) {
                guard clients.allSatisfy({ $0.current.isIdle }) else { return false }
                let settled = Set(record.requests.filter { $0.isTaken || $0.status == 400 }.map { UInt32($0.number) })
                guard clients.allSatisfy({ settled.isSuperset(of: $0.current.outstanding) }) else { return false }
                let metrics = try await GatewayOperatorTests.get("/metrics", gateway).body
                return metrics.split(separator: "\n").allSatisfy { line in
                    !line.hasPrefix("apns_legacy_notifications_in_flight{") || line.hasSuffix(" 0")
                        || !names.contains { line.contains("\"\($0)\"") }
                }
            }
        } catch is Overdue {
            return false
        }
        for client in clients { client.markSettled() }
        return true
    }
}
