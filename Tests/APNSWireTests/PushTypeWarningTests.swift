// SPDX-License-Identifier: Apache-2.0

import APNSPayload
import APNSWire
import Testing

/// Goal: warnings about a payload are for push types whose payloads the system reads.
@Suite struct PushTypeWarningTests {
    private static let own = Payload(#"{"call":7,"alert":"a"}"#)

    @Test(arguments: [PushType.voip, .mdm, .complication, .fileProvider, .location, .pushToTalk, "of-later"])
    func `a payload for the app or for device management has no warnings`(_ pushType: PushType) throws {
        for payload in [Self.own, #"{"aps":{}}"#, #"{"mdm":"m"}"#, "{}"] {
            #expect(try payload.warnings(for: pushType) == [])
        }
        #expect(throws: PayloadProblem.self) { try Payload("[]").warnings(for: pushType) }
    }

    @Test(arguments: [PushType.alert, .background, .liveActivity, .widgets, .controls, nil])
    func `a payload with keys for the system is checked`(_ pushType: PushType?) throws {
        #expect(try Self.own.warnings(for: pushType) == Self.own.warnings())
        #expect(try Self.own.warnings().map(\.kind) == [.outsideAPS(.alert)])
        #expect(try Payload(#"{"aps":{}}"#).warnings(for: pushType).map(\.kind) == [.noEffect])
    }

    @Test func `without a push type, the topic determines it`() throws {
        for topic in ["com.example.app.voip", "pass.com.example", "com.apple.mgmt.External.a"] {
            #expect(try Self.own.warnings(for: nil, topic: topic) == [], "\(topic)")
        }
        for topic in ["com.example.app", "web.com.example", "com.example.app.push-type.widgets"] {
            #expect(try !Self.own.warnings(for: nil, topic: topic).isEmpty, "\(topic)")
        }
        #expect(try !Self.own.warnings(for: .alert, topic: "com.example.app.voip").isEmpty)
    }
}
