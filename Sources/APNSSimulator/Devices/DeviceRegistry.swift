// SPDX-License-Identifier: Apache-2.0

import APNSWire
import NIOConcurrencyHelpers
import NIOCore

/// The devices of a simulator and the outcomes of notifications: executes the decisions of ``DeviceTable``.
final class DeviceRegistry: Sendable {
    private struct State {
        var table: DeviceTable
        var statistics = SimulatorStatistics()
        var counts: TokenCounts
    }

    /// The record of notifications.
    let recorder: NotificationRecorder
    /// The revision of everything that determines the outcome of a notification.
    let revision: Revision
    private let configuration: SimulatorConfiguration
    private let state: NIOLockedValueBox<State>

    init(_ configuration: SimulatorConfiguration, revision: Revision = Revision()) throws(SimulatorError) {
        self.revision = revision
        self.configuration = configuration
        self.recorder = NotificationRecorder(
            countMax: configuration.receivedCountMax,
            byteCountMax: configuration.receivedByteCountMax
        )
        self.state = NIOLockedValueBox(try Self.initialState(configuration))
    }

    private static func initialState(
        _ configuration: SimulatorConfiguration,
        deviceNumberMin: UInt64 = 0
    ) throws(SimulatorError) -> State {
        var table = DeviceTable(
            environment: configuration.environment,
            tokenKey: configuration.tokenKey,
            tokenCountMax: configuration.deviceTokenCountMax,
            feedbackFailureCountMin: configuration.feedbackFailureCountMin,
            deviceNumberMin: deviceNumberMin
        )
        for device in configuration.devices {
            if let problem = table.problem(device) { throw problem }
            _ = table.register(device)
        }
        return State(table: table, counts: TokenCounts(tokenCountMax: configuration.countedTokenCountMax))
    }

    /// The environment of the simulator.
    var environment: PushEnvironment { self.configuration.environment }

    /// Whether messages may be recorded in batches, because nothing observes each message.
    var recordsBatches: Bool { self.configuration.onReceive == nil && self.configuration.onNotification == nil }

    /// The time.
    var now: Timestamp { self.configuration.now() }

    // MARK: Devices

    /// All devices, in the order in which they were registered.
    var devices: [SimulatedDevice] {
        self.expire()
        return self.state.withLockedValue(\.table.devices)
    }

    func device(_ identifier: String) -> SimulatedDevice? {
        self.expire()
        return self.state.withLockedValue { $0.table.device(identifier) }
    }

    func device(of token: DeviceToken) -> SimulatedDevice? {
        self.state.withLockedValue { $0.table.device(of: token) }
    }

    func retiredToken(_ token: DeviceToken) -> RetiredToken? {
        self.state.withLockedValue { $0.table.retiredToken(token) }
    }

    func register(_ device: SimulatedDevice) throws(SimulatorError) -> SimulatedDevice {
        try self.state.withLockedValue { state -> Result<SimulatedDevice, SimulatorError> in
            if let problem = state.table.problem(device) { return .failure(problem) }
            self.revision.advance()
            let (registered, changes) = state.table.register(device)
            self.carryOut(changes, .device(registered), &state)
            return .success(registered)
        }.get()
    }

    /// Registers an app on a device; the environment defaults to the simulator's own.
    func register(
        topic: String,
        token: DeviceToken?,
        on identifier: String?,
        environment: PushEnvironment? = nil
    ) throws(SimulatorError) -> SimulatedApp {
        let (now, environment) = (self.now, environment ?? self.environment)
        return try self.state.withLockedValue { state -> Result<SimulatedApp, SimulatorError> in
            if let problem = state.table.problem(topic, token, environment, on: identifier) { return .failure(problem) }
            let (app, changes) = state.table.register(
                topic: topic,
                token: token,
                on: identifier,
                environment: environment,
                now: now
            )
            self.revision.advance()
            self.carryOut(changes, state.table.device(of: app.token).map { .device($0) }, &state)
            return .success(app)
        }.get()
    }

    /// Assigns an app a new token.
    func renewToken(topic: String, on identifier: String) throws(SimulatorError) -> SimulatedApp? {
        let now = self.now
        return try self.state.withLockedValue { state -> Result<SimulatedApp?, SimulatorError> in
            if let problem = state.table.problemOfRenewal { return .failure(problem) }
            guard let (app, changes) = state.table.renewToken(topic, on: identifier, now: now) else {
                return .success(nil)
            }
            self.revision.advance()
            self.carryOut(changes, state.table.device(identifier).map { .device($0) }, &state)
            return .success(app)
        }.get()
    }

    /// Removes an app from its device.
    ///
    /// Returns whether the app was registered.
    func remove(_ token: DeviceToken, at timestamp: Timestamp?) -> Bool {
        let timestamp = timestamp ?? self.now
        return self.state.withLockedValue { state in
            let (wasThere, changes) = state.table.remove(token, at: timestamp)
            self.revision.advance()
            if wasThere { self.carryOut(changes, state.table.device(of: token).map { .device($0) }, &state) }
            return wasThere
        }
    }

    /// Returns whether the device existed.
    func removeDevice(_ identifier: String) -> Bool {
        let now = self.now
        return self.state.withLockedValue { state in
            guard let changes = state.table.removeDevice(identifier, at: now) else { return false }
            self.revision.advance()
            self.carryOut(changes, .deviceRemoved(identifier: identifier), &state)
            return true
        }
    }

    /// Returns whether the device exists.
    func setOnline(_ identifier: String, _ isOnline: Bool) -> Bool {
        let now = self.now
        return self.state.withLockedValue { state in
            guard let changes = state.table.setOnline(identifier, isOnline, now: now) else { return false }
            self.revision.advance()
            self.carryOut(changes, state.table.device(identifier).map { .device($0) }, &state)
            return true
        }
    }

    // MARK: Outcomes of notifications

    typealias Change = DeviceTable.DeliveryChange

    /// Records and reports the outcomes of notifications, and other changes.
    ///
    /// The table is locked meanwhile, as the parameter shows, so that the record never lags behind the table, and
    /// observers receive changes in the order in which they happened, on whichever threads.
    private func carryOut(_ changes: [Change], _ last: SimulatorChange?, _ state: inout State) {
        for change in changes {
            self.recorder.change(change.number, change.delivery)
            self.configuration.onChange?(.delivery(number: change.number, change.delivery))
        }
        for device in state.table.takeChangedDevices() { self.configuration.onChange?(.device(device)) }
        if let last { self.configuration.onChange?(last) }
        if state.table.takeFeedbackChange() { self.configuration.onChange?(.feedback) }
    }

    /// Expires stored notifications.
    func expire() {
        let now = self.now
        self.state.withLockedValue { self.carryOut($0.table.expire(now: now), nil, &$0) }
    }

    typealias TokenStatus = DeviceTable.TokenStatus

    func status(of token: DeviceToken, topic: String?) -> TokenStatus {
        let status = self.state.withLockedValue { state in
            state.table.status(of: token, topic: topic, now: self.now) { device in
                self.revision.advance()
                self.configuration.onChange?(.device(device))
            }
        }
        guard status == .unknown, self.acceptsUnknown(token) else { return status }
        return .alive
    }

    /// Whether an unregistered token is accepted.
    ///
    /// Real tokens are never shorter than 32 bytes.
    private func acceptsUnknown(_ token: DeviceToken) -> Bool {
        self.configuration.acceptsUnknownTokens && token.byteCount >= WireLimits.tokenByteCountUsual
    }

    // MARK: Notifications

    /// Counts, delivers or stores, and records an accepted notification.
    @discardableResult
    func accept(_ notification: ReceivedNotification) -> ReceivedNotification {
        var notification = notification
        let now = self.now
        if notification.timestamp == .unset { notification.timestamp = now }
        notification = self.state.withLockedValue { state in
            state.statistics.processedCount += 1
            var changes: [Change] = []
            let recorded = self.recorder.receive(notification) { notification in
                let (delivery, device, replaced) = state.table.deliver(notification, now: now)
                notification.delivery = delivery
                notification.device = device
                changes = replaced
            }
            if recorded.isDead { state.statistics.deadCount += 1 }
            if let token = recorded.token, let index = state.counts.index(of: token) { state.counts.add(at: index) }
            self.notify(recorded)
            self.carryOut(changes, nil, &state)
            return recorded
        }
        self.configuration.onReceive?(notification)
        return notification
    }

    /// Reports a recorded notification, while the table is locked.
    private func notify(_ notification: ReceivedNotification) {
        self.configuration.onNotification?(notification)
        self.configuration.onChange?(.notifications(notification.number...notification.number))
    }

    /// Returns what a connection may cache about a token: `nil` unless its notifications are accepted and delivered
    /// immediately.
    func knownEntry(_ token: DeviceToken, topic: String?) -> KnownTokens.Entry? {
        guard self.status(of: token, topic: topic) == .alive else { return nil }
        return self.state.withLockedValue { state in
            let device = state.table.device(of: token)
            guard device?.isOnline != false else { return nil }
            return KnownTokens.Entry(
                device: device?.id,
                countIndex: state.counts.index(of: token),
                tokenKey: token.recordKey
            )
        }
    }

    /// Counts and records messages for cached tokens.
    func record(_ batch: MessageBatch, revision: UInt64) {
        var batch = batch
        batch.timestamp = self.now
        batch.duration = .nanoseconds((NIODeadline.now() - batch.receivedAt).nanoseconds)
        self.state.withLockedValue { state in
            state.statistics.messageCount += batch.messages.count
            state.statistics.processedCount += batch.messages.count
            if revision == self.revision.current {
                for message in batch.messages { if let index = message.countIndex { state.counts.add(at: index) } }
            } else {
                // The counters may have been reset since.
                for index in batch.messages.indices {
                    guard let token = batch.token(index), let index = state.counts.index(of: token) else { continue }
                    state.counts.add(at: index)
                }
            }
            let numbers = self.recorder.receive(batch)
            self.configuration.onChange?(.notifications(numbers))
        }
    }

    /// Records a rejected notification.
    @discardableResult
    func refuse(_ notification: ReceivedNotification) -> ReceivedNotification {
        var notification = notification
        if notification.timestamp == .unset { notification.timestamp = self.now }
        return self.state.withLockedValue { state in
            state.statistics.rejectedCount += 1
            let recorded = self.recorder.receive(notification) { notification in
                notification.device = notification.token.flatMap { state.table.device(of: $0)?.id }
            }
            self.notify(recorded)
            return recorded
        }
    }

    /// Counts a received message.
    ///
    /// Returns its number over all connections, from 1.
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

    func receivedCount(of token: DeviceToken) -> Int { self.state.withLockedValue { $0.counts[token] } }

    /// Removes the recorded notifications, and those stored for devices.
    func removeNotifications() {
        self.state.withLockedValue { state in
            let devices = state.table.removeAllStored()
            self.recorder.removeAll()
            self.configuration.onChange?(.notificationsRemoved)
            for device in devices { self.configuration.onChange?(.device(device)) }
        }
    }

    /// Restores the initial state.
    ///
    /// Connections stay open, and notification numbers continue.
    func reset() {
        self.state.withLockedValue { state in
            // A provider that still uses an old token must not reach a new device. The devices fit, as at the start.
            let initial = try? Self.initialState(self.configuration, deviceNumberMin: state.table.deviceNumberMax)
            if let initial { state = initial }
            self.revision.advance()
            self.recorder.removeAll()
            self.configuration.onChange?(.reset)
        }
    }

    /// The error for a notification that does not arrive in time.
    func overdue(_ token: DeviceToken, within duration: Duration) -> SimulatorError {
        self.state.withLockedValue { state in
            .notReceived(
                within: duration,
                count: state.counts[token],
                overallCount: state.statistics.processedCount,
                rejectedCount: state.statistics.rejectedCount
            )
        }
    }

    // MARK: Feedback

    /// The feedback entries of one topic, or of all.
    func feedback(topic: String?, environment: PushEnvironment) -> [(topic: String, tuple: FeedbackTuple)] {
        self.state.withLockedValue { $0.table.feedback(topic: topic, environment: environment) }
    }

    /// Adds the token of a removed app to the feedback list, although nothing was sent to it.
    ///
    /// Returns whether the app was removed.
    func listFeedback(_ token: DeviceToken) -> Bool {
        self.state.withLockedValue { state in
            let isListed = state.table.listFeedback(token)
            self.carryOut([], nil, &state)
            return isListed
        }
    }

    /// Removes feedback entries, unless they have changed.
    func removeFeedback(_ tuples: some Sequence<FeedbackTuple>) {
        self.state.withLockedValue { state in
            state.table.removeFeedback(tuples)
            self.carryOut([], nil, &state)
        }
    }

    func removeAllFeedback() {
        self.state.withLockedValue { state in
            state.table.removeAllFeedback()
            self.carryOut([], nil, &state)
        }
    }
}

/// Counts the accepted notifications per token, up to a maximum number of tokens.
struct TokenCounts {
    private var indices: [DeviceToken: UInt32] = [:]
    private var counts: [Int] = []
    private let tokenCountMax: Int

    init(tokenCountMax: Int) { self.tokenCountMax = tokenCountMax }

    subscript(_ token: DeviceToken) -> Int { self.indices[token].map { self.counts[Int($0)] } ?? 0 }

    /// The index of a token's counter; `nil` if there is no room.
    mutating func index(of token: DeviceToken) -> UInt32? {
        if let index = self.indices[token] { return index }
        guard self.counts.count < self.tokenCountMax, let index = UInt32(exactly: self.counts.count) else { return nil }
        self.indices[token] = index
        self.counts.append(0)
        return index
    }

    /// Increments a counter.
    mutating func add(at index: UInt32) { self.counts[Int(index)] += 1 }
}
