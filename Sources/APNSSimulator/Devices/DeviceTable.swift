// SPDX-License-Identifier: Apache-2.0

import APNSWire
import OrderedCollections

/// The devices of a service, its stored notifications and its feedback lists.
///
/// It decides, without side effects.
struct DeviceTable {
    /// The status of a token for a topic.
    enum TokenStatus: Equatable {
        case alive
        /// The app was removed at this time.
        case dead(since: Timestamp)
        /// The app received another token at this time.
        case replaced(since: Timestamp)
        /// It belongs to another topic.
        case otherTopic
        /// It belongs to the other environment.
        case otherEnvironment
        /// It belongs to no app.
        case unknown
    }

    /// A change in the delivery of a notification that was accepted earlier.
    struct DeliveryChange: Equatable {
        var number: UInt64
        var delivery: ReceivedNotification.Delivery
    }

    private struct Key: Hashable {
        var token: DeviceToken
        var environment: PushEnvironment

        init(_ token: DeviceToken, _ environment: PushEnvironment) {
            self.token = token
            self.environment = environment
        }

        init(_ app: SimulatedApp) { self.init(app.token, app.environment) }
    }

    /// The owner of a token.
    private struct Place {
        var device: String
        var topic: String
    }

    /// A notification that is stored until its device is online.
    private struct Stored {
        var number: UInt64
        var expiry: PushExpiry
    }

    /// The environment of the service.
    let environment: PushEnvironment
    private let sealer: TokenSealer
    private let tokenCountMax: Int
    private var byIdentifier: OrderedDictionary<String, SimulatedDevice> = [:]
    private var places: [Key: Place] = [:]
    private var retired: [Key: RetiredToken] = [:]
    private var stored: [Key: Stored] = [:]
    private var waiting: [Key: (topic: String, tuple: FeedbackTuple)] = [:] {
        didSet { self.hasFeedbackChanged = true }
    }
    /// How many notifications for a removed app could not be delivered; only counted if feedback needs several.
    private var failures: [Key: Int] = [:]
    private let feedbackFailureCountMin: Int
    /// The identifiers of devices that changed as a side effect.
    private var changedDevices: [String] = []
    /// Whether the feedback list may have changed since it was last queried.
    private var hasFeedbackChanged = false
    /// The numbers of devices in sealed tokens, and the reverse mapping.
    private var numbers: [String: UInt64] = [:]
    private var identifiers: [UInt64: String] = [:]
    /// Numbers up to this one are not assigned to new devices.
    private let deviceNumberMin: UInt64
    /// The highest assigned number.
    private(set) var deviceNumberMax: UInt64
    /// The next token generation of an app on a device, if not 0.
    private var generations: [TokenSealer.Name: UInt16] = [:]
    /// Tokens known to be unsealed; unsealing is the most expensive step of a look-up.
    private var unsealed: Set<DeviceToken> = []
    private static let unsealedCountMax = 10_000

    /// The highest device number taken from an identifier, which leaves room for automatic numbers.
    private static let namedNumberMax: UInt64 = 1 << 53

    init(
        environment: PushEnvironment,
        tokenKey: [UInt8],
        tokenCountMax: Int = SimulatorConfiguration.deviceTokenCountMaxDefault,
        feedbackFailureCountMin: Int = 1,
        deviceNumberMin: UInt64 = 0
    ) {
        self.feedbackFailureCountMin = feedbackFailureCountMin
        self.environment = environment
        self.tokenCountMax = tokenCountMax
        self.sealer = TokenSealer(key: tokenKey)
        self.deviceNumberMin = deviceNumberMin
        self.deviceNumberMax = deviceNumberMin
    }

    // MARK: Devices

    /// All devices, in the order in which they were registered.
    var devices: [SimulatedDevice] { self.byIdentifier.values.map { self.withStored($0) } }

    func device(_ identifier: String) -> SimulatedDevice? { self.byIdentifier[identifier].map { self.withStored($0) } }

    func device(of token: DeviceToken) -> SimulatedDevice? {
        self.places[Key(token, self.environment)].flatMap { self.device($0.device) }
    }

    /// Returns a token of this service that no app has any more.
    func retiredToken(_ token: DeviceToken) -> RetiredToken? { self.retired[Key(token, self.environment)] }

    private func withStored(_ device: SimulatedDevice) -> SimulatedDevice {
        guard !self.stored.isEmpty else { return device }
        var device = device
        for index in device.apps.indices {
            device.apps[index].storedNotificationNumber = self.stored[Key(device.apps[index])]?.number
        }
        return device
    }

    /// Registers or updates a device.
    ///
    /// Returns the device with its identifier, and the changes of notifications stored for apps that it no longer has.
    mutating func register(_ device: SimulatedDevice) -> (device: SimulatedDevice, changes: [DeliveryChange]) {
        var device = device
        if device.id.isEmpty {
            let known = device.apps.lazy.compactMap { [places] in places[Key($0)]?.device }.first
            if let known, let before = self.byIdentifier[known] {
                // Apps that are not listed stay unchanged.
                device.id = known
                for app in before.apps where !device.apps.contains(where: { $0.topic == app.topic }) {
                    device.apps.append(app)
                }
            } else {
                device.id = self.makeIdentifier()
            }
        }
        var changes: [DeliveryChange] = []
        let before = self.byIdentifier[device.id]?.apps ?? []
        for app in before {
            self.places[Key(app)] = nil
            if !device.apps.contains(where: { Key($0) == Key(app) }) {
                changes += self.removeStored(Key(app), .appRemoved)
            }
        }
        for index in device.apps.indices {
            let app = device.apps[index]
            changes += self.moveFromOtherDevice(app, device.id)
            let key = Key(app)
            self.places[key] = Place(device: device.id, topic: app.topic)
            self.retired[key] = nil
            // The cache stays valid for unchanged apps.
            let isUnchanged = before.contains { Key($0) == key && $0.removalTimestamp == app.removalTimestamp }
            if !isUnchanged, self.waiting[key] != nil { self.waiting[key] = nil }
            if !isUnchanged { self.failures[key] = nil }
            device.apps[index].storedNotificationNumber = nil
        }
        self.byIdentifier[device.id] = device
        _ = self.number(of: device.id)
        return (self.withStored(device), changes)
    }

    /// Registers an app on a device.
    ///
    /// It keeps its token unless one is given.
    ///
    /// Returns the app, and the changes of notifications stored for its previous token.
    mutating func register(
        topic: String,
        token: DeviceToken?,
        on identifier: String?,
        environment: PushEnvironment,
        now: Timestamp
    ) -> (app: SimulatedApp, changes: [DeliveryChange]) {
        let identifier = identifier ?? self.makeIdentifier()
        var device = self.byIdentifier[identifier] ?? SimulatedDevice(identifier)
        let index = device.apps.firstIndex { $0.topic == topic && $0.environment == environment }
        let before = index.map { device.apps[$0] }
        let new = token ?? before?.token ?? self.makeToken(topic, environment, on: identifier)
        let app = SimulatedApp(token: new, topic: topic, environment: environment)
        if let index { device.apps[index] = app } else { device.apps.append(app) }
        if let before, before.token != new, let stored = self.stored.removeValue(forKey: Key(before)) {
            // A stored notification is for the app, which stays.
            self.stored[Key(app)] = stored
        }
        let changes = self.register(device).changes
        if let before, before.token != new {
            // A token that was already dead keeps its state.
            let (timestamp, isReplaced) = before.removalTimestamp.map { ($0, false) } ?? (now, true)
            self.retired[Key(before)] = RetiredToken(topic: topic, timestamp: timestamp, isReplaced: isReplaced)
        }
        return (app, changes)
    }

    /// Removes an app from its device.
    ///
    /// Returns whether the app existed, and the changes of notifications stored for it.
    mutating func remove(_ token: DeviceToken, at timestamp: Timestamp) -> (wasThere: Bool, [DeliveryChange]) {
        let key = Key(token, self.environment)
        guard let place = self.places[key], var device = self.byIdentifier[place.device],
            let index = device.apps.firstIndex(where: { Key($0) == key }), device.apps[index].removalTimestamp == nil
        else { return (false, []) }
        device.apps[index].removalTimestamp = timestamp
        self.byIdentifier[place.device] = device
        return (true, self.failStored(key, now: timestamp))
    }

    /// Removes a device; its tokens become dead.
    ///
    /// Returns the changes of notifications stored for it; `nil` if there is no such device.
    mutating func removeDevice(_ identifier: String, at timestamp: Timestamp) -> [DeliveryChange]? {
        guard let device = self.byIdentifier.removeValue(forKey: identifier) else { return nil }
        var changes: [DeliveryChange] = []
        for app in device.apps {
            let key = Key(app)
            self.places[key] = nil
            let since = app.removalTimestamp ?? timestamp
            self.retired[key] = RetiredToken(topic: app.topic, timestamp: since, isReplaced: false)
            changes += self.failStored(key, now: timestamp)
        }
        return changes
    }

    /// Sets a device online or offline.
    ///
    /// Returns the changes of notifications stored for it; `nil` if there is no such device.
    mutating func setOnline(_ identifier: String, _ isOnline: Bool, now: Timestamp) -> [DeliveryChange]? {
        guard self.byIdentifier[identifier] != nil else { return nil }
        self.byIdentifier[identifier]?.isOnline = isOnline
        guard isOnline, let apps = self.byIdentifier[identifier]?.apps else { return [] }
        return apps.flatMap { app in
            let key = Key(app)
            guard let stored = self.stored[key] else { return [] as [DeliveryChange] }
            return self.removeStored(key, stored.expiry.isOver(now) ? .expired : .delivered(at: now))
        }
    }

    private mutating func removeStored(
        _ key: Key,
        _ delivery: ReceivedNotification.Delivery
    ) -> [DeliveryChange] {
        guard let stored = self.stored.removeValue(forKey: key) else { return [] }
        return [DeliveryChange(number: stored.number, delivery: delivery)]
    }

    /// Ends the notification stored for a removed app, which can no longer be delivered; feedback then lists the app.
    private mutating func failStored(_ key: Key, now: Timestamp) -> [DeliveryChange] {
        guard let stored = self.stored[key] else { return [] }
        guard !stored.expiry.isOver(now) else { return self.removeStored(key, .expired) }
        self.fail(key)
        return self.removeStored(key, .appRemoved)
    }

    /// Moves a token to its new device; notifications stored for its previous device are not delivered.
    private mutating func moveFromOtherDevice(_ app: SimulatedApp, _ identifier: String) -> [DeliveryChange] {
        guard let place = self.places[Key(app)], place.device != identifier else { return [] }
        self.byIdentifier[place.device]?.apps.removeAll { Key($0) == Key(app) }
        self.changedDevices.append(place.device)
        return self.removeStored(Key(app), .appRemoved)
    }

    /// Returns and resets the identifiers of devices that changed as a side effect.
    mutating func takeChangedDevices() -> [SimulatedDevice] {
        guard !self.changedDevices.isEmpty else { return [] }
        defer { self.changedDevices = [] }
        return self.changedDevices.compactMap { self.device($0) }
    }

    /// Returns why an app cannot be registered on a device; `nil` if it can.
    func problem(
        _ topic: String,
        _ token: DeviceToken?,
        _ environment: PushEnvironment,
        on identifier: String?
    ) -> SimulatorError? {
        let apps = identifier.flatMap { self.byIdentifier[$0]?.apps } ?? []
        if let app = apps.first(where: { $0.topic == topic && $0.environment == environment }) {
            // The app exists and needs no further token.
            if token == nil || token == app.token { return nil }
        } else if apps.count >= SimulatedDevice.appCountMax {
            return .tooManyApps(countMax: SimulatedDevice.appCountMax)
        }
        return self.isFull ? .tooManyDeviceTokens(countMax: self.tokenCountMax) : nil
    }

    /// Returns why a device cannot be registered; `nil` if it can.
    func problem(_ device: SimulatedDevice) -> SimulatorError? {
        guard device.apps.count <= SimulatedDevice.appCountMax else {
            return .tooManyApps(countMax: SimulatedDevice.appCountMax)
        }
        let isKnown = device.apps.allSatisfy { self.places[Key($0)] != nil }
        let isNamed = device.id.isEmpty || self.byIdentifier[device.id] != nil
        return self.isFull && !(isKnown && isNamed) ? .tooManyDeviceTokens(countMax: self.tokenCountMax) : nil
    }

    /// Returns why no app can receive a new token; `nil` if one can.
    var problemOfRenewal: SimulatorError? {
        self.isFull ? .tooManyDeviceTokens(countMax: self.tokenCountMax) : nil
    }

    /// Whether the maximum number of tokens or device numbers is reached.
    private var isFull: Bool {
        max(self.places.count + self.retired.count, self.numbers.count) >= self.tokenCountMax
    }

    // MARK: Names

    private mutating func makeIdentifier() -> String {
        var number = self.deviceNumberMax
        repeat { number += 1 } while self.byIdentifier["device-\(number)"] != nil
        return "device-\(number)"
    }

    /// The number of a device in sealed tokens: the one in its identifier, unless another device has it.
    private mutating func number(of identifier: String) -> UInt64 {
        if let known = self.numbers[identifier] { return known }
        let named = identifier.hasPrefix("device-") ? UInt64(identifier.dropFirst("device-".count)) : nil
        let number = named.flatMap { self.isFree($0) ? $0 : nil } ?? self.deviceNumberMax + 1
        self.assign(number, to: identifier)
        return number
    }

    /// Whether the number is free.
    private func isFree(_ number: UInt64) -> Bool {
        number > self.deviceNumberMin && number <= Self.namedNumberMax && self.identifiers[number] == nil
    }

    private mutating func assign(_ number: UInt64, to identifier: String) {
        self.numbers[identifier] = number
        self.identifiers[number] = identifier
        self.deviceNumberMax = max(self.deviceNumberMax, number)
    }

    /// Returns the first unused token of an app on a device.
    private mutating func makeToken(
        _ topic: String,
        _ environment: PushEnvironment,
        on identifier: String
    ) -> DeviceToken {
        var app = TokenSealer.Name(
            device: self.number(of: identifier),
            generation: 0,
            environment: environment,
            topicDigest: self.sealer.digest(topic)
        )
        while true {
            var name = app
            name.generation = self.generations[app] ?? 0
            if name.generation == .max {
                // All generations of this number are used.
                self.assign(self.deviceNumberMax + 1, to: identifier)
                app.device = self.deviceNumberMax
                continue
            }
            self.generations[app] = name.generation + 1
            let token = self.sealer.token(name)
            let key = Key(token, environment)
            if self.places[key] == nil, self.retired[key] == nil { return token }
        }
    }

    /// Assigns an app a new token and retires the previous one.
    ///
    /// Returns the app and the changes of stored notifications; `nil` if the app is not registered on the device.
    mutating func renewToken(
        _ topic: String,
        on identifier: String,
        now: Timestamp
    ) -> (app: SimulatedApp, changes: [DeliveryChange])? {
        guard let app = self.byIdentifier[identifier]?.app(topic) else { return nil }
        let token = self.makeToken(topic, app.environment, on: identifier)
        return self.register(topic: topic, token: token, on: identifier, environment: app.environment, now: now)
    }

    // MARK: Notifications

    /// Returns the status of a token.
    ///
    /// An unknown device of a sealed token is registered.
    mutating func status(
        of token: DeviceToken,
        topic: String?,
        now: @autoclosure () -> Timestamp = .unset,
        onRegistration: (SimulatedDevice) -> Void = { _ in }
    ) -> TokenStatus {
        self.status(ofKnown: token, topic) ?? self.status(ofSealed: token, topic, now: now(), onRegistration)
    }

    private func status(ofKnown token: DeviceToken, _ topic: String?) -> TokenStatus? {
        let key = Key(token, self.environment)
        if let place = self.places[key] {
            guard place.topic == topic else { return .otherTopic }
            let app = self.byIdentifier[place.device]?.apps.first { Key($0) == key }
            return app?.removalTimestamp.map { .dead(since: $0) } ?? .alive
        }
        if let retired = self.retired[key] {
            guard retired.topic == topic else { return .otherTopic }
            return retired.isReplaced ? .replaced(since: retired.timestamp) : .dead(since: retired.timestamp)
        }
        let isElsewhere = PushEnvironment.allCases.contains { self.places[Key(token, $0)] != nil }
        return isElsewhere ? .otherEnvironment : nil
    }

    private mutating func status(
        ofSealed token: DeviceToken,
        _ topic: String?,
        now: Timestamp,
        _ onRegistration: (SimulatedDevice) -> Void
    ) -> TokenStatus {
        guard !self.unsealed.contains(token) else { return .unknown }
        guard let name = self.sealer.name(of: token) else {
            if self.unsealed.count >= Self.unsealedCountMax { self.unsealed = [] }
            self.unsealed.insert(token)
            return .unknown
        }
        guard name.environment == self.environment else { return .otherEnvironment }
        guard let topic, name.topicDigest == self.sealer.digest(topic) else { return .otherTopic }
        // The token is from an earlier run or before a reset, since only this service can have sealed it. Without room
        // for its device, it is still valid, and the device is not listed.
        guard !self.isFull else { return .alive }
        let identifier = self.identifiers[name.device] ?? "device-\(name.device)"
        var device = self.byIdentifier[identifier] ?? SimulatedDevice(identifier)
        if let app = device.apps.first(where: { $0.topic == topic && $0.environment == self.environment }) {
            // The app has received another token since; an app has only one.
            let since = app.removalTimestamp ?? now
            self.retired[Key(token, self.environment)] = RetiredToken(topic: topic, timestamp: since, isReplaced: true)
            return .replaced(since: since)
        }
        guard device.apps.count < SimulatedDevice.appCountMax else { return .alive }
        device.apps.append(SimulatedApp(token: token, topic: topic, environment: self.environment))
        if self.numbers[identifier] == nil { self.assign(name.device, to: identifier) }
        onRegistration(self.register(device).device)
        return .alive
    }

    /// Processes an accepted notification.
    ///
    /// Returns its delivery, and the change of the notification that it replaces.
    mutating func deliver(
        _ notification: ReceivedNotification,
        now: Timestamp
    ) -> (delivery: ReceivedNotification.Delivery, device: String?, changes: [DeliveryChange]) {
        guard let token = notification.token else { return (.delivered(at: now), nil, []) }
        let key = Key(token, self.environment)
        let place = self.places[key]
        let device = place.flatMap { self.byIdentifier[$0.device] }
        if self.retired[key] != nil || device?.apps.first(where: { Key($0) == key })?.removalTimestamp != nil {
            self.fail(key)
            return (.appRemoved, device?.id, [])
        }
        guard let device, !device.isOnline else { return (.delivered(at: now), device?.id, []) }
        // A single attempt without storage.
        guard !notification.expiry.isOver(now) else { return (.discarded, device.id, []) }
        let isOver = self.stored[key]?.expiry.isOver(now) ?? false
        let changes = self.removeStored(key, isOver ? .expired : .replaced)
        self.stored[key] = Stored(number: notification.number, expiry: notification.expiry)
        return (.stored, device.id, changes)
    }

    /// Expires stored notifications.
    mutating func expire(now: Timestamp) -> [DeliveryChange] {
        let over = self.stored.filter { $0.value.expiry.isOver(now) }
        return over.flatMap { self.removeStored($0.key, .expired) }
    }

    /// Removes the stored notifications, when the record is cleared.
    ///
    /// Returns the devices of the removed notifications.
    mutating func removeAllStored() -> [SimulatedDevice] {
        let identifiers = Set(self.stored.keys.compactMap { self.places[$0]?.device })
        self.stored = [:]
        return self.byIdentifier.values.filter { identifiers.contains($0.id) }
    }

    // MARK: Feedback

    /// Records that a notification for a removed app could not be delivered.
    private mutating func fail(_ key: Key) {
        if self.feedbackFailureCountMin > 1 {
            let count = (self.failures[key] ?? 0) + 1
            self.failures[key] = count
            guard count >= self.feedbackFailureCountMin else { return }
        }
        self.list(key)
    }

    /// Adds the token of a removed app to the feedback list.
    private mutating func list(_ key: Key) {
        if let place = self.places[key] {
            let app = self.byIdentifier[place.device]?.apps.first { Key($0) == key }
            if let tuple = app?.feedback { self.list(key, place.topic, tuple) }
        } else if let retired = self.retired[key] {
            self.list(key, retired.topic, FeedbackTuple(token: key.token, failedAt: retired.timestamp))
        }
    }

    private mutating func list(_ key: Key, _ topic: String, _ tuple: FeedbackTuple) {
        if self.waiting[key]?.tuple != tuple { self.waiting[key] = (topic, tuple) }
    }

    /// Adds the token of a removed app to the feedback list, although nothing was sent to it.
    ///
    /// Returns whether the app was removed.
    mutating func listFeedback(_ token: DeviceToken) -> Bool {
        let key = Key(token, self.environment)
        self.list(key)
        return self.waiting[key] != nil
    }

    /// The feedback entries of one topic, or of all.
    func feedback(topic: String?, environment: PushEnvironment) -> [(topic: String, tuple: FeedbackTuple)] {
        self.waiting.filter { $0.key.environment == environment && (topic ?? $0.value.topic) == $0.value.topic }
            .values
            .sorted {
                ($0.tuple.failedAt, $0.tuple.token.hexadecimal) < ($1.tuple.failedAt, $1.tuple.token.hexadecimal)
            }
    }

    /// Removes feedback entries, unless they have changed.
    mutating func removeFeedback(_ tuples: some Sequence<FeedbackTuple>) {
        for tuple in tuples {
            let key = Key(tuple.token, self.environment)
            if self.waiting[key]?.tuple == tuple { self.waiting[key] = nil }
        }
    }

    mutating func removeAllFeedback() { self.waiting = [:] }

    /// Returns whether the list may have changed since the last call.
    mutating func takeFeedbackChange() -> Bool {
        defer { self.hasFeedbackChanged = false }
        return self.hasFeedbackChanged
    }
}

extension DeviceTable.TokenStatus: CustomStringConvertible {
    /// What the status means for a notification.
    var description: String {
        switch self {
        case .alive: "the app is on the device"
        case .dead: "the app was removed from the device"
        case .replaced: "a newer device token replaced this one"
        case .otherTopic: "the device token belongs to another topic"
        case .otherEnvironment: "the device token is of the other environment"
        case .unknown: "no device has this device token"
        }
    }
}

extension SimulatedApp {
    /// The feedback entry; `nil` while the app is installed.
    fileprivate var feedback: FeedbackTuple? {
        self.removalTimestamp.map { FeedbackTuple(token: self.token, failedAt: $0) }
    }
}

extension PushExpiry {
    /// Whether it has expired.
    fileprivate func isOver(_ now: Timestamp) -> Bool {
        guard let seconds = self.wireValue else { return false }
        return Timestamp(secondsSince1970: Int64(seconds)) <= now
    }
}
