// SPDX-License-Identifier: Apache-2.0

import APNSServer
import APNSWire
import Logging
import NIOConcurrencyHelpers
import NIOCore

/// Admits the providers of a ``PushGateway`` as its ``GatewayAdmission`` decides.
final class GatewayBackend: DeferredAdmission, DeferredFeedback {
    private struct Overdue: Error, CustomStringConvertible {
        let timeout: Duration
        var description: String { "no decision within \(self.timeout)" }
    }

    private let configuration: PushGatewayConfiguration
    private let backend: HTTP2Backend
    private let admission: any GatewayAdmission
    private let store: CachedGatewayStore
    private let deliveries: GatewayDeliveries
    private let pendingCount = NIOLockedValueBox(0)

    init(
        _ configuration: PushGatewayConfiguration,
        _ backend: HTTP2Backend,
        admission: any GatewayAdmission,
        store: CachedGatewayStore,
        deliveries: GatewayDeliveries
    ) {
        self.configuration = configuration
        self.backend = backend
        self.admission = admission
        self.store = store
        self.deliveries = deliveries
    }

    /// Refuses the provider, since ``decide(about:until:)`` is called instead.
    func admit(_ provider: ProviderConnection) -> Admission { .refused }

    /// Refuses the provider, since ``decideList(of:until:)`` is called instead.
    func open(_ provider: ProviderConnection) -> (any FeedbackList)? { nil }

    func decide(
        about connection: ProviderConnection,
        until closed: EventLoopFuture<Void>
    ) -> EventLoopFuture<@Sendable () -> Admission> {
        self.decision(about: connection, until: closed).map { provider in
            {
                guard let provider, let bridge = self.bridge(of: provider, connection) else { return .refused }
                return self.backend.admit(connection, bridge, topic: provider.topic)
            }
        }
    }

    func decideList(
        of connection: ProviderConnection,
        until closed: EventLoopFuture<Void>
    ) -> EventLoopFuture<@Sendable () -> (any FeedbackList)?> {
        self.decision(about: connection, until: closed).map { provider in
            {
                guard let provider, let bridge = self.bridge(of: provider, connection) else { return nil }
                let list = self.backend.list(of: connection, bridge, topic: provider.topic)
                return BridgeFeedbackList(self.store, list)
            }
        }
    }

    private func bridge(of provider: GatewayProvider, _ connection: ProviderConnection) -> Bridge? {
        var bridge = BridgeConfiguration(
            name: provider.name,
            admission: AdmissionRule(),
            environment: self.configuration.environment,
            upstream: self.deliveries.upstream(of: provider.name)
        )
        bridge.requests = self.configuration.requests
        bridge.retries = self.configuration.retries
        bridge.rejections = self.configuration.rejections
        bridge.payloadByteCountMax = self.configuration.listener.limits.payloadByteCountMax
        if let found = self.backend.bridge(bridge) { return found }
        self.backend.logRefusal(of: connection, "the gateway has \(HTTP2Backend.providerCountMax) providers already")
        return nil
    }

    /// Asks the admission; the result is `nil` if the provider is refused, which is logged.
    private func decision(
        about connection: ProviderConnection,
        until closed: EventLoopFuture<Void>
    ) -> EventLoopFuture<GatewayProvider?> {
        let countMax = self.configuration.admissionCountMax
        let hasRoom = self.pendingCount.withLockedValue { count in
            guard count < countMax else { return false }
            count += 1
            return true
        }
        guard hasRoom else {
            self.backend.logRefusal(of: connection, "\(countMax) decisions about providers are pending")
            return closed.eventLoop.makeSucceededFuture(nil)
        }
        // Only the first result of the promise counts.
        let decided = closed.eventLoop.makePromise(of: GatewayProvider?.self)
        let task = Task {
            defer { self.pendingCount.withLockedValue { $0 -= 1 } }
            do { decided.succeed(try await self.admission.admit(connection)) } catch { decided.fail(error) }
        }
        let timeout = self.configuration.admissionTimeout
        let timer = closed.eventLoop.scheduleTask(in: TimeAmount(timeout)) {
            decided.fail(Overdue(timeout: timeout))
            task.cancel()
        }
        closed.whenComplete { _ in
            decided.fail(ChannelError.alreadyClosed)
            task.cancel()
        }
        return decided.futureResult.always { _ in timer.cancel() }.map { provider in
            if provider == nil { self.backend.logRefusal(of: connection, "the admission does not admit it") }
            return provider
        }.flatMapErrorThrowing { error in
            if error as? ChannelError == .alreadyClosed { return nil }
            self.backend.logRefusal(of: connection, level: .error, "the admission failed: \(error)")
            return nil
        }
    }
}
