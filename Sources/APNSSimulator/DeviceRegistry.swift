// SPDX-License-Identifier: Apache-2.0

import APNSWire
import NIOConcurrencyHelpers

/// The devices of a simulator and what became of every notification: the truth that providers' accounts are held
/// against.
final class DeviceRegistry: Sendable {
    private struct Key: Hashable {
        var token: DeviceToken
        var environment: DeviceEnvironment
    }

    private struct Books {
        var devices: [Key: SimulatedDevice] = [:]
        var statistics = SimulatorStatistics()
        var counts: [DeviceToken: Int] = [:]
        /// A ring of the last notifications.
        var last: [DeliveredNotification] = []
        var lastStart = 0
        var feedback: [Key: SimulatedDevice] = [:]
    }

    private let books: NIOLockedValueBox<Books>
    private let acceptsUnknownTokens: Bool
    private let countedTokenCountMax: Int
    private let lastCountMax: Int

    init(_ configuration: SimulatorConfiguration) {
        var books = Books()
        for device in configuration.devices {
            books.devices[Key(token: device.token, environment: device.environment)] = device
        }
        self.books = NIOLockedValueBox(books)
        self.acceptsUnknownTokens = configuration.acceptsUnknownTokens
        self.countedTokenCountMax = configuration.countedTokenCountMax
        self.lastCountMax = configuration.lastDeliveryCountMax
    }

    func register(_ device: SimulatedDevice) {
        let key = Key(token: device.token, environment: device.environment)
        self.books.withLockedValue { books in
            books.devices[key] = device
            books.feedback[key] = nil
        }
    }

    /// Whether the device of a token is dead; `nil` for a token that is not of this topic and environment.
    func isDead(_ token: DeviceToken, topic: String?, environment: DeviceEnvironment) -> Bool? {
        self.books.withLockedValue { books in
            guard let device = books.devices[Key(token: token, environment: environment)] else {
                return self.acceptsUnknown(token) ? false : nil
            }
            return device.topic == topic ? device.deadSince != nil : nil
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

    func standing(of token: DeviceToken, topic: String, environment: DeviceEnvironment) -> Standing {
        let device = self.books.withLockedValue { $0.devices[Key(token: token, environment: environment)] }
        guard let device else { return self.acceptsUnknown(token) ? .alive : .unknown }
        guard device.topic == topic else { return .foreign }
        return device.deadSince.map { .dead(since: $0) } ?? .alive
    }

    func deliver(_ delivered: DeliveredNotification, environment: DeviceEnvironment) {
        let token = delivered.notification.token
        self.books.withLockedValue { books in
            books.statistics.processedCount += 1
            if delivered.isDead {
                books.statistics.deadCount += 1
                let key = Key(token: token, environment: environment)
                books.feedback[key] = books.devices[key]
            }
            if let count = books.counts[token] {
                books.counts[token] = count + 1
            } else if books.counts.count < self.countedTokenCountMax {
                books.counts[token] = 1
            }
            guard self.lastCountMax > 0 else { return }
            if books.last.count < self.lastCountMax {
                books.last.append(delivered)
            } else {
                books.last[books.lastStart] = delivered
                books.lastStart = (books.lastStart + 1) % self.lastCountMax
            }
        }
    }

    /// Counts a message that reached the simulator.
    ///
    /// - Returns: its number among those of all connections, from 1.
    func countMessage() -> UInt64 {
        self.books.withLockedValue { books in
            books.statistics.messageCount += 1
            return UInt64(books.statistics.messageCount)
        }
    }

    func change(_ body: (inout SimulatorStatistics) -> Void) {
        self.books.withLockedValue { body(&$0.statistics) }
    }

    var statistics: SimulatorStatistics { self.books.withLockedValue(\.statistics) }

    func deliveryCount(of token: DeviceToken) -> Int { self.books.withLockedValue { $0.counts[token] ?? 0 } }

    var lastDeliveries: [DeliveredNotification] {
        self.books.withLockedValue { Array($0.last[$0.lastStart...] + $0.last[..<$0.lastStart]) }
    }

    func feedback(topic: String, environment: DeviceEnvironment) -> [FeedbackTuple] {
        let devices = self.books.withLockedValue { Array($0.feedback.values) }
        return devices.filter { $0.topic == topic && $0.environment == environment }
            .compactMap { device in device.deadSince.map { FeedbackTuple(failedAt: $0, token: device.token) } }
            .sorted { ($0.failedAt, $0.token.hexadecimal) < ($1.failedAt, $1.token.hexadecimal) }
    }

    /// Takes entries off the lists, unless they changed since.
    func removeFeedback(_ tuples: some Sequence<FeedbackTuple>, environment: DeviceEnvironment) {
        self.books.withLockedValue { books in
            for tuple in tuples {
                let key = Key(token: tuple.token, environment: environment)
                if books.feedback[key]?.deadSince == tuple.failedAt { books.feedback[key] = nil }
            }
        }
    }

    /// Removes an app from its device.
    ///
    /// - Returns: whether it was there.
    func uninstall(_ token: DeviceToken, environment: DeviceEnvironment, at time: UInt32) -> Bool {
        self.books.withLockedValue { books in
            let key = Key(token: token, environment: environment)
            guard books.devices[key]?.deadSince == nil else { return false }
            books.devices[key]?.deadSince = time
            return books.devices[key] != nil
        }
    }
}
