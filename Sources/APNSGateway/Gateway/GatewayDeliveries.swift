// SPDX-License-Identifier: Apache-2.0

import APNSProviderHTTP2
import APNSWire
import NIOConcurrencyHelpers

/// Runs the deliveries of a ``GatewayUpstream``, each in a task.
final class GatewayDeliveries: Sendable {
    typealias OnResponse = @Sendable (DeliveryOutcome, _ latency: Duration?) -> Void

    private struct Delivery: Sendable {
        var request: PushRequest
        var name: String
        var onResponse: OnResponse
    }

    private struct State: Sendable {
        var waiting: [Delivery] = []
        /// The deliveries without an outcome, including those that wait.
        var count = 0
        var isEnded = false
    }

    private let upstream: any GatewayUpstream
    private let countMax: Int
    private let state = NIOLockedValueBox(State())
    private let wakeups: AsyncStream<Void>
    private let wakeup: AsyncStream<Void>.Continuation

    init(_ upstream: any GatewayUpstream, countMax: Int) {
        self.upstream = upstream
        self.countMax = countMax
        (self.wakeups, self.wakeup) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
    }

    /// Makes the destination of a provider's notifications.
    func upstream(of name: String) -> any Upstream { Destination(deliveries: self, name: name) }

    private struct Destination: Upstream {
        let deliveries: GatewayDeliveries
        let name: String

        var hasRoom: Bool { self.deliveries.hasRoom }

        func send(_ request: PushRequest, onResponse: @escaping OnResponse) {
            self.deliveries.submit(Delivery(request: request, name: self.name, onResponse: onResponse))
        }
    }

    private var hasRoom: Bool { self.state.withLockedValue { $0.count < self.countMax } }

    private func submit(_ delivery: Delivery) {
        let isEnded = self.state.withLockedValue { state in
            guard !state.isEnded else { return true }
            state.count += 1
            state.waiting.append(delivery)
            return false
        }
        if isEnded { delivery.onResponse(.unsent(.stopped), nil) } else { self.wakeup.yield() }
    }

    /// Delivers until ``finish()`` was called, or until the task is cancelled; what has not begun then is unsent.
    func run() async {
        await withDiscardingTaskGroup { group in
            for await _ in self.wakeups {
                for delivery in self.take() { group.addTask { await self.deliver(delivery) } }
            }
        }
        let rest = self.state.withLockedValue { state in
            defer { (state.waiting, state.isEnded) = ([], true) }
            return state.waiting
        }
        for delivery in rest { delivery.onResponse(.unsent(.stopped), nil) }
    }

    func finish() { self.wakeup.finish() }

    private func take() -> [Delivery] {
        self.state.withLockedValue { state in
            defer { state.waiting = [] }
            return state.waiting
        }
    }

    private func deliver(_ delivery: Delivery) async {
        let request = delivery.request
        var notification = PushNotification(token: request.token, payload: request.payload, expiry: request.expiry)
        notification.priority = request.priority.flatMap { PushPriority(rawValue: $0) }
        notification.topic = request.topic
        notification.pushType = request.pushType
        notification.collapseID = request.collapseID
        notification.apnsID = request.apnsID
        let provider = GatewayProvider(name: delivery.name, topic: request.topic ?? "")
        let beganAt = ContinuousClock.now
        let outcome = await self.upstream.deliver(notification, from: provider)
        self.state.withLockedValue { $0.count -= 1 }
        delivery.onResponse(outcome, ContinuousClock.now - beganAt)
    }
}
