// SPDX-License-Identifier: Apache-2.0

import APNSPayload
import APNSWire
import Foundation
import NIOCore
import TestSupport
import Testing

/// Goal: what a queue or a web request contains is the same after it is encoded and decoded, or an error.
///
/// Method: seeded values, encoded and decoded by Foundation.
@Suite struct NotificationCodableTests {
    private struct PushJob: Codable, Equatable {
        let token: DeviceToken
        let aps: APS
        let expiry: PushExpiry
        let deadline: PushExpiry?
        let notification: PushNotification
    }

    private struct WebRequest: Codable, Equatable {
        let token: DeviceToken
        let data: JSONValue
    }

    private func roundTrip<Value: Codable>(_ value: Value) throws -> Value {
        try JSONDecoder().decode(Value.self, from: JSONEncoder().encode(value))
    }

    private func json(_ value: some Encodable) throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return String(decoding: try encoder.encode(value), as: UTF8.self)
    }

    @Test func `seeded jobs and requests are the same after a round trip`() throws {
        var values = SeededValues(seed: 30)
        for _ in 0..<TestEffort.count(300, long: 20_000) {
            let job = PushJob(
                token: try values.token(),
                aps: values.aps(),
                expiry: values.expiry(),
                deadline: values.optional { $0.expiry() },
                notification: try values.notification()
            )
            #expect(try self.roundTrip(job) == job)
            let request = WebRequest(token: job.token, data: values.json(depth: 0))
            #expect(try self.roundTrip(request) == request)
            // The encoder of the library writes the same values.
            #expect(try JSONDecoder().decode(APS.self, from: Data(JSONValue(encoding: job.aps).bytes)) == job.aps)
        }
    }

    @Test func `parts of an alert are the same after a round trip on their own`() throws {
        var values = SeededValues(seed: 31)
        for _ in 0..<100 {
            let (alert, sound, activity) = (values.alert(), values.sound(), values.activity())
            #expect(try self.roundTrip(alert) == alert)
            #expect(try self.roundTrip(sound) == sound)
            #expect(try self.roundTrip(activity) == activity)
        }
        let alert = APS.Alert(body: "a", sound: .default)
        #expect(try self.roundTrip(alert) == alert)
        #expect(try JSONDecoder().decode(APS.Sound.self, from: Data(#""a""#.utf8)) == "a")
    }

    @Test func `unknown keys survive, also next to a literal text`() throws {
        let text = #"{"alert":{"body":"a","future":[1.50],"loc-key":"A"},"stale-date":5,"tomorrow":{"a":null}}"#
        let aps = try JSONDecoder().decode(APS.self, from: Data(text.utf8))
        #expect(aps.alert?.body == "a" && aps.liveActivity == nil)
        #expect(aps.otherKeys == ["stale-date": 5, "tomorrow": ["a": nil]])
        #expect(try self.roundTrip(aps) == aps)
        let value = try JSONValue(parsing: Array(text.utf8))
        #expect(try JSONValue(encoding: aps) == value)
    }

    @Test(arguments: [
        #"{"badge":"1"}"#, #"{"badge":1.5}"#, #"{"alert":7}"#, #"{"alert":{"loc-key":"a","loc-args":[1]}}"#,
        #"{"sound":{"critical":1}}"#, #"{"sound":{"name":"a","loud":1}}"#, #"{"event":"update"}"#, "[]", "7",
        #"{"content-available":2}"#, #"{"relevance-score":"high"}"#, #"{"alert":{"title":[]}}"#,
    ]) func `a value that would be lost is an error`(_ text: String) {
        #expect(throws: DecodingError.self) { try JSONDecoder().decode(APS.self, from: Data(text.utf8)) }
    }

    @Test func `an error has the path, and nothing of the value`() throws {
        let error = #expect(throws: DecodingError.self) {
            try JSONDecoder().decode([APS].self, from: Data(#"[{"alert":{"title":["secret"]}}]"#.utf8))
        }
        guard case .dataCorrupted(let context)? = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(context.codingPath.map(\.stringValue).suffix(2) == ["alert", "title"])
        #expect(context.debugDescription == "expected a string")
    }

    @Test func `the forms of an expiry and a notification are those of the documentation`() throws {
        #expect(try self.json([PushExpiry.none, .immediately, .at(secondsSince1970: 5)]) == #"["none",0,5]"#)
        #expect(try JSONDecoder().decode([PushExpiry].self, from: Data(#"[null,"none"]"#.utf8)) == [.none, .none])
        for text in [#"["never"]"#, "[-1]", "[4294967296]", "[true]"] {
            #expect(throws: DecodingError.self) { try JSONDecoder().decode([PushExpiry].self, from: Data(text.utf8)) }
        }
        let token = try DeviceToken(bytes: [1, 2])
        var notification = PushNotification(token: token, payload: #"{"a":1.50}"#)
        #expect(try self.json(notification) == #"{"payload":"{\"a\":1.50}","token":"0102"}"#)
        notification.priority = .conservingPower
        notification.pushType = .voip
        notification.topic = "a"
        notification.collapseID = "b"
        notification.apnsID = PushIdentifier("123e4567-e89b-42d3-a456-426614174000")
        notification.expiry = .immediately
        #expect(
            try self.json(notification) == #"{"apnsID":"123e4567-e89b-42d3-a456-426614174000","collapseID":"b","#
                + #""expiry":0,"payload":"{\"a\":1.50}","priority":5,"pushType":"voip","token":"0102","topic":"a"}"#
        )
        let object = #"{"token":"0102","payload":{"aps":{"alert":"a"}},"priority":10}"#
        let decoded = try JSONDecoder().decode(PushNotification.self, from: Data(object.utf8))
        #expect(decoded.payloadText == #"{"aps":{"alert":"a"}}"# && decoded.priority == .immediate)
        let invalid = PushNotification(token: token, payload: [0xFF])
        #expect(throws: EncodingError.self) { try JSONEncoder().encode(invalid) }
        #expect(throws: DecodingError.self) {
            try JSONDecoder().decode(PushNotification.self, from: Data(object.replacing("10", with: "7").utf8))
        }
    }

    @Test(arguments: [
        ("1.50", "15e-1", true), ("0", "-0.0", true), ("100", "1E+2", true), ("0.001", "1e-3", true),
        ("1", "-1", false), ("10", "1", false), ("1e99999999999", "1e99999999999", true), ("1e9999999999", "1", false),
    ]) func `numbers are equal by their value`(_ one: String, _ other: String, _ isEqual: Bool) throws {
        let (one, other) = try (JSONValue(parsing: Array(one.utf8)), JSONValue(parsing: Array(other.utf8)))
        #expect((one == other) == isEqual)
        if isEqual { #expect(one.hashValue == other.hashValue) }
    }

    @Test func `a number is encoded exactly, or is an error`() throws {
        for text in [
            "18446744073709551615", "-9223372036854775808", "170141183460469231731687303715884105727", "1.5e300",
        ] {
            let value = try JSONValue(parsing: Array(text.utf8))
            #expect(try self.roundTrip(value) == value, "\(text)")
        }
        for text in ["0.12345678901234567890123456789", "1e400", String(repeating: "7", count: 60)] {
            let value = try JSONValue(parsing: Array(text.utf8))
            #expect(throws: EncodingError.self, "\(text)") { try JSONEncoder().encode(value) }
        }
    }
}

/// Seeded values of the types that a queue contains.
private struct SeededValues {
    var random: SplitMix64

    init(seed: UInt64) { self.random = SplitMix64(seed: seed) }

    mutating func bit() -> Bool { Bool.random(using: &self.random) }

    mutating func optional<Value>(_ value: (inout Self) -> Value) -> Value? { self.bit() ? value(&self) : nil }

    mutating func number(_ range: ClosedRange<Int> = 0...9) -> Int { Int.random(in: range, using: &self.random) }

    mutating func text() -> String {
        String((0..<self.number()).map { _ in Array("aä€😀\"\\/\n\u{1}7 ")[self.number(0...9)] })
    }

    mutating func token() throws -> DeviceToken {
        try DeviceToken(bytes: (0..<32).map { _ in UInt8.random(in: 0...255, using: &self.random) })
    }

    mutating func expiry() -> PushExpiry {
        [.none, .immediately, PushExpiry(wireValue: .random(in: 0 ... .max, using: &self.random))][self.number(0...2)]
    }

    mutating func json(depth: Int) -> JSONValue {
        switch self.number(0...(depth > 4 ? 5 : 7)) {
        case 0: return .null
        case 1: return .boolean(self.bit())
        case 2: return .number(JSONNumber(self.number(Int.min...Int.max)))
        case 3: return .number(JSONNumber(UInt64.random(in: 0 ... .max, using: &self.random)))
        case 4: return JSONNumber(Double(bitPattern: self.random.next())).map { .number($0) } ?? 1.0
        case 5: return .string(self.text())
        case 6: return .array((0..<self.number(0...3)).map { _ in self.json(depth: depth + 1) })
        default: return .object(self.members(depth: depth))
        }
    }

    mutating func members(depth: Int) -> [String: JSONValue] {
        var members: [String: JSONValue] = [:]
        for _ in 0..<self.number(0...3) { members["x" + self.text()] = self.json(depth: depth + 1) }
        return members
    }

    mutating func alertText() -> APS.AlertText {
        guard self.bit() else { return .plain(self.text()) }
        return .localized(key: self.text(), arguments: (0..<self.number(0...2)).map { _ in self.text() })
    }

    mutating func alert() -> APS.Alert {
        var alert = APS.Alert(
            title: self.optional { $0.alertText() },
            subtitle: self.optional { $0.alertText() },
            body: self.optional { $0.alertText() }
        )
        alert.launchImage = self.optional { $0.text() }
        alert.actionButton = self.optional { $0.bit() ? APS.ActionButton.none : .localized(key: $0.text()) }
        alert.action = self.optional { $0.text() }
        alert.summaryArgument = self.optional { $0.text() }
        alert.summaryArgumentCount = self.optional { $0.number() }
        alert.otherKeys = self.members(depth: 3)
        return alert
    }

    mutating func sound() -> APS.Sound {
        guard self.bit() else { return APS.Sound(self.text()) }
        return .critical(self.text(), volume: self.optional { Double($0.number()) / 7 })
    }

    mutating func activity() -> APS.LiveActivity {
        var activity = APS.LiveActivity(
            [.start, .update, .end, .init(rawValue: self.text())][self.number(0...3)],
            timestamp: Timestamp(secondsSince1970: Int64(self.number(0...2_000_000_000) as Int)),
            contentState: self.optional { .object($0.members(depth: 2)) }
        )
        activity.staleDateSeconds = self.optional { $0.number() }
        activity.dismissalDateSeconds = self.optional { $0.number() }
        activity.attributesType = self.optional { $0.text() }
        activity.attributes = self.optional { .object($0.members(depth: 2)) }
        activity.wantsPushToken = self.bit()
        activity.pushChannel = self.optional { $0.text() }
        return activity
    }

    mutating func aps() -> APS {
        var aps = APS(
            alert: self.optional { $0.alert() },
            badge: self.optional { $0.number() },
            sound: self.optional { $0.sound() }
        )
        aps.isContentAvailable = self.bit()
        aps.isMutableContent = self.bit()
        aps.isContentChanged = self.bit()
        aps.category = self.optional { $0.text() }
        aps.threadID = self.optional { $0.text() }
        aps.urlArguments = self.optional { [$0.text(), $0.text()] }
        aps.accountID = self.optional { $0.text() }
        aps.targetContentID = self.optional { $0.text() }
        aps.interruptionLevel = self.optional { .init(rawValue: $0.text()) }
        aps.relevanceScore = self.optional { Double($0.number()) / 3 }
        aps.filterCriteria = self.optional { $0.text() }
        aps.liveActivity = self.optional { $0.activity() }
        aps.summaryArgument = self.optional { $0.text() }
        aps.summaryArgumentCount = self.optional { $0.number() }
        aps.otherKeys = self.members(depth: 3)
        return aps
    }

    mutating func notification() throws -> PushNotification {
        var notification = PushNotification(
            token: try self.token(),
            payload: self.text(),
            expiry: self.expiry(),
            priority: self.optional { PushPriority.allCases[$0.number(0...2)] }
        )
        notification.topic = self.optional { $0.text() }
        notification.pushType = self.optional { PushType(rawValue: $0.text()) }
        notification.collapseID = self.optional { $0.text() }
        notification.apnsID = self.optional { PushIdentifier(using: &$0.random) }
        return notification
    }
}
