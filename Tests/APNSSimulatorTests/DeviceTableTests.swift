// SPDX-License-Identifier: Apache-2.0

import APNSWire
import TestSupport
import Testing

@testable import APNSSimulator

/// Token status, stored notifications and feedback.
struct DeviceTableTests {
    private static let topic = "com.example.app"
    private static let other = "com.example.other"

    private var table = DeviceTable(environment: .sandbox, tokenKey: [1, 2, 3])

    private mutating func register(_ topic: String = Self.topic, on identifier: String? = nil) -> DeviceToken {
        self.table.register(topic: topic, token: nil, on: identifier, environment: .sandbox, now: 0).app.token
    }

    private func notification(_ number: UInt64, _ token: DeviceToken, _ expiry: PushExpiry = .none)
        -> ReceivedNotification
    {
        var notification = ReceivedNotification(
            listener: .http2,
            token: token,
            payload: [],
            connectionNumber: 1,
            notificationNumber: number
        )
        notification.number = number
        notification.expiry = expiry
        return notification
    }

    @Test mutating func `a new token belongs to its device, topic and environment`() {
        let token = self.register()
        #expect(self.table.status(of: token, topic: Self.topic) == .alive)
        #expect(self.table.status(of: token, topic: Self.other) == .otherTopic)
        #expect(self.table.status(of: token, topic: nil) == .otherTopic)
        var production = DeviceTable(environment: .production, tokenKey: [1, 2, 3])
        #expect(production.status(of: token, topic: Self.topic) == .otherEnvironment)
        var another = DeviceTable(environment: .sandbox, tokenKey: [1, 2, 4])
        #expect(another.status(of: token, topic: Self.topic) == .unknown)
    }

    @Test mutating func `tokens, including those of removed devices, and apps of a device are limited`() {
        self.table = DeviceTable(environment: .sandbox, tokenKey: [1, 2, 3], tokenCountMax: 3)
        let full = SimulatorError.tooManyDeviceTokens(countMax: 3)
        func problem(_ topic: String, _ token: DeviceToken? = nil, on identifier: String?) -> SimulatorError? {
            self.table.problem(topic, token, .sandbox, on: identifier)
        }
        let token = self.register(on: "a")
        _ = (self.register(on: "b"), self.table.removeDevice("b", at: 1))
        #expect(problem(Self.topic, on: nil) == nil)
        _ = self.register(on: "c")
        #expect(problem(Self.topic, on: nil) == full && problem(Self.other, on: "a") == full)
        #expect(self.table.problemOfRenewal == full)
        #expect(self.table.problem(SimulatedDevice("new", apps: [])) == full)
        // Existing apps can be registered again.
        #expect(problem(Self.topic, on: "a") == nil && problem(Self.topic, token, on: "a") == nil)
        #expect(self.table.device("a").map { self.table.problem($0) } == .some(nil))
        #expect("\(full)".contains("3 device tokens"))
        // A token of an earlier run is still valid.
        var other = DeviceTable(environment: .sandbox, tokenKey: [1, 2, 3])
        let later = (0..<5).map { _ in
            other.register(topic: Self.topic, token: nil, on: nil, environment: .sandbox, now: 0).app.token
        }
        #expect(self.table.status(of: later[4], topic: Self.topic) == .alive)
        #expect(self.table.devices.count == 2)
        let apps = (0...SimulatedDevice.appCountMax).map { SimulatedApp(token: token, topic: "app\($0)") }
        #expect(other.problem(SimulatedDevice("many", apps: apps)) == .tooManyApps(countMax: 100))
        #expect(other.problem(SimulatedDevice("many", apps: apps.dropLast())) == nil)
    }

    @Test mutating func `a later run knows earlier tokens, and assigns others to new devices`() {
        let tokens = [self.register(), self.register(), self.register(Self.other, on: "device-2")]
        var next = DeviceTable(environment: .sandbox, tokenKey: [1, 2, 3])
        #expect(next.status(of: tokens[2], topic: Self.topic) == .otherTopic)
        #expect(next.devices.isEmpty)
        #expect(next.status(of: tokens[2], topic: Self.other) == .alive)
        #expect(next.status(of: tokens[1], topic: Self.topic) == .alive)
        #expect(next.devices.map(\.id) == ["device-2"] && next.devices[0].apps.count == 2)
        let new = next.register(topic: Self.topic, token: nil, on: nil, environment: .sandbox, now: 0).app.token
        #expect(!tokens.contains(new) && next.device(of: new)?.id == "device-3")
    }

    @Test mutating func `the same devices have the same tokens in each run`() {
        var next = DeviceTable(environment: .sandbox, tokenKey: [1, 2, 3])
        for _ in 0..<5 {
            let token = next.register(topic: Self.topic, token: nil, on: nil, environment: .sandbox, now: 0).app.token
            #expect(self.register() == token)
        }
    }

    @Test mutating func `an app that registers again keeps its token until it receives a new one`() {
        let token = self.register(on: "phone")
        #expect(self.register(on: "phone") == token)
        let renewed = self.table.renewToken(Self.topic, on: "phone", now: 5000)?.app.token
        #expect(renewed != nil && renewed != token)
        #expect(self.table.status(of: token, topic: Self.topic) == .replaced(since: 5000))
        #expect(self.table.status(of: token, topic: Self.other) == .otherTopic)
        #expect(self.table.renewToken(Self.other, on: "phone", now: 0) == nil)
        #expect(self.table.deliver(self.notification(1, token), now: 6000).delivery == .appRemoved)
        let tuple = FeedbackTuple(token: token, failedAt: UInt32(5))
        #expect(self.table.feedback(topic: Self.topic, environment: .sandbox).map(\.tuple) == [tuple])
    }

    @Test mutating func `an offline device receives the last notification of each app when it is online again`() {
        let (token, second) = (self.register(on: "phone"), self.register(Self.other, on: "phone"))
        #expect(self.table.setOnline("phone", false, now: 0) == [])
        let first = self.table.deliver(self.notification(1, token), now: 1)
        #expect(first.delivery == .stored && first.device == "phone" && first.changes.isEmpty)
        #expect(self.table.deliver(self.notification(2, second), now: 1).changes.isEmpty)
        let third = self.table.deliver(self.notification(3, token), now: 1)
        #expect(third.changes == [.init(number: 1, delivery: .replaced)])
        #expect(self.table.device("phone")?.apps.map(\.storedNotificationNumber) == [3, 2])
        let changes = self.table.setOnline("phone", true, now: 77) ?? []
        #expect(
            changes == [.init(number: 3, delivery: .delivered(at: 77)), .init(number: 2, delivery: .delivered(at: 77))]
        )
        #expect(self.table.setOnline("phone", true, now: 78) == [])
        #expect(self.table.deliver(self.notification(4, token), now: 79).delivery == .delivered(at: 79))
        #expect(self.table.setOnline("nobody", true, now: 0) == nil)
    }

    @Test mutating func `a notification that expires immediately is not stored, and stored ones expire`() {
        let token = self.register(on: "phone")
        _ = self.table.setOnline("phone", false, now: 0)
        let kept = self.table.deliver(self.notification(1, token, .at(secondsSince1970: 10)), now: 9999)
        #expect(kept.delivery == .stored)
        // A single attempt replaces no stored notification.
        let once = self.table.deliver(self.notification(2, token, .immediately), now: 9999)
        #expect(once.delivery == .discarded && once.changes.isEmpty)
        let late = self.table.deliver(self.notification(3, token, .at(secondsSince1970: 9)), now: 9999)
        #expect(late.delivery == .discarded)
        #expect(self.table.expire(now: 9999) == [])
        #expect(self.table.expire(now: 10_000) == [.init(number: 1, delivery: .expired)])
        _ = self.table.deliver(self.notification(4, token, .at(secondsSince1970: 11)), now: 10_000)
        #expect(self.table.setOnline("phone", true, now: 11_000) == [.init(number: 4, delivery: .expired)])
    }

    @Test mutating func `a notification stored for a removed app is not delivered`() {
        let token = self.register(on: "phone")
        _ = self.table.setOnline("phone", false, now: 0)
        _ = self.table.deliver(self.notification(1, token), now: 1)
        let (wasThere, changes) = self.table.remove(token, at: 2)
        #expect(wasThere && changes == [.init(number: 1, delivery: .appRemoved)])
        #expect(self.table.status(of: token, topic: Self.topic) == .dead(since: 2))
        #expect(self.register(on: "phone") == token)
        #expect(self.table.status(of: token, topic: Self.topic) == .alive)
        _ = self.table.deliver(self.notification(2, token), now: 3)
        #expect(self.table.removeDevice("phone", at: 4) == [.init(number: 2, delivery: .appRemoved)])
        #expect(self.table.status(of: token, topic: Self.topic) == .dead(since: 4))
        #expect(self.table.devices.isEmpty && self.table.removeDevice("phone", at: 5) == nil)
    }

    @Test mutating func `a device with the identifier of a removed one has other tokens`() {
        let token = self.register(on: "phone")
        _ = self.table.removeDevice("phone", at: 4)
        let new = self.register(on: "phone")
        #expect(new != token)
        #expect(self.table.status(of: token, topic: Self.topic) == .dead(since: 4))
        #expect(self.table.status(of: new, topic: Self.topic) == .alive)
    }

    @Test mutating func `identifiers with huge numbers are valid`() {
        let names = ["device-18446744073709551615", "device-9007199254740993", "device-0", "device-1"]
        for name in names { _ = self.register(on: name) }
        let token = self.register()
        #expect(self.table.devices.map(\.id).prefix(4) == names[...])
        #expect(self.table.device(of: token) != nil && self.table.devices.count == 5)
        #expect(Set(self.table.devices.flatMap(\.apps).map(\.token)).count == 5)
    }

    @Test mutating func `an app can have more tokens than a generation counts`() {
        var token = self.register(on: "phone")
        var last = token
        for _ in 0..<70_000 {
            last = token
            guard let app = self.table.renewToken(Self.topic, on: "phone", now: 1)?.app else { break }
            token = app.token
        }
        #expect(self.table.status(of: token, topic: Self.topic) == .alive)
        #expect(self.table.status(of: last, topic: Self.topic) == .replaced(since: 1))
    }

    @Test mutating func `an app has one token, even if one of an earlier run is used`() throws {
        let old = self.register(on: "device-1")
        var next = DeviceTable(environment: .sandbox, tokenKey: [1, 2, 3])
        let given = try DeviceToken(bytes: [UInt8](repeating: 0xAB, count: 32))
        _ = next.register(topic: Self.topic, token: given, on: "device-1", environment: .sandbox, now: 0)
        #expect(next.status(of: old, topic: Self.topic, now: 7) == .replaced(since: 7))
        #expect(next.status(of: given, topic: Self.topic) == .alive)
        #expect(next.devices.map(\.apps.count) == [1])
    }

    @Test mutating func `numbers continue in a later table`() {
        let tokens = [self.register(), self.register()]
        let min = self.table.deviceNumberMax
        var next = DeviceTable(environment: .sandbox, tokenKey: [1, 2, 3], deviceNumberMin: min)
        let new = next.register(topic: Self.topic, token: nil, on: nil, environment: .sandbox, now: 0).app.token
        let named = next.register(topic: Self.topic, token: nil, on: "device-1", environment: .sandbox, now: 0)
            .app.token
        #expect(!tokens.contains(new) && !tokens.contains(named) && new != named)
        // A notification on its way to an old device reaches that one.
        #expect(next.status(of: tokens[1], topic: Self.topic) == .alive)
        #expect(next.device(of: tokens[1])?.id != next.device(of: new)?.id)
    }

    @Test mutating func `a dead token stays dead when its app returns with another one`() throws {
        let token = self.register(on: "phone")
        _ = self.table.remove(token, at: 1000)
        let new = try DeviceToken(bytes: [UInt8](repeating: 0xCD, count: 32))
        _ = self.table.register(topic: Self.topic, token: new, on: "phone", environment: .sandbox, now: 9000)
        #expect(self.table.status(of: token, topic: Self.topic) == .dead(since: 1000))
        #expect(self.table.status(of: new, topic: Self.topic) == .alive)
    }

    @Test mutating func `feedback lists an app that was deleted while a notification was stored for it`() {
        let tokens = ["phone", "tablet", "watch"].map { self.register(on: $0) }
        for (number, token) in tokens.enumerated() {
            _ = self.table.setOnline(["phone", "tablet", "watch"][number], false, now: 0)
            _ = self.table.deliver(self.notification(UInt64(number + 1), token, PushExpiry(wireValue: 20)), now: 1)
        }
        let removed = self.table.remove(tokens[0], at: 5000)
        #expect(removed.1 == [.init(number: 1, delivery: .appRemoved)])
        _ = self.table.removeDevice("tablet", at: 6000)
        // An expired notification is not attempted.
        #expect(self.table.remove(tokens[2], at: 20_000).1 == [.init(number: 3, delivery: .expired)])
        let listed = self.table.feedback(topic: Self.topic, environment: .sandbox).map(\.tuple)
        #expect(
            listed == [
                FeedbackTuple(token: tokens[0], failedAt: UInt32(5)),
                FeedbackTuple(token: tokens[1], failedAt: UInt32(6)),
            ]
        )
    }

    @Test mutating func `by option, feedback lists a token after repeated failures, and a registration resets them`() {
        self.table = DeviceTable(environment: .sandbox, tokenKey: [1, 2, 3], feedbackFailureCountMin: 3)
        func isListed() -> Bool { !self.table.feedback(topic: nil, environment: .sandbox).isEmpty }
        let token = self.register(on: "phone")
        for round in 0..<2 {
            _ = self.table.remove(token, at: 1000)
            for number: UInt64 in 1...2 { _ = self.table.deliver(self.notification(number, token), now: 2000) }
            #expect(!isListed(), "round \(round)")
            guard round == 0 else { break }
            #expect(self.register(on: "phone") == token)
        }
        _ = self.table.deliver(self.notification(3, token), now: 2000)
        #expect(isListed())
    }

    @Test mutating func `a stored notification survives the replacement of its token`() {
        let token = self.register(on: "phone")
        _ = self.table.setOnline("phone", false, now: 0)
        _ = self.table.deliver(self.notification(1, token), now: 1)
        let renewed = self.table.renewToken(Self.topic, on: "phone", now: 2)
        #expect(renewed?.changes == [])
        #expect(self.table.setOnline("phone", true, now: 3) == [.init(number: 1, delivery: .delivered(at: 3))])
    }

    @Test mutating func `registering another app on a device keeps its feedback entries`() {
        let (token, other) = (self.register(on: "phone"), self.register(Self.other, on: "phone"))
        _ = (self.table.remove(token, at: 5000), self.table.deliver(self.notification(1, token), now: 6000))
        _ = self.register("com.example.third", on: "phone")
        #expect(self.table.feedback(topic: Self.topic, environment: .sandbox).map(\.tuple.token) == [token])
        #expect(self.table.status(of: token, topic: Self.topic) == .dead(since: 5000))
        #expect(self.table.status(of: other, topic: Self.other) == .alive)
        // That app is installed again.
        _ = self.register(on: "phone")
        #expect(self.table.feedback(topic: Self.topic, environment: .sandbox).isEmpty)
    }

    @Test mutating func `a stored notification is discarded when its token moves to another device`() {
        let token = self.register(on: "phone")
        _ = self.table.setOnline("phone", false, now: 0)
        _ = self.table.deliver(self.notification(1, token), now: 1)
        let moved = self.table.register(topic: Self.topic, token: token, on: "tablet", environment: .sandbox, now: 2)
        #expect(moved.changes == [.init(number: 1, delivery: .appRemoved)])
        #expect(self.table.takeChangedDevices().map(\.id) == ["phone"])
        #expect(self.table.device("tablet")?.apps.map(\.storedNotificationNumber) == [nil])
        #expect(self.table.device("phone")?.apps.isEmpty == true)
    }

    @Test mutating func `a token of the other environment is not one of this service`() throws {
        let token = try DeviceToken(bytes: [UInt8](repeating: 0xEE, count: 32))
        _ = self.table.register(topic: Self.topic, token: token, on: nil, environment: .production, now: 0)
        #expect(self.table.status(of: token, topic: Self.topic) == .otherEnvironment)
    }

    @Test mutating func `an expired notification is not replaced by the next one`() {
        let token = self.register(on: "phone")
        _ = self.table.setOnline("phone", false, now: 0)
        _ = self.table.deliver(self.notification(1, token, .at(secondsSince1970: 1)), now: 0)
        let next = self.table.deliver(self.notification(2, token), now: 1000)
        #expect(next.changes == [.init(number: 1, delivery: .expired)] && next.delivery == .stored)
    }

    @Test mutating func `feedback changes are reported`() {
        let token = self.register(on: "phone")
        _ = self.table.takeFeedbackChange()
        #expect(self.table.takeFeedbackChange() == false)
        _ = (self.table.remove(token, at: 1), self.table.deliver(self.notification(1, token), now: 2))
        #expect(self.table.takeFeedbackChange() == true)
        // It is already listed.
        _ = self.table.deliver(self.notification(2, token), now: 3)
        #expect(self.table.takeFeedbackChange() == false)
        _ = self.register(on: "phone")
        #expect(self.table.takeFeedbackChange() == true)
    }

    /// Goal: at most one notification is stored for an app, and each stored one ends once, as in a simple model.
    ///
    /// Method: random registrations, removals, switches and notifications with random expiries, compared with the
    /// model.
    @Test(arguments: 0..<20 as Range<UInt64>) mutating func `random walks agree with a model`(_ seed: UInt64) {
        struct App {
            var stored: (number: UInt64, expiry: UInt64)?
            var isRemoved = false
        }
        var random = SplitMix64(seed: seed)
        var apps: [DeviceToken: App] = [:]
        var isOnline: [String: Bool] = [:]
        var open: Set<UInt64> = []
        var now: UInt64 = 1_000_000
        for number in 1...UInt64(600) {
            now += random.next() % 3000
            let time = Timestamp(millisecondsSince1970: Int64(now))
            let identifier = "device-\(1 + random.next() % 3)"
            let topic = random.next() % 2 == 0 ? Self.topic : Self.other
            let token = self.table.device(identifier)?.app(topic)?.token
            var changes: [DeviceTable.DeliveryChange] = []
            switch random.next() % 6 {
            case 0:
                let token = self.register(topic, on: identifier)
                apps[token, default: App()].isRemoved = false
                isOnline[identifier] = isOnline[identifier] ?? true
            case 1:
                guard let token else { break }
                let expected = apps[token]?.isRemoved == false
                let (wasThere, removed) = self.table.remove(token, at: time)
                #expect(wasThere == expected)
                if wasThere {
                    #expect(removed.map(\.number) == (apps[token]?.stored.map { [$0.number] } ?? []))
                    apps[token] = App(isRemoved: true)
                    changes = removed
                }
            case 2, 3:
                let online = random.next() % 2 == 0
                guard let switched = self.table.setOnline(identifier, online, now: time) else {
                    #expect(isOnline[identifier] == nil)
                    break
                }
                isOnline[identifier] = online
                changes = switched
                for token in self.table.device(identifier)?.apps.map(\.token) ?? [] where online {
                    guard let stored = apps[token]?.stored else { continue }
                    let delivery: ReceivedNotification.Delivery = stored.expiry <= now ? .expired : .delivered(at: time)
                    #expect(switched.contains { $0.number == stored.number && $0.delivery == delivery })
                    apps[token]?.stored = nil
                }
            default:
                guard let token else { break }
                let expiry: UInt64? = [nil, 0, now / 1000 + 1, now / 1000 + 5][Int(random.next() % 4)]
                let push = self.notification(number, token, PushExpiry(wireValue: expiry.map { UInt32($0) }))
                let result = self.table.deliver(push, now: time)
                changes = result.changes
                if apps[token]?.isRemoved == true {
                    #expect(result.delivery == .appRemoved)
                } else if isOnline[identifier] == true {
                    #expect(result.delivery == .delivered(at: time))
                } else if let expiry, expiry * 1000 <= now {
                    #expect(result.delivery == .discarded)
                } else {
                    #expect(result.delivery == .stored)
                    #expect(changes.map(\.number) == (apps[token]?.stored.map { [$0.number] } ?? []))
                    apps[token]?.stored = (number, expiry.map { $0 * 1000 } ?? .max)
                    open.insert(number)
                }
            }
            for change in changes { #expect(open.remove(change.number) != nil, "seed \(seed), \(change)") }
            let kept = self.table.devices.flatMap(\.apps).compactMap(\.storedNotificationNumber)
            #expect(Set(kept) == open && kept.count == open.count, "seed \(seed)")
        }
    }
}
