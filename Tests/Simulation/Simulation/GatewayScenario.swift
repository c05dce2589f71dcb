// SPDX-License-Identifier: Apache-2.0

import APNSCertificates
import APNSGateway
import APNSProviderHTTP2
import APNSServer
import APNSSession
import APNSSimulator
import APNSTestKit
import APNSWire
import CSimulatedKernel
import Logging
import NIOConcurrencyHelpers
import NIOCore
import NIOPosix
import OpenSSLTLS

/// An old provider, the gateway, and the service behind it; the network fails on one side of the gateway, or nowhere.
///
/// What is checked is the promise to the provider: what an error response says of its notifications is true, and after
/// an orderly end without one, all of them arrived. The gateway delivers a notification again only if the provider
/// could not know of it, or if the service may not have answered.
struct GatewayScenario: Sendable {
    private let materials: Materials
    private let history: History

    init(_ materials: Materials, _ history: History) {
        self.materials = materials
        self.history = history
    }

    private let arrived = NIOLockedValueBox<[Int: Int]>([:])

    private static let quiet = Logger(label: "simulation") { _ in SwiftLogNoOpLogHandler() }

    /// What the provider knows of one notification.
    private struct Knowledge {
        /// How often it was written without knowing that the gateway had not processed it.
        var blindCount = 0
        /// Whether the last connection said that it was not processed.
        ///
        /// It may have arrived: the gateway remembers that, and does not deliver it when it is sent again.
        var isResendExpected = false
        var isAccepted = false
        var isRejected = false
    }

    private enum Side: CaseIterable { case provider, service, none }

    func run() async throws {
        let group = MultiThreadedEventLoopGroup(
            numberOfThreads: simplified.contains(.threads) ? Chance.number(1...2) : 1
        )
        var simulated = try SimulatorConfiguration(tls: self.materials.server)
        simulated.acceptsUnknownTokens = true
        simulated.onReceive = { received in
            guard let number = received.token.flatMap(Row.number) else { return }
            self.history.note("\(number) arrived")
            self.arrived.withLockedValue { $0[number, default: 0] += 1 }
        }
        try await Simulator.withRunning(simulated, logger: Self.quiet) { simulator in
            let upstream = try self.upstream(simulator.http2Port, group)
            async let upstreamRun: Void = upstream.run()
            var bridge = BridgeConfiguration(
                name: "shop",
                admission: AdmissionRule(verifier: try CertificateVerifier(authorities: self.materials.authorityPEM)),
                environment: .sandbox,
                upstream: upstream
            )
            bridge.requests = RequestRules(topic: "com.example.app")
            // After the default of two minutes, a resend is a new notification.
            bridge.rememberedDuration = .seconds(86_400)
            bridge.retries.budget = Chance.one(of: [.zero, .seconds(1), .seconds(60)])
            bridge.retries.givesUpUnknownUnkept = Chance.once(in: 2)
            let backend = HTTP2Backend([bridge], recorder: NoFeedback(), eventLoopGroup: group, logger: Self.quiet)
            var listening = BinaryListenerConfiguration(
                identity: self.materials.serverIdentity,
                clientTrust: self.materials.server.trust
            )
            listening.listener.port = 0
            listening.inFlightCountMax = Chance.one(of: [1, 10, 1000])
            let listener = Listener(listening, backend: backend, eventLoopGroup: group, logger: Self.quiet)
            try await listener.withRunning { listener in
                try await self.runProvider(try await listener.boundAddress.port ?? 0, simulator.http2Port)
            }
            upstream.finish()
            try await upstreamRun
        }
    }

    private func upstream(_ port: Int, _ group: any EventLoopGroup) throws -> HTTP2Upstream {
        var configuration = HTTP2Configuration(
            endpoint: HTTP2Endpoint(host: "localhost", port: port),
            identity: self.materials.identity,
            trust: self.materials.client.trust
        )
        configuration.streamCountMax = Chance.one(of: [1, 10, 1000])
        configuration.queueTimeout = nil
        configuration.endsWhenRefused = false
        return try HTTP2Upstream(configuration, eventLoopGroup: group, logger: Self.quiet)
    }

    // MARK: The provider

    private func runProvider(_ port: Int, _ servicePort: Int) async throws {
        let side = Chance.one(of: Side.allCases)
        switch side {
        case .provider: Network.make(faultPort: port)
        case .service: Network.make(faultPort: servicePort)
        // No port of the simulation.
        case .none: Network.make(faultPort: 1)
        }
        let count = min(Chance.number(1...200), simplified.countMax)
        self.history.note("faults: \(side), \(count) notifications")
        let trouble = Task { if side != .none { try await Network.makeTrouble(self.history) } }
        var provider = OldProvider(tls: self.materials.client, port: port, history: self.history)
        var knowledge = [Int: Knowledge]()
        var pending = Array(0..<count)
        for _ in 0..<Self.connectionCountMax where !pending.isEmpty {
            let part = Array(pending.prefix(Chance.number(1...count)))
            let result = try await provider.send(part)
            self.learn(result, part, &knowledge)
            pending.removeAll { knowledge[$0]?.isAccepted == true || knowledge[$0]?.isRejected == true }
            if case .failed = result { try await SimulatedTime.pass(Chance.duration(0...5000)) }
        }
        trouble.cancel()
        _ = await trouble.result
        sim_set_partition(false)
        try await SimulatedTime.pass(.seconds(400))
        self.check(knowledge, side)
    }

    /// The provider gives up after so many connections.
    private static let connectionCountMax = 30

    private func learn(_ result: OldProvider.Result, _ part: [Int], _ knowledge: inout [Int: Knowledge]) {
        if case .unconnected = result { return }
        for number in part { knowledge[number, default: Knowledge()].isResendExpected = false }
        switch result {
        case .unconnected: break
        case .failed:
            for number in part { knowledge[number, default: Knowledge()].blindCount += 1 }
        case .complete:
            for number in part {
                knowledge[number, default: Knowledge()].blindCount += 1
                knowledge[number]?.isAccepted = true
            }
        case .response(let status, let index):
            for number in part.prefix(index) {
                knowledge[number, default: Knowledge()].blindCount += 1
                knowledge[number]?.isAccepted = true
            }
            guard part.indices.contains(index) else {
                if index != part.count { self.history.fail("the response names \(index) of \(part.count)") }
                return
            }
            for number in part[(index + 1)...] { knowledge[number]?.isResendExpected = true }
            if status == .shutdown {
                knowledge[part[index], default: Knowledge()].blindCount += 1
                knowledge[part[index]]?.isAccepted = true
            } else if status == .processingError {
                // The gateway could not deliver it; the provider may send it again.
                knowledge[part[index], default: Knowledge()].blindCount += 1
            } else {
                knowledge[part[index], default: Knowledge()].isRejected = true
                if !Row.isBad(part[index]) { self.history.fail("\(part[index]) is rejected with \(status)") }
            }
        }
    }

    // MARK: The check

    private func check(_ knowledge: [Int: Knowledge], _ side: Side) {
        let arrived = self.arrived.withLockedValue { $0 }
        for (number, knowledge) in knowledge {
            let arrivedCount = arrived[number] ?? 0
            if knowledge.isAccepted, !Row.isBad(number), arrivedCount == 0 {
                self.history.fail("\(number) did not arrive, and the provider takes it for accepted")
            }
            if knowledge.isRejected, arrivedCount > 0 { self.history.fail("\(number) is rejected, and arrived") }
            // A service that does not answer may get a request again.
            let arrivedCountMax = knowledge.blindCount + (knowledge.isResendExpected ? 1 : 0)
            if side != .service, arrivedCount > arrivedCountMax {
                self.history.fail("\(number) arrived \(arrivedCount) times, at most \(arrivedCountMax) are expected")
            }
        }
    }
}

/// Forgets feedback.
private struct NoFeedback: FeedbackRecorder {
    func record(_ tuple: FeedbackTuple, in list: TokenScope, onKept: @escaping @Sendable () -> Void) { onKept() }

    func forget(_ token: DeviceToken, in list: TokenScope) {}
}

/// A provider like those of the years of the binary protocol: it writes frames, and some read.
struct OldProvider {
    /// What a provider learns of a connection.
    enum Result {
        /// Nothing was written.
        case unconnected
        /// An orderly end without a response.
        case complete
        /// The status, and the index of the notification that it names.
        case response(ErrorResponse.Status, Int)
        /// Anything else: it cannot know.
        case failed
    }

    private let tls: TLSConfiguration
    private let port: Int
    private let history: History
    private let command = Chance.one(of: [Command.enhanced, .items])
    /// Many count from 0.
    private let firstIdentifier = UInt32(Chance.number(0...1))
    private let writesInParts = Chance.once(in: 2)

    init(tls: TLSConfiguration, port: Int, history: History) {
        self.tls = tls
        self.port = port
        self.history = history
    }

    /// Sends notifications over a connection, closes its sending side, and reads to the end.
    mutating func send(_ numbers: [Int]) async throws -> Result {
        var frames: [[UInt8]] = []
        for (index, number) in numbers.enumerated() {
            let identifier = self.firstIdentifier + UInt32(index)
            var frame = NotificationFrame(try Row.notification(number), identifier: identifier)
            frame.command = self.command
            frames.append(try frame.bytes)
        }
        let partCount = self.writesInParts ? Chance.number(1...10) : frames.count
        var hasWritten = false
        do {
            return try await ScriptedProvider.withConnection(port: self.port, tls: self.tls) { provider in
                hasWritten = true
                for start in stride(from: 0, to: frames.count, by: partCount) {
                    provider.push(frames[start..<min(frames.count, start + partCount)].flatMap(\.self))
                    if Chance.once(in: 4) { try await SimulatedTime.pass(Chance.duration(0...50)) }
                }
                try? await provider.closeOutput()
                let ending = try await provider.end(within: .seconds(900))
                return self.result(ending, numbers.count)
            }
        } catch {
            self.history.note("a connection failed: \(error)")
            return hasWritten ? .failed : .unconnected
        }
    }

    private func result(_ ending: ScriptedProvider.Ending, _ count: Int) -> Result {
        self.history.note("a connection ended: \(ending.bytes), orderly: \(ending.hasCloseNotify)")
        guard ending.bytes.isEmpty else {
            guard ending.bytes.count == 6, ending.bytes[0] == 8 else { return .failed }
            let identifier = ending.bytes[2...].reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
            let index = Int(identifier) - Int(self.firstIdentifier)
            return .response(ErrorResponse.Status(rawValue: ending.bytes[1]), index)
        }
        return ending.hasCloseNotify && ending.error == nil ? .complete : .failed
    }
}
