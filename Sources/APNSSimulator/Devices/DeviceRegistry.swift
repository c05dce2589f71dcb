// SPDX-License-Identifier: Apache-2.0

import APNSWire
import NIOConcurrencyHelpers

/// The devices of a simulator, and what became of every notification.
final class DeviceRegistry: Sendable {
    private struct Key: Hashable {
        var token: DeviceToken
        var environment: Environment
    }

    private struct State {
        var devices: [Key: SimulatedDevice] = [:]
        var statistics = SimulatorStatistics()
        var counts: [DeviceToken: Int] = [:]
        /// A ring of the last notifications.
        var last: [DeliveredNotification] = []
        var lastStart = 0
        var feedback: [Key: SimulatedDevice] = [:]
    }

    private let state: NIOLockedValueBox<State>
    private let acceptsUnknownTokens: Bool
    private let countedTokenCountMax: Int
    private let lastCountMax: Int

    init(_ configuration: SimulatorConfiguration) {
        var state = State()
        for device in configuration.devices {
            state.devices[Key(token: device.token, environment: device.environment)] = device
        }
        self.state = NIOLockedValueBox(state)
        self.acceptsUnknownTokens = configuration.acceptsUnknownTokens
        self.countedTokenCountMax = configuration.countedTokenCountMax
        self.lastCountMax = configuration.lastDeliveryCountMax
    }

    func register(_ device: SimulatedDevice) {
        let key = Key(token: device.token, environment: device.environment)
        self.state.withLockedValue { state in
            state.devices[key] = device
            state.feedback[key] = nil
        }
    }

    /// No device ever had a token that is shorter than the usual ones.
    private func acceptsUnknown(_ token: DeviceToken) -> Bool {
        self.acceptsUnknownTokens && token.byteCount >= WireLimits.tokenByteCountUsual
    }

    /// What a token is worth for a topic.
    enum Standing: Equatable {
        case alive
        /// Since when, in seconds since 1970.
        case dead(since: UInt32)
        /// It belongs to another topic.
        case foreign
        /// It is not of this environment, or of none.
        case unknown
    }

    func standing(of token: DeviceToken, topic: String?, environment: Environment) -> Standing {
        let device = self.state.withLockedValue { $0.devices[Key(token: token, environment: environment)] }
        guard let device else { return self.acceptsUnknown(token) ? .alive : .unknown }
        guard device.topic == topic else { return .foreign }
        return device.deadSince.map { .dead(since: $0) } ?? .alive
    }

    func deliver(_ delivered: DeliveredNotification, environment: Environment) {
        let token = delivered.notification.token
        self.state.withLockedValue { state in
            state.statistics.processedCount += 1
            if delivered.isDead {
                state.statistics.deadCount += 1
                let key = Key(token: token, environment: environment)
                state.feedback[key] = state.devices[key]
            }
            if let count = state.counts[token] {
                state.counts[token] = count + 1
            } else if state.counts.count < self.countedTokenCountMax {
                state.counts[token] = 1
            }
            guard self.lastCountMax > 0 else { return }
            if state.last.count < self.lastCountMax {
                state.last.append(delivered)
            } else {
                state.last[state.lastStart] = delivered
                state.lastStart = (state.lastStart + 1) % self.lastCountMax
            }
        }
    }

    /// Counts a message that reached the simulator.
    ///
    /// - Returns: its number among those of all connections, from 1.
    func countMessage() -> UInt64 {
        self.state.withLockedValue { state in
            state.statistics.messageCount += 1
            return UInt64(state.statistics.messageCount)
        }
    }

    func change(_ body: (inout SimulatorStatistics) -> Void) {
        self.state.withLockedValue { body(&$0.statistics) }
    }

    var statistics: SimulatorStatistics { self.state.withLockedValue(\.statistics) }

    func deliveryCount(of token: DeviceToken) -> Int { self.state.withLockedValue { $0.counts[token] ?? 0 } }

    var lastDeliveries: [DeliveredNotification] {
        self.state.withLockedValue { Array($0.last[$0.lastStart...] + $0.last[..<$0.lastStart]) }
    }

    func feedback(topic: String, environment: Environment) -> [FeedbackTuple] {
        let devices = self.state.withLockedValue { Array($0.feedback.values) }
        return devices.filter { $0.topic == topic && $0.environment == environment }
            .compactMap { device in device.deadSince.map { FeedbackTuple(token: device.token, failedAt: $0) } }
            .sorted { ($0.failedAt, $0.token.hexadecimal) < ($1.failedAt, $1.token.hexadecimal) }
    }

    /// Takes entries off the lists, unless they changed since.
    func removeFeedback(_ tuples: some Sequence<FeedbackTuple>, environment: Environment) {
        self.state.withLockedValue { state in
            for tuple in tuples {
                let key = Key(token: tuple.token, environment: environment)
                if state.feedback[key]?.deadSince == tuple.failedAt { state.feedback[key] = nil }
            }
        }
    }

    /// Removes an app from its device.
    ///
    /// - Returns: whether it was there.
    func uninstall(_ token: DeviceToken, environment: Environment, at time: UInt32) -> Bool {
        self.state.withLockedValue { state in
            let key = Key(token: token, environment: environment)
            guard state.devices[key]?.deadSince == nil else { return false }
            state.devices[key]?.deadSince = time
            return state.devices[key] != nil
        }
    }
}
