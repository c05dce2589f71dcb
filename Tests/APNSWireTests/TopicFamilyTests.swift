// SPDX-License-Identifier: Apache-2.0

import APNSWire
import Testing

/// The table from which push types and topics are inferred.
@Suite struct TopicFamilyTests {
    private static let suffixes: [(PushType, String)] = [
        (.voip, ".voip"), (.pushToTalk, ".voip-ptt"), (.complication, ".complication"),
        (.fileProvider, ".pushkit.fileprovider"), (.location, ".location-query"),
        (.liveActivity, ".push-type.liveactivity"), (.controls, ".push-type.controls"),
        (.widgets, ".push-type.widgets"),
    ]

    @Test(arguments: Self.suffixes.indices) func `the suffix of a topic has its push type`(_ index: Int) throws {
        let (type, suffix) = Self.suffixes[index]
        let family = try #require(TopicFamily(requiredBy: type))
        #expect(TopicFamily(of: "com.example.app" + suffix) == family)
        #expect(family.topic(ofApp: "com.example.app") == "com.example.app" + suffix)
        #expect(family.condition == "ends with \(suffix)")
        #expect(TopicFamily(of: suffix) == nil)
        #expect(TopicFamily(of: "com.example.app" + suffix + ".more") == nil)
    }

    @Test(arguments: [
        ("com.apple.mgmt.External.1", PushType.mdm), ("com.apple.mgmt.XServer.1", .mdm),
        ("com.apple.mail.XServer.1", .background), ("com.apple.calendar.XServer.1", .background),
        ("com.apple.contact.XServer.1", .background), ("pass.com.example", nil), ("web.com.example", nil),
    ]) func `the prefix of a topic has its push type`(_ topic: String, _ type: PushType?) throws {
        let family = try #require(TopicFamily(of: topic))
        #expect(family.pushType == type)
        #expect(family.topic(ofApp: "com.example.app") == nil)
    }

    @Test func `each documented push type either is for apps or requires one family`() {
        let required = Set(TopicFamily.all.compactMap { TopicFamily(requiredBy: $0.pushType ?? .alert)?.pushType })
        #expect(PushType.documented.subtracting(required) == [.alert, .background])
    }

    @Test func `each push type permits its default priority`() {
        for type in PushType.documented { #expect(type.permits(type.defaultPriority), "\(type)") }
        #expect(PushPriority.allCases.filter(PushType.background.permits) == [.conservingPower, .lowest])
        #expect(PushPriority.allCases.filter(PushType.pushToTalk.permits) == [.immediate])
        #expect(PushPriority.allCases.map(\.rawValue) == [10, 5, 1])
    }
}
