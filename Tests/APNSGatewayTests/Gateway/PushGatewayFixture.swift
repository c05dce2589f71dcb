// SPDX-License-Identifier: Apache-2.0

import APNSTestKit
import ListenerFixtures
import Logging
import NIOConcurrencyHelpers

@testable import APNSGateway

/// A gateway with an admission, a store and an upstream of its own.
enum PushGatewayFixture {
    struct Failure: Error {}

    private struct Overdue: Error {}

    /// An admission that a closure decides.
    struct Admission: GatewayAdmission {
        var decide: @Sendable (ProviderConnection) async throws -> GatewayProvider? = {
            $0.identity.topic.map { GatewayProvider(name: "shop", topic: $0) }
        }

        func admit(_ connection: ProviderConnection) async throws -> GatewayProvider? {
            try await self.decide(connection)
        }
    }

    /// Rows in memory, which survive the gateways that use them.
    actor Rows: GatewayStore {
        private(set) var rows: [String: String] = [:]
        /// Whether a call fails, by how many have failed before.
        private let fails: @Sendable (_ failedCount: Int) -> Bool
        private(set) var failedCount = 0
        private let beforeSave: @Sendable () async -> Void

        init(
            _ rows: [String: String] = [:],
            fails: @escaping @Sendable (_ failedCount: Int) -> Bool = { _ in false },
            beforeSave: @escaping @Sendable () async -> Void = {}
        ) {
            self.rows = rows
            self.fails = fails
            self.beforeSave = beforeSave
        }

        func load() throws -> [String: String] { self.rows }

        /// A failing call stores half of its rows, since any part may be stored.
        func save(_ rows: [String: String?]) async throws {
            await self.beforeSave()
            let isFailing = self.fails(self.failedCount)
            let count = isFailing ? rows.count / 2 : rows.count
            for (key, value) in rows.prefix(count) { self.rows[key] = value }
            guard isFailing else { return }
            self.failedCount += 1
            throw Failure()
        }

        func count(_ prefix: String) -> Int { self.rows.keys.count { $0.hasPrefix(prefix) } }
    }

    /// An upstream whose outcomes a closure decides, and which records the notifications.
    final class Upstream: GatewayUpstream {
        private let record = ObservedValue<[PushNotification]>([])
        private let outcome: @Sendable (Int) async -> DeliveryOutcome

        init(_ outcome: @escaping @Sendable (Int) async -> DeliveryOutcome = { _ in .accepted }) {
            self.outcome = outcome
        }

        var delivered: [PushNotification] { self.record.current }

        /// The number of the token of each notification, in order.
        var numbers: [Int] { self.delivered.map { ScriptedUpstream.number($0.token) }.sorted() }

        func deliver(_ notification: PushNotification, from provider: GatewayProvider) async -> DeliveryOutcome {
            self.record.change { $0.append(notification) }
            return await self.outcome(ScriptedUpstream.number(notification.token))
        }

        func wait(count: Int) async throws {
            try await self.record.wait(until: { $0.count >= count }) { _ in Overdue() }
        }
    }

    /// Waits until it is opened, regardless of cancellation.
    final class Latch: Sendable {
        private let isOpen = ObservedValue(false)

        func open() { self.isOpen.change { $0 = true } }

        func wait() async { try? await self.isOpen.wait(within: .seconds(60), until: { $0 }) { _ in Overdue() } }
    }

    static func gateway(
        _ upstream: any GatewayUpstream = Upstream(),
        admission: Admission = Admission(),
        store: any GatewayStore = Rows(),
        logger: Logger = .current,
        change: (inout PushGatewayConfiguration) -> Void = { _ in }
    ) throws -> PushGateway {
        var configuration = PushGatewayConfiguration(
            identity: try ListenerFixture.gateway.get().identity,
            clientTrust: .pem(try ListenerFixture.authority.get().certificatePEM),
            port: 0,
            feedbackPort: 0
        )
        configuration.feedback?.closingPause = .milliseconds(10)
        configuration.retries.backoff.first = .milliseconds(10)
        change(&configuration)
        let cached = CachedGatewayStore(
            store,
            logger: logger,
            backoff: Backoff(first: .milliseconds(1), max: .milliseconds(2))
        )
        return PushGateway(configuration, admission: admission, store: cached, upstream: upstream, logger: logger)
    }

    static func connect<Value: Sendable>(
        _ port: Int,
        _ body: (ScriptedProvider) async throws -> Value
    ) async throws -> Value {
        try await ScriptedProvider.withConnection(port: port, tls: try ListenerFixture.client(), body)
    }
}
