// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import APNSProviderHTTP2
import APNSSession
import APNSSimulator
import APNSWire
import CSimulatedKernel
import Logging
import NIOConcurrencyHelpers
import NIOPosix
import OpenSSLTLS

/// A client of either protocol, and a service that records what it processes, with a network in between that fails.
///
/// What is checked is the promise to callers: each notification has one outcome; an accepted one arrived; one that is
/// unsent, rejected or invalid did not; and one that arrived twice is flagged.
struct ClientScenario: Sendable {
    private let materials: Materials
    private let history: History

    init(_ materials: Materials, _ history: History) {
        self.materials = materials
        self.history = history
    }

    /// How often each notification arrived.
    private let arrived = NIOLockedValueBox<[Int: Int]>([:])
    /// How many rows of a sequence were read.
    private let readCount = NIOLockedValueBox(0)
    private let reports = NIOLockedValueBox<[Int: [DeliveryReport]]>([:])

    private static let quiet = Logger(label: "simulation") { _ in SwiftLogNoOpLogHandler() }

    func run() async throws {
        let group = MultiThreadedEventLoopGroup(
            numberOfThreads: simplified.contains(.threads) ? Chance.number(1...2) : 1
        )
        var simulated = try SimulatorConfiguration(tls: self.materials.server)
        simulated.acceptsUnknownTokens = true
        // Responses that do not name the notification.
        simulated.zeroIdentifierCount = Chance.one(of: [0, 0, 1, 1000])
        simulated.onReceive = { received in
            guard let number = received.token.flatMap(Row.number) else { return }
            self.history.note("\(number) arrived")
            self.arrived.withLockedValue { $0[number, default: 0] += 1 }
        }
        try await Simulator.withRunning(simulated, logger: Self.quiet) { simulator in
            Network.make()
            let isBinary = Chance.once(in: 2)
            let policy = Chance.one(of: [DeliveryPolicy.atMostOnce, .atLeastOnce])
            let configuration =
                isBinary
                ? self.binary(simulator.gatewayPort, policy) : self.http2(simulator.http2Port, policy)
            let client = try PushClient(configuration, eventLoopGroup: group, logger: Self.quiet)
            let count = min(Chance.number(1...300), simplified.countMax)
            self.history.note("\(isBinary ? "binary" : "http2"), \(policy), \(count) notifications")
            let trouble = Task { try await Network.makeTrouble(self.history) }
            async let running: Void = client.run()
            await self.send(count, client)
            if Chance.once(in: 3) { client.stop() } else { client.finish() }
            do { try await running } catch { self.history.note("the client ended: \(error)") }
            trouble.cancel()
            _ = await trouble.result
            // What is still on its way arrives.
            sim_set_partition(false)
            try await SimulatedTime.pass(.seconds(120))
            self.check(count, policy)
        }
    }

    // MARK: The client

    private func binary(_ port: Int, _ policy: DeliveryPolicy) -> PushClientConfiguration {
        var configuration = BinaryConfiguration(
            endpoint: Endpoint(host: "localhost", port: port),
            tls: self.materials.client
        )
        configuration.limits = .service
        configuration.limits.policy = policy
        configuration.command = Chance.one(of: [.simple, .enhanced, .items])
        configuration.connectionCount = Chance.number(1...2)
        configuration.limits.windowCount = UInt64(Chance.one(of: [1, 7, 50, 100_000]))
        configuration.limits.verificationPause = Chance.one(of: [nil, .milliseconds(20)])
        configuration.limits.verificationDelay = Chance.one(of: [.milliseconds(5), .milliseconds(100), .seconds(1)])
        configuration.limits.responseTimeout = Chance.one(of: [.seconds(2), .seconds(60)])
        configuration.limits.outageTimeout = Chance.one(of: [.milliseconds(200), .seconds(30)])
        configuration.queueTimeout = Chance.one(of: [nil, .milliseconds(500), .seconds(30)])
        return .binary(configuration)
    }

    private func http2(_ port: Int, _ policy: DeliveryPolicy) -> PushClientConfiguration {
        var configuration = HTTP2Configuration(
            endpoint: HTTP2Endpoint(host: "localhost", port: port),
            identity: self.materials.identity,
            trust: self.materials.client.trust
        )
        configuration.resendsUnknown = policy == .atLeastOnce
        configuration.connectionCount = Chance.number(1...2)
        configuration.streamCountMax = Chance.one(of: [1, 10, 1000])
        configuration.responseTimeout = Chance.one(of: [.seconds(2), .seconds(30)])
        configuration.queueTimeout = Chance.one(of: [nil, .milliseconds(500), .seconds(60)])
        configuration.attemptCountMax = Chance.number(1...5)
        return .http2(configuration, RequestRules(topic: "com.example.app"))
    }

    private func record(_ number: Int, _ report: DeliveryReport) {
        self.history.note("\(number): \(report)")
        self.reports.withLockedValue { $0[number, default: []].append(report) }
    }

    private func send(_ count: Int, _ client: PushClient) async {
        switch Chance.number(0...2) {
        case 0: await self.sendSequence(count, client)
        default: await self.sendEach(count, client)
        }
    }

    /// Sends each in a task of its own; some are cancelled, or have a deadline.
    private func sendEach(_ count: Int, _ client: PushClient) async {
        await withTaskGroup(of: Void.self) { group in
            for number in 0..<count {
                let task = Task { await self.sendOne(number, client) }
                if Chance.once(in: 5) {
                    let delay = Chance.duration(0...2000)
                    group.addTask {
                        try? await SimulatedTime.pass(delay)
                        task.cancel()
                    }
                }
                group.addTask { await task.value }
                if Chance.once(in: 40) { try? await SimulatedTime.pass(Chance.duration(0...400)) }
            }
        }
    }

    private func sendOne(_ number: Int, _ client: PushClient) async {
        guard let notification = try? Row.notification(number) else { return }
        if Chance.once(in: 5) {
            let deadline = ContinuousClock.now + Chance.duration(0...3000)
            self.record(number, await client.report(of: notification, deadline: deadline))
        } else {
            self.record(number, await client.report(of: notification))
        }
    }

    private func sendSequence(_ count: Int, _ client: PushClient) async {
        let rows = CountedRows(
            rows: (0..<count).compactMap { number in
                (try? Row.notification(number)).map { (id: number, notification: $0) }
            },
            readCount: self.readCount
        )
        let end = Chance.once(in: 3) ? Chance.number(0...count) : nil
        let task = Task {
            var readCount = 0
            do {
                for try await record in client.send(rows) {
                    self.record(record.id, record.report)
                    readCount += 1
                    if readCount == end { withUnsafeCurrentTask { $0?.cancel() } }
                }
            } catch {
                self.history.note("the loop ended: \(error)")
            }
        }
        await task.value
    }

    // MARK: The check

    private func check(_ count: Int, _ policy: DeliveryPolicy) {
        let (arrived, reports) = (self.arrived.withLockedValue { $0 }, self.reports.withLockedValue { $0 })
        for number in 0..<count {
            let arrivedCount = arrived[number] ?? 0
            guard let report = reports[number]?.first else {
                // A sequence that ended early may not have read it.
                if arrivedCount > 0 { self.history.fail("\(number) arrived, and has no outcome") }
                if number < self.readCount.withLockedValue({ $0 }) {
                    self.history.fail("\(number) was read, and has no outcome")
                }
                continue
            }
            let (isFlagged, isBad) = (report.isPossibleDuplicate, Row.isBad(number))
            if reports[number]?.count != 1 { self.history.fail("\(number) has several outcomes") }
            switch report.outcome {
            case .accepted:
                if arrivedCount == 0 { self.history.fail("\(number) is accepted, and did not arrive") }
            case .rejected:
                if !isBad { self.history.fail("\(number) is rejected, though it is valid") }
            case .unsent:
                if arrivedCount > 0, !isFlagged { self.history.fail("\(number) is unsent, and arrived") }
            case .invalid, .suppressed:
                if arrivedCount > 0 { self.history.fail("\(number) is \(report.outcome), and arrived") }
            case .indeterminate: break
            @unknown default: break
            }
            if arrivedCount > 1, !isFlagged { self.history.fail("\(number) arrived twice, unflagged") }
            if arrivedCount > 1, policy == .atMostOnce { self.history.fail("\(number) arrived twice, at most once") }
        }
    }
}

/// A sequence that records how much of it was read.
private struct CountedRows: Sequence, Sendable {
    let rows: [(id: Int, notification: PushNotification)]
    let readCount: NIOLockedValueBox<Int>

    func makeIterator() -> AnyIterator<(id: Int, notification: PushNotification)> {
        var rows = self.rows.makeIterator()
        return AnyIterator {
            let row = rows.next()
            if row != nil { self.readCount.withLockedValue { $0 += 1 } }
            return row
        }
    }
}
