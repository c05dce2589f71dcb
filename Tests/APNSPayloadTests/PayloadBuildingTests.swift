// SPDX-License-Identifier: Apache-2.0

import APNSPayload
import Testing

/// Payloads made from types: the bytes are compared, and all pass the check.
@Suite("Payloads made from types")
struct PayloadBuildingTests {
    private func text(_ payload: Payload) -> String { String(decoding: payload.bytes, as: UTF8.self) }

    private func expect(_ payload: Payload, _ text: String, _ location: SourceLocation = #_sourceLocation) throws {
        #expect(self.text(payload) == text, sourceLocation: location)
        try payload.check(rules: .http2)
    }

    @Test("The shapes of the guide of 2012: a text, a button, a sound, a localized text, no alert")
    func shapesOfTheGuide() throws {
        try self.expect(
            Payload(APS(alert: "A letter from Ann"), ["parts": ["one", "two"]]),
            #"{"aps":{"alert":"A letter from Ann"},"parts":["one","two"]}"#
        )
        var alert = APS.Alert("Ann wants to play chess")
        alert.actionButton = .localized(key: "JOIN")
        try self.expect(
            Payload(APS(alert: alert, badge: 5), ["a": "b", "c": ["d"]]),
            #"{"aps":{"alert":{"body":"Ann wants to play chess","action-loc-key":"JOIN"},"badge":5},"a":"b","c":["d"]}"#
        )
        try self.expect(
            Payload(APS(alert: "Nine letters", badge: 9, sound: "ding.aiff"), ["a": "b", "c": 42]),
            #"{"aps":{"alert":"Nine letters","badge":9,"sound":"ding.aiff"},"a":"b","c":42}"#
        )
        try self.expect(
            Payload(
                APS(alert: .init(body: .localized(key: "INVITE", arguments: ["Ann", "Ben"])), sound: .default),
                ["a": "b"]
            ),
            #"{"aps":{"alert":{"loc-key":"INVITE","loc-args":["Ann","Ben"]},"sound":"default"},"a":"b"}"#
        )
        try self.expect(Payload(APS(), ["numbers": [5, 8]]), #"{"aps":{},"numbers":[5,8]}"#)
    }

    @Test("Every key is encoded as documented by Apple, and known to the check")
    func everyKey() throws {
        var alert = APS.Alert(
            title: .localized(key: "T", arguments: ["1"]),
            subtitle: .localized(key: "S"),
            body: "B"
        )
        alert.launchImage = "launch.png"
        alert.action = "View"
        alert.actionButton = APS.ActionButton.none
        alert.summaryArgument = "Ann"
        alert.summaryArgumentCount = 2
        var aps = APS(alert: alert, badge: 0, sound: .critical("siren", volume: 0.5))
        aps.isContentAvailable = true
        aps.isMutableContent = true
        aps.isContentChanged = true
        aps.category = "c"
        aps.threadID = "t"
        aps.urlArguments = ["a", "b"]
        aps.accountID = "i"
        aps.targetContentID = "w"
        aps.interruptionLevel = .timeSensitive
        aps.relevanceScore = 0.25
        aps.filterCriteria = "f"
        aps.summaryArgument = "s"
        aps.summaryArgumentCount = 3
        var activity = APS.LiveActivity(
            .start,
            timestamp: Timestamp(secondsSince1970: 1_700_000_000),
            contentState: ["score": 1]
        )
        activity.staleDate = Timestamp(secondsSince1970: 1_700_000_100)
        activity.dismissalDate = Timestamp(secondsSince1970: 1_700_000_200)
        activity.attributesType = "Game"
        activity.attributes = ["home": "Ann"]
        activity.wantsPushToken = true
        activity.pushChannel = "ch"
        aps.liveActivity = activity
        let payload = Payload(aps)
        try payload.check(rules: .http2)
        let value = try payload.value()
        let keys = Set(PayloadKey.allCases.map(\.description))
        var written: Set<String> = []
        func collect(_ value: JSONValue, _ path: String) {
            guard case .object(let members) = value else { return }
            for (name, member) in members {
                let path = path.isEmpty ? name : "\(path).\(name)"
                if keys.contains(path) {
                    written.insert(path)
                } else if !path.contains("content-state.") && !path.contains("attributes.") {
                    Issue.record("\(path) is not a key that the check knows")
                }
                collect(member, path)
            }
        }
        collect(value, "")
        // A text is either plain or localized.
        let others: Set = ["aps.alert.title", "aps.alert.subtitle", "aps.alert.loc-key", "aps.alert.loc-args"]
        #expect(keys.subtracting(written) == others.union(["aps.alert.subtitle-loc-args"]))
    }

    @Test("Texts and values are interpolated")
    func interpolation() throws {
        let (name, number) = ("Ada \"L\"", 7)
        var alert = APS.Alert("Hello, \(name)")
        #expect(APS(alert: "Hello, \(name)").alert == alert)
        alert.title = "Order \(number)"
        #expect(alert.title == .plain("Order 7"))
        #expect(["url": "https://app.example/\(number)"] as JSONValue == ["url": .string("https://app.example/7")])
    }

    @Test("The sound of an alert is that of the notification")
    func soundOfTheAlert() throws {
        var aps = APS(alert: .init(title: "Mail", body: "From Ann", sound: .default))
        #expect(aps.sound == .default && aps.alert?.sound == nil)
        aps.alert?.sound = "ding.aiff"
        try self.expect(
            Payload(aps),
            #"{"aps":{"alert":{"title":"Mail","body":"From Ann"},"sound":"ding.aiff"}}"#
        )
        aps.alert = "Plain"
        #expect(aps.sound == "ding.aiff")
        #expect(APS(alert: .init(body: "a", sound: "b"), sound: "c").sound == "c")
    }

    @Test("Texts of an alert can be literals, variables and optional variables")
    func alertsOfVariables() throws {
        let (text, title): (String, String) = ("Hi \"Ann\"", "Mail")
        let none: String? = nil
        let escaped = #""Hi \"Ann\"""#
        for aps in [
            APS(alert: text), APS(alert: Optional(text)), APS(alert: APS.Alert(text)), APS(alert: .init(text)),
            APS(alert: .init(body: text)), APS(alert: .init(body: .plain(text))), APS(alert: "Hi \"\("Ann")\""),
            .init(alert: text),
        ] {
            try self.expect(Payload(aps), #"{"aps":{"alert":\#(escaped)}}"#)
        }
        for aps in [APS(alert: nil, badge: 1), APS(alert: none, badge: 1), APS(badge: 1), .init(alert: nil, badge: 1)] {
            try self.expect(Payload(aps), #"{"aps":{"badge":1}}"#)
        }
        let shown = #"{"aps":{"alert":{"title":"Mail","body":"Hi"},"badge":1,"sound":"default"}}"#
        for alert in [
            APS.Alert(title: title, body: "Hi"), .init(title: "Mail", body: "Hi"), .init(title: title, body: "H\("i")"),
            .init(title: .plain(title), body: "Hi"), .init(title: Optional(title), subtitle: none, body: "Hi"),
        ] {
            try self.expect(Payload(APS(alert: alert, badge: 1, sound: .default)), shown)
        }
        try self.expect(Payload(APS(alert: text, sound: "x")), #"{"aps":{"alert":\#(escaped),"sound":"x"}}"#)
        #expect(APS.Alert() == APS.Alert(title: nil, body: nil) && APS(alert: nil) == APS())
    }

    @Test("Variables become JSON values")
    func valuesOfVariables() throws {
        let (order, large, name, price, isPaid) = (1234, UInt64.max, "Ann \"A.\"", 1.5, true)
        let custom: [String: JSONValue] = [
            "a": JSONValue(order), "b": JSONValue(large), "c": JSONValue(name), "d": JSONValue(name.prefix(3)),
            "e": JSONValue(price) ?? nil, "f": JSONValue(isPaid), "g": .init(Int8(-1)), "h": JSONValue(7),
            "i": JSONValue("x"), "j": JSONValue(1.25), "k": JSONValue(false), "l": [.init(order), JSONValue(name)],
        ]
        try self.expect(
            Payload(APS(), custom),
            #"{"aps":{},"a":1234,"b":18446744073709551615,"c":"Ann \"A.\"","d":"Ann","e":1.5,"f":true,"g":-1,"h":7,"#
                + #""i":"x","j":1.25,"k":false,"l":[1234,"Ann \"A.\""]}"#
        )
        #expect(JSONValue(Double.nan) == nil && JSONValue(-Float.infinity) == nil)
    }

    @Test("Other keys are encoded, and take precedence over properties")
    func otherKeys() throws {
        var aps = APS(alert: "Hi", badge: 1)
        aps.otherKeys = ["future": [1], "badge": 2]
        try self.expect(Payload(aps), #"{"aps":{"alert":"Hi","badge":2,"future":[1]}}"#)
    }

    @Test("A number that JSON cannot represent does not pass")
    func notFinite() throws {
        var aps = APS(alert: "x")
        aps.relevanceScore = .nan
        #expect(throws: PayloadProblem.self) { try Payload(aps).check() }
        #expect(throws: PayloadProblem.self) { try Payload(APS(sound: .critical(volume: .infinity))).check() }
        struct Score: Encodable { var value = Double.infinity }
        #expect(throws: EncodingError.self) { try Payload(encoding: Score()) }
        #expect(JSONNumber(Double.nan) == nil)
    }

    @Test("A second aps does not pass")
    func secondAPS() {
        #expect(throws: PayloadProblem.self) { try Payload(APS(), ["aps": [:]]).check() }
    }

    @Test("A type of the app is encoded")
    func ownType() throws {
        class Base: Encodable {
            var id = 7
        }
        struct Order: Encodable {
            enum State: String, Encodable { case paid }
            var aps = APS(alert: "Hi")
            var number: UInt64 = .max
            var price = 1.5
            var float: Float = 0.1
            var state = State.paid
            var note: String?
            var items: [[Int?]] = [[1, nil], []]
            var flags = ["b": true]
            var base = Base()
            var custom: JSONValue = ["x": nil, "y": -3]
            var empty = Nothing()
            struct Nothing: Encodable {}
        }
        try self.expect(
            Payload(encoding: Order()),
            #"{"aps":{"alert":"Hi"},"number":18446744073709551615,"price":1.5,"float":0.1,"state":"paid","#
                + #""items":[[1,null],[]],"flags":{"b":true},"base":{"id":7},"custom":{"x":null,"y":-3},"empty":{}}"#
        )
    }

    @Test("Only quotes, backslashes and control characters are escaped")
    func escapes() throws {
        try self.expect(
            Payload(APS(alert: "\"\\\n\u{7}é😀"), ["k\"": "v"]),
            #"{"aps":{"alert":"\"\\\u000a\u0007é😀"},"k\"":"v"}"#
        )
    }

    @Test(
        "An encoded value is decoded as the same value",
        arguments: [
            ["a": [1, -2.5, true, false, nil, "x\"\\\u{1}", ["b": [:]]], "": []] as JSONValue,
            "text", nil, 12, [[[[]]]],
        ]
    )
    func roundTrip(value: JSONValue) throws {
        let read = try JSONValue(parsing: value.bytes)
        #expect(read == value)
        #expect(try JSONValue(encoding: value) == value)
        #expect(read.bytes == value.bytes)
    }

    @Test("Numbers keep their digits")
    func digits() throws {
        let text = #"{"a":123456789012345678901234567890,"b":1.10,"c":1E+2}"#
        #expect(try String(decoding: JSONValue(parsing: Array(text.utf8)).bytes, as: UTF8.self) == text)
    }

    @Test("Invalid JSON, or too deep nesting, is refused with its position")
    func refused() {
        #expect(throws: PayloadProblem.self) { try JSONValue(parsing: Array("[1,]".utf8)) }
        let deep = [UInt8](repeating: UInt8(ascii: "["), count: PayloadRules.depthMax + 1)
        #expect { try JSONValue(parsing: deep) } throws: { ($0 as? PayloadProblem)?.kind == .syntax(.tooDeep) }
        let closed = [UInt8](repeating: UInt8(ascii: "]"), count: PayloadRules.depthMax)
        #expect(throws: Never.self) { try JSONValue(parsing: Array(deep.dropLast()) + closed) }
    }

    @Test("No description shows the content of a payload")
    func isPrivate() {
        let payload = Payload(APS(alert: "secret"))
        #expect("\(payload)" == "payload of 26 bytes")
        #expect(!String(reflecting: payload).contains("secret"))
        var dumped = ""
        dump(payload, to: &dumped)
        #expect(!dumped.contains("secret"))
        #expect(!dumped.contains("115"))
    }
}
