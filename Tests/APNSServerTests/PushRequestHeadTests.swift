// SPDX-License-Identifier: Apache-2.0

import APNSWire
import NIOHPACK
import Testing

@testable import APNSServer

@Suite("The headers of a request on the server")
struct PushRequestHeadTests {
    private static let good: [(String, String)] = [
        (":method", "POST"), (":scheme", "https"), (":authority", "host"), (":path", "/3/device/00ff"),
        ("apns-id", "123e4567-e89b-42d3-a456-426614174000"), ("apns-topic", "com.example.app"),
    ]

    private func read(_ change: [String: String?], topics: [String] = []) -> PushRequestHead.Result {
        var values = Self.good.filter { change[$0.0] == nil }
        for (name, value) in change { if let value { values.append((name, value)) } }
        return PushRequestHead.read(HPACKHeaders(values), certificateTopics: topics)
    }

    private func reason(_ change: [String: String?], topics: [String] = []) -> PushReason? {
        guard case .refused(_, let refusal) = self.read(change, topics: topics) else { return nil }
        #expect(!refusal.detail.isEmpty)
        return refusal.reason
    }

    @Test(arguments: ["/4/broadcasts/apps/com.example.app", "/1/apps/com.example.app/channels"])
    func `without channels, a request of a broadcast is answered that it is not simulated`(_ path: String) {
        let headers = HPACKHeaders(Self.good.filter { $0.0 != ":path" } + [(":path", path)])
        #expect(PushRequestHead.read(headers, certificateTopics: [], hasChannels: true) == .broadcast)
        #expect(self.reason([":path": path]) == .other("BroadcastsAreNotSimulated"))
        #expect(self.reason([":path": path, ":method": "GET", "apns-topic": nil])?.status == nil)
        #expect(self.reason([":path": "/4/"]) == .badPath)
    }

    @Test func `valid headers are read`() {
        guard
            case .head(let head) = self.read([
                "apns-priority": "5", "apns-push-type": "background", "apns-expiration": "99999999999",
                "apns-collapse-id": "c", "authorization": "bearer x", "user-agent": "u",
            ])
        else {
            Issue.record("refused")
            return
        }
        #expect(head.apnsID.description == "123e4567-e89b-42d3-a456-426614174000")
        #expect(head.token()?.bytes == [0x00, 0xFF])
        #expect(head.topic == "com.example.app")
        #expect(head.priority == 5)
        #expect(head.pushType == .background)
        #expect(head.expiration == .max)
        #expect(head.collapseID == "c")
        #expect(head.authorization == "bearer x")
    }

    private static let faults: [(change: [String: String?], reason: PushReason)] = [
        (["apns-id": "1"], .badMessageId), ([":method": "GET"], .methodNotAllowed),
        (["apns-topic": String?.none], .missingTopic),
        (["apns-collapse-id": String(repeating: "x", count: 65)], .badCollapseId),
        (["apns-priority": "7"], .badPriority), (["apns-priority": ""], .badPriority),
        (["apns-expiration": "soon"], .badExpirationDate), (["apns-expiration": "-1"], .badExpirationDate),
        (["apns-push-type": "loud"], .invalidPushType),
        (["apns-push-type": "background", "apns-priority": "10"], .badPriority),
        ([":path": "/3/devices/00ff"], .badPath),
        (["apns-topic": ""], .badTopic), (["apns-topic": "com example"], .badTopic),
        (["apns-topic": "com.exämple"], .badTopic), (["apns-topic": String(repeating: "x", count: 256)], .badTopic),
        (["apns-push-type": "pushtotalk", "apns-topic": "a.voip-ptt", "apns-priority": "5"], .badPriority),
        (["apns-push-type": "pushtotalk", "apns-topic": "a.voip-ptt", "apns-expiration": "9"], .badExpirationDate),
        (["apns-push-type": "pushtotalk"], .badTopic), (["apns-push-type": "voip"], .badTopic),
        (["apns-push-type": "voip", "apns-topic": ".voip"], .badTopic),
        (["apns-push-type": "complication"], .badTopic), (["apns-push-type": "controls"], .badTopic),
        (["apns-push-type": "fileprovider"], .badTopic), (["apns-push-type": "liveactivity"], .badTopic),
        (["apns-push-type": "location"], .badTopic), (["apns-push-type": "mdm"], .badTopic),
        (["apns-push-type": "widgets"], .badTopic),
    ]

    @Test(arguments: Self.faults.indices)
    func `each invalid header has its reason`(_ index: Int) {
        #expect(self.reason(Self.faults[index].change) == Self.faults[index].reason)
    }

    private static let typed: [(type: String, topic: String)] = [
        ("alert", "a"), ("background", "a"), ("complication", "a.complication"), ("controls", "a.push-type.controls"),
        ("fileprovider", "a.pushkit.fileprovider"), ("liveactivity", "a.push-type.liveactivity"),
        ("location", "a.location-query"), ("mdm", "com.apple.mgmt.External.1"), ("pushtotalk", "a.voip-ptt"),
        ("voip", "a.voip"), ("widgets", "a.push-type.widgets"), ("alert", String(repeating: "x", count: 255)),
    ]

    @Test(arguments: Self.typed.indices)
    func `a topic that fits its push type is accepted`(_ index: Int) {
        let (type, topic) = Self.typed[index]
        #expect(self.reason(["apns-push-type": type, "apns-topic": topic]) == nil)
        guard type == "pushtotalk" else { return }
        let good = ["apns-push-type": type, "apns-topic": topic, "apns-priority": "10", "apns-expiration": "0"]
        #expect(self.reason(good) == nil)
    }

    @Test(arguments: ["", "00f", "00 ff", "xy", String(repeating: "00", count: 101)])
    func `an invalid token is rejected only after the credentials are checked`(_ text: String) throws {
        guard case .head(let head) = self.read([":path": "/3/device/" + text]) else {
            Issue.record("refused")
            return
        }
        #expect(head.token() == nil)
    }

    @Test func `an apns-id is accepted in either letter case`() {
        guard case .head(let head) = self.read(["apns-id": "123E4567-e89b-42D3-A456-426614174000"]) else {
            Issue.record("refused")
            return
        }
        #expect(head.apnsID.description == "123e4567-e89b-42d3-a456-426614174000")
    }

    @Test func `the first error in the service's order counts`() {
        #expect(self.reason(["apns-id": "1", ":method": "GET"]) == .badMessageId)
        #expect(self.reason([":method": "GET", "apns-topic": String?.none]) == .methodNotAllowed)
        #expect(self.reason(["apns-topic": String?.none, "apns-priority": "7"]) == .missingTopic)
        #expect(self.reason(["apns-priority": "7", "apns-push-type": "loud"]) == .badPriority)
        #expect(self.reason(["apns-push-type": "loud", ":path": "/"]) == .invalidPushType)
    }

    @Test func `a repeated header is rejected`() {
        let headers = HPACKHeaders(Self.good + [("apns-topic", "com.example.other")])
        guard case .refused(_, let refusal) = PushRequestHead.read(headers, certificateTopics: []) else {
            Issue.record("taken")
            return
        }
        #expect(refusal == PushRefusal(.duplicateHeaders, "apns-topic occurs twice"))
    }

    @Test func `a certificate for one topic determines the topic, one for several does not`() {
        guard case .head(let head) = self.read(["apns-topic": String?.none], topics: ["a"]) else {
            Issue.record("refused")
            return
        }
        #expect(head.topic == "a")
        #expect(self.reason(["apns-topic": String?.none], topics: ["a", "b"]) == .missingTopic)
    }
}
