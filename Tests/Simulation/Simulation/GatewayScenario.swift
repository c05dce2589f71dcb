// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSSimulator
import APNSWire
import CSimulatedKernel
import Logging
import NIOConcurrencyHelpers
import TokenStore

/// An old provider, one or two gateways, and the service behind them; the network fails on one side of a gateway, or
/// nowhere, and the gateways are killed and begin again, each with its database.
///
/// Of two gateways, the provider uses one until a connection fails, or each for some connections, as with a balancer.
///
/// What is checked is the promise to the provider: what an error response says of its notifications is true, and after
/// an orderly end without one, all of them arrived. The gateway delivers a notification again only if the provider
/// could not know of it, or if the service may not have answered; two gateways do not know of each other's resends.
/// What was accepted for a removed app is on the feedback list of one.
struct GatewayScenario: Sendable {
    private let materials: Materials
    private let history: History

    init(_ materials: Materials, _ history: History) {
        self.materials = materials
        self.history = history
    }

    /// The requests of each notification; one that was not answered may be sent again.
    private let arrived = NIOLockedValueBox<[Int: Set<PushIdentifier?>]>([:])
    private let knowledge = NIOLockedValueBox<[Int: Knowledge]>([:])

    private static let quiet = Logger(label: "simulation") { _ in SwiftLogNoOpLogHandler() }

    /// What the provider knows of one notification.
    private struct Knowledge {
        /// How often it was written without knowing that the gateway had not processed it.
        var blindCount = 0
        /// Whether the last connection said that it was not processed.
        ///
        /// It may have arrived: the gateway remembers that, and does not deliver it when it is sent again.
        var isResendExpected = false
        /// The gateway of that connection.
        var gateway = 0
        var isAccepted = false
        var isRejected = false

        mutating func accept() {
            self.blindCount += 1
            self.isAccepted = true
        }
    }

    private enum Side: CaseIterable { case provider, service, none }

    func run() async throws {
        var simulated = try SimulatorConfiguration(tls: self.materials.server)
        simulated.acceptsUnknownTokens = true
        simulated.onReceive = { received in
            guard let number = received.token.flatMap(Row.number) else { return }
            self.history.note("\(number) arrived")
            self.arrived.withLockedValue { _ = $0[number, default: []].insert(received.apnsID) }
        }
        try await Simulator.withRunning(simulated, logger: Self.quiet) { simulator in
            let count = min(Chance.number(1...200), simplified.countMax)
            for number in 0..<count where Self.isDead(number) {
                let token = try Row.notification(number).token
                let removal = Timestamp(secondsSince1970: wallSeconds - 86_400)
                simulator.register(SimulatedDevice(token: token, topic: Self.topic, removalTimestamp: removal))
            }
            let names =
                Chance.once(in: 3) && simplified.contains(.secondInstances) ? ["gateway", "other"] : ["gateway"]
            let gateways = names.map { _ in SimulatedGateway(self.materials, servicePort: simulator.http2Port) }
            let isDamaged = Chance.once(in: 4)
            let machines = names.map { Machine($0, isDamaged: isDamaged, self.history) }
            self.history.note("rejections: \(gateways.map(\.rejections))")
            let troubles = Chance.one(of: [
                [Machine.Trouble.none], [.death], [.disk], [.diskAndDeath], Machine.Trouble.allCases,
            ])
            let running = zip(gateways, machines).map { gateway, machine in
                Task { try await gateway.run(on: machine, troubles, self.history) }
            }
            var ports: [Int] = []
            for gateway in gateways { ports.append(try await gateway.port()) }
            let side = try await self.runProvider(count, ports, simulator.http2Port)
            for gateway in gateways { gateway.finish() }
            for task in running { try await task.value }
            // What was in a damaged database is gone, and somebody was told so.
            let isWhole = !gateways.contains(where: \.hasBegunAnew)
            var missingCount = self.check(isWhole ? side : .service)
            if isWhole { missingCount += try await self.checkFeedback(zip(gateways, machines)) }
            // A provider that never reads cannot be told.
            let missingCountMax = gateways.reduce(0) { $0 + ($1.rejections == .ignore ? $1.unreportedCount : 0) }
            if missingCount > missingCountMax {
                self.history.fail("\(missingCount) are missing that were accepted, and \(missingCountMax) are counted")
            }
        }
    }

    static let topic = "com.example.app"

    /// Whether the app was removed from the device: the gateway accepts a notification, and records the token.
    static func isDead(_ number: Int) -> Bool { number % 13 == 5 && !Row.isBad(number) }

    // MARK: The provider

    private func runProvider(_ count: Int, _ ports: [Int], _ servicePort: Int) async throws -> Side {
        let side = Chance.one(of: Side.allCases)
        switch side {
        case .provider: Network.make(faultPort: Chance.one(of: ports))
        case .service: Network.make(faultPort: servicePort)
        // No port of the simulation.
        case .none: Network.make(faultPort: 1)
        }
        self.history.note("faults: \(side), \(count) notifications")
        let trouble = Task { if side != .none { try await Network.makeTrouble(self.history) } }
        var provider = OldProvider(tls: self.materials.client, history: self.history)
        var gateway = Chance.number(0...ports.count - 1)
        let isSticky = Chance.once(in: 2)
        var pending = Array(0..<count)
        for _ in 0..<Self.connectionCountMax where !pending.isEmpty {
            let part = Array(pending.prefix(Chance.number(1...count)))
            let result = try await provider.send(part, port: ports[gateway])
            self.learn(result, part, gateway)
            pending = provider.next(result, part, pending)
            switch result {
            case .failed, .unconnected:
                try await SimulatedTime.pass(Chance.duration(0...5000))
                gateway = Chance.number(0...ports.count - 1)
            case .complete, .response, .unread: if !isSticky { gateway = Chance.number(0...ports.count - 1) }
            }
        }
        trouble.cancel()
        _ = await trouble.result
        sim_set_partition(false)
        try await SimulatedTime.pass(.seconds(400))
        return side
    }

    /// The provider gives up after so many connections.
    private static let connectionCountMax = 30

    private func learn(_ result: OldProvider.Result, _ part: [Int], _ gateway: Int) {
        self.knowledge.withLockedValue { knowledge in
            func change(_ numbers: some Sequence<Int>, _ body: (inout Knowledge) -> Void) {
                for number in numbers { body(&knowledge[number, default: Knowledge()]) }
            }
            if case .unconnected = result { return }
            change(part) { notification in
                // Another gateway does not know what the last one has delivered.
                if notification.isResendExpected, notification.gateway != gateway { notification.blindCount += 1 }
                notification.isResendExpected = false
                notification.gateway = gateway
            }
            switch result {
            case .unconnected: break
            case .failed, .unread: change(part) { $0.blindCount += 1 }
            case .complete: change(part) { $0.accept() }
            case .response(let status, let index):
                change(part.prefix(max(0, index))) { $0.accept() }
                guard part.indices.contains(index) else {
                    if index != part.count { self.history.fail("the response names \(index) of \(part.count)") }
                    return
                }
                change(part[(index + 1)...]) { $0.isResendExpected = true }
                change(CollectionOfOne(part[index])) { named in
                    switch status {
                    case .shutdown: named.accept()
                    // The gateway could not deliver it; the provider may send it again.
                    case .processingError: named.blindCount += 1
                    default:
                        named.isRejected = true
                        if !Row.isBad(part[index]) { self.history.fail("\(part[index]) is rejected with \(status)") }
                    }
                }
            }
        }
    }

    // MARK: The check

    /// Returns the number of notifications that did not arrive, and that the provider takes for accepted.
    private func check(_ side: Side) -> Int {
        var missingCount = 0
        let arrived = self.arrived.withLockedValue { $0 }
        for (number, knowledge) in self.knowledge.withLockedValue({ $0 }) {
            let arrivedCount = arrived[number]?.count ?? 0
            if knowledge.isAccepted, !Row.isBad(number), !Self.isDead(number), arrivedCount == 0 {
                self.history.note("\(number) did not arrive, and the provider takes it for accepted")
                missingCount += 1
            }
            if knowledge.isRejected, arrivedCount > 0 { self.history.fail("\(number) is rejected, and arrived") }
            let arrivedCountMax = knowledge.blindCount + (knowledge.isResendExpected ? 1 : 0)
            // What the service may have accepted without an answer, the provider is asked to send again.
            if side != .service, arrivedCount > arrivedCountMax {
                self.history.fail("\(number) arrived \(arrivedCount) times, at most \(arrivedCountMax) are expected")
            }
        }
        return missingCount
    }

    /// Returns the number of notifications that a gateway accepted for a removed app, and that no feedback list has.
    private func checkFeedback(_ gateways: some Sequence<(SimulatedGateway, Machine)>) async throws -> Int {
        var missingCount = 0
        let list = TokenScope(topic: Self.topic, environment: SimulatedGateway.environment)
        var listed: Set<Int> = []
        for (gateway, machine) in gateways {
            listed.formUnion(try await gateway.listedTokens(machine.folder, in: list).compactMap(Row.number))
        }
        for (number, knowledge) in self.knowledge.withLockedValue({ $0 }) {
            if knowledge.isAccepted, Self.isDead(number), !listed.contains(number) {
                self.history.note("\(number) was accepted for a removed app, and its token is not listed")
                missingCount += 1
            }
            if listed.contains(number), !Self.isDead(number) { self.history.fail("\(number) is listed, and lives") }
        }
        return missingCount
    }
}
