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
        var feedback: [Key: SimulatedDevice] = [:]
    }

    /// The service that the simulator plays.
    let environment: Environment
    /// The notifications that were taken.
    let recorder: NotificationRecorder
    private let state: NIOLockedValueBox<State>
    private let acceptsUnknownTokens: Bool
    private let countedTokenCountMax: Int
    private let onReceive: (@Sendable (ReceivedNotification) -> Void)?
    private let now: @Sendable () -> UInt64

    init(_ configuration: SimulatorConfiguration) {
        var state = State()
        for device in configuration.devices {
            state.devices[Key(token: device.token, environment: device.environment)] = device
        }
        self.environment = configuration.environment
        self.recorder = NotificationRecorder(countMax: configuration.receivedCountMax)
        self.state = NIOLockedValueBox(state)
        self.acceptsUnknownTokens = configuration.acceptsUnknownTokens
        self.countedTokenCountMax = configuration.countedTokenCountMax
        self.onReceive = configuration.onReceive
        self.now = configuration.now
    }

    // MARK: Devices

    /// All of them, in no order.
    var devices: [SimulatedDevice] { Array(self.state.withLockedValue(\.devices).values) }

    func register(_ device: SimulatedDevice) {
        let key = Key(token: device.token, environment: device.environment)
        self.state.withLockedValue { state in
            state.devices[key] = device
            state.feedback[key] = nil
        }
    }

    /// Registers an app at a device of this service, with a new token.
    func register(topic: String) -> DeviceToken {
        var random = SystemRandomNumberGenerator()
        let bytes = (0..<WireLimits.tokenByteCountUsual).map { _ in UInt8.random(in: 0...255, using: &random) }
        guard let token = try? DeviceToken(bytes: bytes) else { preconditionFailure("Any 32 bytes are a token.") }
        self.register(SimulatedDevice(token: token, topic: topic, environment: self.environment))
        return token
    }

    /// Removes an app from its device.
    ///
    /// - Returns: whether it was there.
    func remove(_ token: DeviceToken, at timestamp: UInt64?) -> Bool {
        let timestamp = timestamp ?? self.now()
        return self.state.withLockedValue { state in
            let key = Key(token: token, environment: self.environment)
            guard let device = state.devices[key], device.removalTimestamp == nil else { return false }
            state.devices[key]?.removalTimestamp = timestamp
            return true
        }
    }

    /// What a token is worth for a topic.
    enum Standing: Equatable {
        case alive
        /// Since when, in milliseconds since 1970.
        case dead(since: UInt64)
        /// It belongs to another topic.
        case foreign
        /// It is not of this environment, or of none.
        case unknown
    }

    func standing(of token: DeviceToken, topic: String?) -> Standing {
        let device = self.state.withLockedValue { $0.devices[Key(token: token, environment: self.environment)] }
        guard let device else { return self.acceptsUnknown(token) ? .alive : .unknown }
        guard device.topic == topic else { return .foreign }
        return device.removalTimestamp.map { .dead(since: $0) } ?? .alive
    }

    /// No device ever had a token that is shorter than the usual ones.
    private func acceptsUnknown(_ token: DeviceToken) -> Bool {
        self.acceptsUnknownTokens && token.byteCount >= WireLimits.tokenByteCountUsual
    }

    // MARK: Notifications

    /// Counts a notification that is taken, and keeps it.
    func take(_ notification: ReceivedNotification) {
        var notification = notification
        notification.timestamp = self.now()
        let token = notification.token
        self.state.withLockedValue { state in
            state.statistics.processedCount += 1
            if notification.isDead {
                state.statistics.deadCount += 1
                let key = Key(token: token, environment: self.environment)
                state.feedback[key] = state.devices[key]
            }
            if let count = state.counts[token] {
                state.counts[token] = count + 1
            } else if state.counts.count < self.countedTokenCountMax {
                state.counts[token] = 1
            }
        }
        notification = self.recorder.receive(notification)
        self.onReceive?(notification)
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

    func receivedCount(of token: DeviceToken) -> Int { self.state.withLockedValue { $0.counts[token] ?? 0 } }

    /// What is said where a notification for a token does not come.
    func overdue(_ token: DeviceToken, within duration: Duration) -> SimulatorError {
        self.state.withLockedValue { state in
            .notReceived(
                within: duration,
                count: state.counts[token] ?? 0,
                overallCount: state.statistics.processedCount,
                rejectedCount: state.statistics.rejectedCount
            )
        }
    }

    // MARK: Feedback

    func feedback(topic: String, environment: Environment) -> [FeedbackTuple] {
        let devices = self.state.withLockedValue { Array($0.feedback.values) }
        return devices.filter { $0.topic == topic && $0.environment == environment }
            .compactMap(\.feedback)
            .sorted { ($0.failedAt, $0.token.hexadecimal) < ($1.failedAt, $1.token.hexadecimal) }
    }

    /// Takes entries off the lists, unless they changed since.
    func removeFeedback(_ tuples: some Sequence<FeedbackTuple>) {
        self.state.withLockedValue { state in
            for tuple in tuples {
                let key = Key(token: tuple.token, environment: self.environment)
                if state.feedback[key]?.feedback == tuple { state.feedback[key] = nil }
            }
        }
    }
}
