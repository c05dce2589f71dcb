// SPDX-License-Identifier: Apache-2.0

import APNSPayload
import Testing

/// Valid parts of a payload that are probably mistakes.
@Suite struct PayloadWarningTests {
    private func texts(_ json: String) throws -> [String] { try Payload(json).warnings().map { "\($0)" } }

    @Test(arguments: [
        (#"{"alert":"a"}"#, ["alert is outside aps and has no effect; did you mean aps.alert?"]),
        (
            #"{"aps":{"bagde":1,"alert":"a"},"sound":"b"}"#,
            [
                "sound is outside aps and has no effect; did you mean aps.sound?",
                "aps.bagde is unknown; did you mean aps.badge?",
            ]
        ),
        (#"{"APS":{"alert":"a"}}"#, ["APS is unknown; did you mean aps?"]),
        (#"{"apns":{"alert":"a"}}"#, ["apns is unknown; did you mean aps?"]),
        (#"{"aps":{"contentAvailable":1}}"#, ["aps.contentAvailable is unknown; did you mean aps.content-available?"]),
        (#"{"aps":{"alert":{"boddy":"a"}}}"#, ["aps.alert.boddy is unknown; did you mean aps.alert.body?"]),
        (#"{"aps":{"alert":{"locKey":"a"}}}"#, ["aps.alert.locKey is unknown; did you mean aps.alert.loc-key?"]),
        (#"{"aps":{"alert":"a","sound":{"nmae":"a"}}}"#, ["aps.sound.nmae is unknown; did you mean aps.sound.name?"]),
        (#"{"aps":{"badge":-1}}"#, ["aps.badge should be a whole number, 0 or more"]),
        (#"{"aps":{"badge":1.5}}"#, ["aps.badge should be a whole number, 0 or more"]),
        (#"{"aps":{"content-available":2}}"#, ["aps.content-available should be 1 or 0"]),
        (
            #"{"aps":{"alert":"a","interruption-level":"loud"}}"#,
            ["aps.interruption-level should be passive, active, time-sensitive or critical"]
        ),
        (
            #"{"aps":{"alert":"","sound":{"volume":2}}}"#,
            ["aps.alert is empty", "aps.sound.volume should be a number from 0 to 1"]
        ),
        (
            #"{"aps":{"alert":{"body":"a","loc-args":["b"]}}}"#,
            ["aps.alert.loc-args has no effect without aps.alert.loc-key"]
        ),
        (
            #"{"aps":{"event":"update","content-state":{}}}"#,
            ["aps.timestamp is missing; a Live Activity requires it"]
        ),
        (#"{"aps":{"timestamp":1,"content-state":{}}}"#, ["aps.event is missing; a Live Activity requires it"]),
        (#"{"aps":{"event":"pause","timestamp":1}}"#, ["aps.event should be start, update or end"]),
        (
            #"{"aps":{"event":"start","timestamp":1,"content-state":{},"attributes":{}}}"#,
            ["aps.attributes-type is missing; a Live Activity requires it"]
        ),
        (
            #"{"aps":{"alert":{"body":"a","sound":"b"}}}"#,
            ["aps.alert.sound has no effect; did you mean aps.sound?"]
        ),
        (
            #"{"aps":{}}"#,
            ["the payload has no effect: aps has no alert, badge, sound or content-available"]
        ),
        (
            #"{"order":1}"#,
            ["the payload has no effect: aps has no alert, badge, sound or content-available"]
        ),
    ]) func `a probable mistake is reported with its correction`(_ json: String, _ expected: [String]) throws {
        #expect(try self.texts(json) == expected)
    }

    /// Real payloads, and names of an app that are not similar to known ones.
    @Test(arguments: [
        "{}", #"{"mdm":"magic"}"#, #"{"aps":{"alert":"a","badge":0,"sound":"default"},"category":"x","id":7}"#,
        #"{"aps":{"content-available":1},"alerts":["a"]}"#, #"{"aps":{"content-changed":true}}"#,
        #"{"aps":{"alert":"a","url-args":["b"]},"alert":"c"}"#,
        #"{"aps":{"event":"update","timestamp":1,"content-state":{},"relevance-score":75}}"#,
        #"{"aps":{"alert":{"title":"a","action-loc-key":null},"thread-id":"b","vendor":{"x":1}}}"#,
        #"{"aps":{"alert":"a","sound":{"critical":1,"name":"b","volume":0.5}}}"#,
    ]) func `valid payloads have no warnings`(_ json: String) throws {
        #expect(try self.texts(json) == [])
    }

    @Test func `every known key has no warning`() throws {
        for key in PayloadKey.allCases where key != .aps {
            let parts = key.description.split(separator: ".").dropFirst()
            var json = "0"
            for part in parts.reversed() { json = "{\"\(part)\":\(json)}" }
            let misspelled = try Payload("{\"aps\":\(json)}").warnings().filter {
                if case .misspelled = $0.kind { true } else { false }
            }
            #expect(misspelled == [], "\(key)")
        }
    }

    @Test func `a name is shown without control characters, and truncated`() throws {
        let warning = try #require(try Payload("{\"aps\":{\"bad\u{202E}ge\":1}}").warnings().first)
        #expect("\(warning)" == "aps.bad?ge is unknown; did you mean aps.badge?")
        // A name that is much longer than any known one is not compared.
        let long = String(repeating: "badge", count: 20_000)
        #expect(try Payload("{\"aps\":{\"\(long)\":1,\"alert\":\"a\"}}").warnings() == [])
    }

    @Test func `anything other than an object is refused`() {
        #expect(throws: PayloadProblem.self) { try Payload("[]").warnings() }
        #expect(throws: PayloadProblem.self) { try Payload(#"{"aps":{},"aps":{}}"#).warnings() }
    }

    @Test(arguments: [
        ("", "", 0), ("a", "", 1), ("badge", "badge", 0), ("bagde", "badge", 1), ("sond", "sound", 1),
        ("kitten", "sitting", 3), ("ab", "ba", 1), ("abc", "ca", 3),
    ]) func `a distance counts characters added, removed, replaced and swapped`(
        _ one: String,
        _ other: String,
        _ distance: Int
    ) {
        #expect(one.editDistance(to: other) == distance)
        #expect(other.editDistance(to: one) == distance)
    }
}
