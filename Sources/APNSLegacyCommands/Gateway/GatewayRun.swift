// SPDX-License-Identifier: Apache-2.0

import APNSGateway
import APNSHTTP2
import APNSSession
import APNSWire
import CoreMetrics
import FoundationEssentials
import Glibc
import Logging
import NIOConcurrencyHelpers
import NIOCore
import NIOPosix
import OpenSSLTLS
import UnixSignals

/// The gateway from start to end.
final class GatewayRun: Sendable {
    private struct Upstreams: Sendable {
        var parts: GatewayParts
        var switches: [String: UpstreamSwitch] = [:]
        var clients: [PushClient] = []
        var isEnding = false
    }

    private let reread: @Sendable () throws -> GatewayParts
    private let upstreams: NIOLockedValueBox<Upstreams>
    private let metrics: GatewayMetrics
    private let logger: Logger
    private let store: SQLiteFeedbackStore
    private let backend: HTTP2Backend
    private let front: BinaryFront
    private let feedbackFront: FeedbackFront

    /// - Parameters:
    ///   - parts: what the gateway is made of.
    ///   - reread: reads the configuration anew.
    /// - Throws: where the feedback database cannot be used.
    init(_ parts: GatewayParts, reread: @escaping @Sendable () throws -> GatewayParts) throws {
        self.reread = reread
        let level = Logger.Level(rawValue: parts.file.logLevel.rawValue) ?? .info
        let logger = Logger(label: "apns-legacy.gateway") { _ in GatewayLog(level: level) }
        self.logger = logger
        let metrics = GatewayMetrics()
        MetricsSystem.bootstrap(metrics)
        self.metrics = metrics
        self.upstreams = NIOLockedValueBox(Upstreams(parts: parts))
        self.store = try SQLiteFeedbackStore(path: parts.file.feedback, logger: logger)
        self.backend = HTTP2Backend([], recorder: self.store, logger: logger)
        self.front = BinaryFront(configuration: Self.front(parts), backend: self.backend, logger: logger)
        self.feedbackFront = FeedbackFront(
            configuration: Self.feedbackFront(parts),
            store: BridgeFeedback(backend: self.backend, store: self.store),
            logger: logger
        )
    }

    private static func front(_ parts: GatewayParts) -> BinaryFrontConfiguration {
        var front = BinaryFrontConfiguration(identity: parts.identity, clientTrust: parts.clientTrust)
        let (listen, limits) = (parts.file.listen, parts.file.limits)
        front.host = listen.host
        front.port = listen.port
        front.minimumVersion = listen.tlsMinimum
        front.maximumVersion = listen.tlsMaximum
        front.cipherList = listen.ciphers
        front.admitsUnverified = true
        front.inFlightCountMax = limits.inFlightPerConnection
        front.connectionCountMax = limits.connections
        front.handshakeTimeout = limits.handshake
        front.idleTimeout = limits.idle
        front.shutdownDuration = limits.shutdown
        let payloadOctetCountMax = parts.providers.map(\.file.payloadLimit).max() ?? 2048
        front.limits.payloadOctetCountMax = max(front.limits.payloadOctetCountMax, payloadOctetCountMax)
        front.rules.payloadOctetCountMaxEnhanced = payloadOctetCountMax
        front.rules.payloadOctetCountMaxItems = payloadOctetCountMax
        return front
    }

    private static func feedbackFront(_ parts: GatewayParts) -> FeedbackFrontConfiguration {
        var front = FeedbackFrontConfiguration(identity: parts.identity, clientTrust: parts.clientTrust)
        let listen = parts.file.listen
        front.host = listen.host
        front.port = listen.feedbackPort
        front.minimumVersion = listen.tlsMinimum
        front.maximumVersion = listen.tlsMaximum
        front.cipherList = listen.ciphers
        front.admitsUnverified = true
        front.handshakeTimeout = parts.file.limits.handshake
        front.shutdownDuration = parts.file.limits.shutdown
        return front
    }

    /// Runs until SIGTERM or SIGINT, or until it cannot go on.
    func run() async throws {
        let admin = try await self.listenForOperators()
        try await withThrowingTaskGroup(of: Void.self) { group in
            try self.connect(self.upstreams.withLockedValue(\.parts), &group)
            group.addTask {
                try await self.front.run()
                // Nothing is under way any more that needs them.
                for client in self.upstreams.withLockedValue(\.clients) { client.finish() }
            }
            group.addTask { try await self.feedbackFront.run() }
            let signals = await UnixSignalsSequence(trapping: [.sigterm, .sigint, .sighup])
            let (reloads, reloading) = AsyncStream.makeStream(of: Void.self)
            group.addTask {
                for await signal in signals {
                    guard signal == .sighup else { break }
                    reloading.yield()
                }
                reloading.finish()
            }
            let (gateway, feedback) = (try await self.front.boundAddress, try await self.feedbackFront.boundAddress)
            let operators = admin?.address.map { "\($0)" } ?? "off"
            self.logger.notice(
                "gateway ready",
                metadata: [
                    "push.gateway.address": "\(gateway)", "push.feedback.address": "\(feedback)",
                    "push.admin.address": "\(operators)",
                ]
            )
            // For scripts that let it choose its ports.
            print("gateway \(gateway.port ?? 0) feedback \(feedback.port ?? 0) admin \(admin?.address?.port ?? 0)")
            fflush(nil)
            for await _ in reloads { self.reload(&group) }
            self.logger.notice("gateway ending")
            self.upstreams.withLockedValue { $0.isEnding = true }
            self.feedbackFront.stop()
            self.front.stop()
            try await group.waitForAll()
        }
        await self.store.flush()
        await admin?.close()
        self.logger.notice("gateway ended")
    }

    private func connect(_ parts: GatewayParts, _ group: inout ThrowingTaskGroup<Void, any Error>) throws {
        let clients = try parts.providers.map { try PushClient($0.push, logger: self.logger) }
        let (old, configurations) = self.upstreams.withLockedValue { upstreams in
            let old = upstreams.clients
            upstreams.parts = parts
            upstreams.clients = clients
            let configurations = zip(parts.providers, clients).map { provider, client in
                let upstream = PushUpstream(client)
                let present = upstreams.switches[provider.file.name] ?? UpstreamSwitch(upstream)
                present.turn(to: upstream)
                upstreams.switches[provider.file.name] = present
                return provider.bridge(present)
            }
            return (old, configurations)
        }
        for (provider, client) in zip(parts.providers, clients) {
            group.addTask {
                do { try await client.run() } catch {
                    self.logger.error(
                        "service unusable until certificates are read anew",
                        metadata: ["push.provider": "\(provider.file.name)", "push.connection.failure": "\(error)"]
                    )
                }
            }
        }
        self.backend.reload(configurations)
        for client in old { client.finish() }
    }

    private func reload(_ group: inout ThrowingTaskGroup<Void, any Error>) {
        do {
            let parts = try self.reread()
            try self.front.reload(identity: parts.identity, clientTrust: parts.clientTrust)
            try self.feedbackFront.reload(identity: parts.identity, clientTrust: parts.clientTrust)
            try self.connect(parts, &group)
            self.logger.notice("configuration read anew")
        } catch {
            self.logger.error("configuration not read anew", metadata: ["push.failure": "\(error)"])
        }
    }

    private func listenForOperators() async throws -> AdminFront? {
        guard let admin = self.upstreams.withLockedValue(\.parts.file.admin) else { return nil }
        let answers = AdminFront.Answers(
            isHealthy: { self.upstreams.withLockedValue { !$0.isEnding } },
            metrics: { self.metrics.text(with: self.gauges) }
        )
        do {
            return try await AdminFront.listen(
                host: admin.host,
                port: admin.port,
                group: MultiThreadedEventLoopGroup.singleton,
                answers: answers
            )
        } catch {
            throw CommandFailure(.unavailable, "cannot listen on \(admin.host) port \(admin.port): \(error)")
        }
    }

    private typealias Gauge = (label: String, dimensions: [(String, String)], value: Double)

    private var gauges: [Gauge] {
        let parts = self.upstreams.withLockedValue(\.parts)
        let now = Date().timeIntervalSince1970
        func days(_ end: Int64) -> Double { ((Double(end) - now) / 86_400 * 100).rounded() / 100 }
        var gauges: [Gauge] = [
            ("push_gateway_connections", [], Double(self.front.connectionCount)),
            ("push_feedback_connections", [], Double(self.feedbackFront.connectionCount)),
            (
                "push_certificate_days_left", [("provider", ""), ("use", "server")],
                days(parts.identity.certificate.notAfter)
            ),
        ]
        for (name, count) in self.backend.inFlightCounts {
            gauges.append(("push_gateway_in_flight", [("provider", name)], Double(count)))
        }
        for provider in parts.providers {
            guard let end = provider.certificateEnd else { continue }
            let dimensions = [("provider", provider.file.name), ("use", "upstream")]
            gauges.append(("push_certificate_days_left", dimensions, days(end)))
        }
        for (list, count) in self.store.counts {
            let dimensions = [("topic", list.topic), ("environment", list.environment)]
            gauges.append(("push_feedback_backlog", dimensions, Double(count)))
        }
        return gauges
    }
}
