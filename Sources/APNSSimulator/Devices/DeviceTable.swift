// SPDX-License-Identifier: Apache-2.0

import APNSWire
import OrderedCollections

/// The devices of a service, what it keeps for them, and what its feedback lists: decides, and does nothing.
struct DeviceTable {
    /// What a token is worth for a topic.
    enum Standing: Equatable {
        case alive
        /// The app is gone since this time, in milliseconds since 1970.
        case dead(since: UInt64)
        /// The app has had another token since this time.
        case replaced(since: UInt64)
        /// It belongs to another topic.
        case foreign
        /// It is not of this environment, or of none.
        case unknown
    }

    /// What becomes of a notification that was taken before.
    struct DeliveryChange: Equatable {
        var number: UInt64
        var delivery: ReceivedNotification.Delivery
    }

    private struct Key: Hashable {
        var token: DeviceToken
        var environment: Environment

        init(_ token: DeviceToken, _ environment: Environment) {
            self.token = token
            self.environment = environment
        }

        init(_ app: SimulatedApp) { self.init(app.token, app.environment) }
    }

    /// Whose a token is.
    private struct Place {
        var device: String
        var topic: String
    }

    /// A notification that is kept until its device is there.
    private struct Stored {
        var number: UInt64
        var expiry: PushExpiry
    }

    /// The service that is played.
    let environment: Environment
    private let sealer: TokenSealer
    private let tokenCountMax: Int
    private var byIdentifier: OrderedDictionary<String, SimulatedDevice> = [:]
    private var places: [Key: Place] = [:]
    private var retired: [Key: RetiredToken] = [:]
    private var stored: [Key: Stored] = [:]
    private var waiting: [Key: (topic: String, tuple: FeedbackTuple)] = [:]
    /// The numbers by which sealed tokens name devices, and the other way round.
    private var numbers: [String: UInt64] = [:]
    private var identifiers: [UInt64: String] = [:]
    private var numberMax: UInt64 = 0

    init(
        environment: Environment,
        tokenKey: [UInt8],
        tokenCountMax: Int = SimulatorConfiguration.deviceTokenCountMaxDefault
    ) {
        self.environment = environment
        self.tokenCountMax = tokenCountMax
        self.sealer = TokenSealer(key: tokenKey)
    }

    // MARK: Devices

    /// All of them, in the order in which they were registered.
    var devices: [SimulatedDevice] { self.byIdentifier.values.map { self.withStored($0) } }

    func device(_ identifier: String) -> SimulatedDevice? { self.byIdentifier[identifier].map { self.withStored($0) } }

    func device(of token: DeviceToken) -> SimulatedDevice? {
        self.places[Key(token, self.environment)].flatMap { self.device($0.device) }
    }

    /// What is known of a token of this service that no app has any more.
    func retiredToken(_ token: DeviceToken) -> RetiredToken? { self.retired[Key(token, self.environment)] }

    private func withStored(_ device: SimulatedDevice) -> SimulatedDevice {
        guard !self.stored.isEmpty else { return device }
        var device = device
        for index in device.apps.indices {
            device.apps[index].storedNotificationNumber = self.stored[Key(device.apps[index])]?.number
        }
        return device
    }

    /// Registers a device, or changes one that is registered.
    ///
    /// - Returns: the device with its name, and what becomes of what was kept for apps that it has no more.
    mutating func register(_ device: SimulatedDevice) -> (device: SimulatedDevice, changes: [DeliveryChange]) {
        var device = device
        if device.identifier.isEmpty {
            let known = device.apps.lazy.compactMap { [places] in places[Key($0)]?.device }.first
            if let known, let before = self.byIdentifier[known] {
                // Only what is named is changed.
                device.identifier = known
                for app in before.apps where !device.apps.contains(where: { $0.topic == app.topic }) {
                    device.apps.append(app)
                }
            } else {
                device.identifier = self.makeIdentifier()
            }
        }
        var changes: [DeliveryChange] = []
        for app in self.byIdentifier[device.identifier]?.apps ?? [] {
            self.places[Key(app)] = nil
            if !device.apps.contains(where: { Key($0) == Key(app) }) {
                changes += self.removeStored(Key(app), .appRemoved)
            }
        }
        for index in device.apps.indices {
            let app = device.apps[index]
            self.takeFromOther(app, device.identifier)
            let key = Key(app)
            self.places[key] = Place(device: device.identifier, topic: app.topic)
            self.retired[key] = nil
            self.waiting[key] = nil
            device.apps[index].storedNotificationNumber = nil
        }
        self.byIdentifier[device.identifier] = device
        _ = self.number(of: device.identifier)
        return (self.withStored(device), changes)
    }

    /// Registers an app at a device; it keeps its token, unless one is given.
    ///
    /// - Parameters:
    ///   - topic: the app.
    ///   - token: its token there; `nil` for the one that it has, or a new one.
    ///   - identifier: the device; `nil` for a new one.
    ///   - environment: the service that the token belongs to.
    ///   - now: milliseconds since 1970, at which a token that is replaced ends.
    /// - Returns: the app, and what becomes of what was kept for its token before.
    mutating func register(
        topic: String,
        token: DeviceToken?,
        on identifier: String?,
        environment: Environment,
        now: UInt64
    ) -> (app: SimulatedApp, changes: [DeliveryChange]) {
        let identifier = identifier ?? self.makeIdentifier()
        var device = self.byIdentifier[identifier] ?? SimulatedDevice(identifier)
        let index = device.apps.firstIndex { $0.topic == topic && $0.environment == environment }
        let before = index.map { device.apps[$0] }
        let new = token ?? before?.token ?? self.makeToken(topic, environment, self.number(of: identifier))
        let app = SimulatedApp(token: new, topic: topic, environment: environment)
        if let index { device.apps[index] = app } else { device.apps.append(app) }
        let changes = self.register(device).changes
        if let before, before.token != new {
            self.retired[Key(before)] = RetiredToken(topic: topic, timestamp: now, isReplaced: true)
        }
        return (app, changes)
    }

    /// Removes an app from its device.
    ///
    /// - Returns: whether it was there, and what becomes of what was kept for it.
    mutating func remove(_ token: DeviceToken, at timestamp: UInt64) -> (wasThere: Bool, [DeliveryChange]) {
        let key = Key(token, self.environment)
        guard let place = self.places[key], var device = self.byIdentifier[place.device],
            let index = device.apps.firstIndex(where: { Key($0) == key }), device.apps[index].removalTimestamp == nil
        else { return (false, []) }
        device.apps[index].removalTimestamp = timestamp
        self.byIdentifier[place.device] = device
        return (true, self.removeStored(key, .appRemoved))
    }

    /// Forgets a device; its tokens are dead.
    ///
    /// - Returns: what becomes of what was kept for it; `nil` where there is no such device.
    mutating func removeDevice(_ identifier: String, at timestamp: UInt64) -> [DeliveryChange]? {
        guard let device = self.byIdentifier.removeValue(forKey: identifier) else { return nil }
        var changes: [DeliveryChange] = []
        for app in device.apps {
            let key = Key(app)
            changes += self.removeStored(key, .appRemoved)
            self.places[key] = nil
            let since = app.removalTimestamp ?? timestamp
            self.retired[key] = RetiredToken(topic: app.topic, timestamp: since, isReplaced: false)
        }
        return changes
    }

    /// Connects a device, or disconnects it.
    ///
    /// - Returns: what becomes of what was kept for it; `nil` where there is no such device.
    mutating func setOnline(_ identifier: String, _ isOnline: Bool, now: UInt64) -> [DeliveryChange]? {
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

    /// A token is that of one device.
    private mutating func takeFromOther(_ app: SimulatedApp, _ identifier: String) {
        guard let place = self.places[Key(app)], place.device != identifier else { return }
        self.byIdentifier[place.device]?.apps.removeAll { Key($0) == Key(app) }
    }

    /// Why an app cannot be registered at a device; `nil` where it can.
    ///
    /// - Parameters:
    ///   - topic: the app.
    ///   - token: its token there; `nil` for the one that it has, or a new one.
    ///   - environment: the service that the token belongs to.
    ///   - identifier: the device; `nil` for a new one.
    /// - Returns: what is in the way.
    func problem(
        _ topic: String,
        _ token: DeviceToken?,
        _ environment: Environment,
        on identifier: String?
    ) -> SimulatorError? {
        let apps = identifier.flatMap { self.byIdentifier[$0]?.apps } ?? []
        if let app = apps.first(where: { $0.topic == topic && $0.environment == environment }) {
            // It is there, and needs no further token.
            if token == nil || token == app.token { return nil }
        } else if apps.count >= SimulatedDevice.appCountMax {
            return .tooManyApps(countMax: SimulatedDevice.appCountMax)
        }
        return self.isFull ? .tooManyDeviceTokens(countMax: self.tokenCountMax) : nil
    }

    /// Why a device cannot be registered; `nil` where it can.
    func problem(_ device: SimulatedDevice) -> SimulatorError? {
        guard device.apps.count <= SimulatedDevice.appCountMax else {
            return .tooManyApps(countMax: SimulatedDevice.appCountMax)
        }
        let isKnown = device.apps.allSatisfy { self.places[Key($0)] != nil }
        let isNamed = device.identifier.isEmpty || self.byIdentifier[device.identifier] != nil
        return self.isFull && !(isKnown && isNamed) ? .tooManyDeviceTokens(countMax: self.tokenCountMax) : nil
    }

    /// Why no app can be given a new token; `nil` where one can.
    var problemOfRenewal: SimulatorError? {
        self.isFull ? .tooManyDeviceTokens(countMax: self.tokenCountMax) : nil
    }

    /// Whether there are as many tokens, or names of devices, as there may be.
    private var isFull: Bool {
        max(self.places.count + self.retired.count, self.numbers.count) >= self.tokenCountMax
    }

    // MARK: Names

    private mutating func makeIdentifier() -> String {
        var number = self.numberMax
        repeat { number += 1 } while self.byIdentifier["device-\(number)"] != nil
        return "device-\(number)"
    }

    /// The number of a device in sealed tokens; the one in its name where nobody else has it.
    private mutating func number(of identifier: String) -> UInt64 {
        if let known = self.numbers[identifier] { return known }
        let named = identifier.hasPrefix("device-") ? UInt64(identifier.dropFirst("device-".count)) : nil
        let number = named.flatMap { self.identifiers[$0] == nil && $0 > 0 ? $0 : nil } ?? self.numberMax + 1
        self.numbers[identifier] = number
        self.identifiers[number] = identifier
        self.numberMax = max(self.numberMax, number)
        return number
    }

    /// The first token of an app on a device that nobody has had.
    private func makeToken(_ topic: String, _ environment: Environment, _ number: UInt64) -> DeviceToken {
        var name = TokenSealer.Name(
            device: number,
            generation: 0,
            environment: environment,
            topicDigest: self.sealer.digest(topic)
        )
        while true {
            let token = self.sealer.token(name)
            let key = Key(token, environment)
            if self.places[key] == nil, self.retired[key] == nil { return token }
            name.generation += 1
        }
    }

    /// Makes a new token for an app; the one before is not taken any more.
    ///
    /// - Returns: the app, and what becomes of what was kept for it; `nil` where it never registered there.
    mutating func renewToken(
        _ topic: String,
        on identifier: String,
        now: UInt64
    ) -> (app: SimulatedApp, changes: [DeliveryChange])? {
        guard let app = self.byIdentifier[identifier]?.app(topic) else { return nil }
        let token = self.makeToken(topic, app.environment, self.number(of: identifier))
        return self.register(topic: topic, token: token, on: identifier, environment: app.environment, now: now)
    }

    // MARK: Notifications

    /// What a token is worth; a sealed token of a device that is not known registers it.
    mutating func standing(of token: DeviceToken, topic: String?) -> Standing {
        let key = Key(token, self.environment)
        if let place = self.places[key] {
            guard place.topic == topic else { return .foreign }
            let app = self.byIdentifier[place.device]?.apps.first { Key($0) == key }
            return app?.removalTimestamp.map { .dead(since: $0) } ?? .alive
        }
        if let retired = self.retired[key] {
            guard retired.topic == topic else { return .foreign }
            return retired.isReplaced ? .replaced(since: retired.timestamp) : .dead(since: retired.timestamp)
        }
        return self.standing(ofSealed: token, topic)
    }

    private mutating func standing(ofSealed token: DeviceToken, _ topic: String?) -> Standing {
        guard let name = self.sealer.name(of: token), name.environment == self.environment else { return .unknown }
        guard let topic, name.topicDigest == self.sealer.digest(topic) else { return .foreign }
        // Made by the run before this one, or before a reset: nobody but this service can have made it. Where there is
        // no room it is good all the same, and its device is not shown.
        guard !self.isFull else { return .alive }
        let identifier = self.identifiers[name.device] ?? "device-\(name.device)"
        var device = self.byIdentifier[identifier] ?? SimulatedDevice(identifier)
        device.apps.append(SimulatedApp(token: token, topic: topic, environment: self.environment))
        _ = self.register(device)
        return .alive
    }

    /// What becomes of a notification that is taken: for the device that has the token, if there is one.
    ///
    /// - Returns: what becomes of it, and of the one that was kept before it.
    mutating func deliver(
        _ notification: ReceivedNotification,
        now: UInt64
    ) -> (delivery: ReceivedNotification.Delivery, device: String?, changes: [DeliveryChange]) {
        guard let token = notification.token else { return (.delivered(at: now), nil, []) }
        let key = Key(token, self.environment)
        let place = self.places[key]
        let device = place.flatMap { self.byIdentifier[$0.device] }
        if self.retired[key] != nil || device?.apps.first(where: { Key($0) == key })?.removalTimestamp != nil {
            self.list(key)
            return (.appRemoved, device?.identifier, [])
        }
        guard let device, !device.isOnline else { return (.delivered(at: now), device?.identifier, []) }
        // It is tried once, and not kept.
        guard !notification.expiry.isOver(now) else { return (.discarded, device.identifier, []) }
        let changes = self.removeStored(key, .replaced)
        self.stored[key] = Stored(number: notification.number, expiry: notification.expiry)
        return (.stored, device.identifier, changes)
    }

    /// Ends what was kept for too long.
    mutating func expire(now: UInt64) -> [DeliveryChange] {
        let over = self.stored.filter { $0.value.expiry.isOver(now) }
        return over.flatMap { self.removeStored($0.key, .expired) }
    }

    /// Forgets what is kept for devices, as when the record is cleared.
    mutating func removeAllStored() { self.stored = [:] }

    // MARK: Feedback

    /// Lists a token of an app that is gone.
    private mutating func list(_ key: Key) {
        if let place = self.places[key] {
            let app = self.byIdentifier[place.device]?.apps.first { Key($0) == key }
            guard let tuple = app?.feedback else { return }
            self.waiting[key] = (place.topic, tuple)
        } else if let retired = self.retired[key] {
            let seconds = UInt32(clamping: retired.timestamp / 1000)
            self.waiting[key] = (retired.topic, FeedbackTuple(token: key.token, failedAt: seconds))
        }
    }

    /// Lists the token of an app that is gone, though nobody sent it anything.
    ///
    /// - Returns: whether the app is gone.
    mutating func listFeedback(_ token: DeviceToken) -> Bool {
        let key = Key(token, self.environment)
        self.list(key)
        return self.waiting[key] != nil
    }

    /// What waits for pollers: of one topic, or of all.
    func feedback(topic: String?, environment: Environment) -> [(topic: String, tuple: FeedbackTuple)] {
        self.waiting.filter { $0.key.environment == environment && (topic ?? $0.value.topic) == $0.value.topic }
            .values
            .sorted {
                ($0.tuple.failedAt, $0.tuple.token.hexadecimal) < ($1.tuple.failedAt, $1.tuple.token.hexadecimal)
            }
    }

    /// Takes entries off the lists, unless they changed since.
    mutating func removeFeedback(_ tuples: some Sequence<FeedbackTuple>) {
        for tuple in tuples {
            let key = Key(tuple.token, self.environment)
            if self.waiting[key]?.tuple == tuple { self.waiting[key] = nil }
        }
    }

    mutating func removeAllFeedback() { self.waiting = [:] }
}

extension SimulatedApp {
    /// What feedback says of it; `nil` while it is there.
    fileprivate var feedback: FeedbackTuple? {
        self.removalTimestamp.map { FeedbackTuple(token: self.token, failedAt: UInt32(clamping: $0 / 1000)) }
    }
}

extension PushExpiry {
    /// Whether nothing is kept for it any more.
    fileprivate func isOver(_ now: UInt64) -> Bool {
        guard let seconds = self.wireValue else { return false }
        return UInt64(seconds) * 1000 <= now
    }
}
