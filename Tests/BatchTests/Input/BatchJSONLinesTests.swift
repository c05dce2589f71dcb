// SPDX-License-Identifier: Apache-2.0

import APNSPayload
import Batch
import Testing

@Suite struct BatchJSONLinesTests {
    static let token = String.token(0xA1)

    @Test func `a payload is checked in the same way whatever the payload of the line before`() throws {
        let payloads = [
            "{}", "{ }", "{}x", "{}}", "{},", "{},\"id\":1", "{},\"payload\":{}", "{\"aps\":{}}", "{\"aps\":{} }",
            "{\"aps\":{}}x", "{\"aps\":{},\"a\":1}", "{\"aps\":{},\"a\":12}", "{\"aps\":{}", "{\"aps\":[]}", "[]",
            "\"{}\"", "",
            "{\"aps\":{\"alert\":\"\(String(repeating: "x", count: 40))\"}}",
        ]
        func line(_ payload: String) -> String { "{\"token\":\"\(BatchReaderTests.one)\",\"payload\":\(payload)}\n" }
        for minifies in [false, true] {
            var options = smallOptions()
            options.minifiesPayload = minifies
            for payload in payloads {
                let alone = try read("\n" + line(payload), format: .jsonLines, options: options)
                for before in payloads {
                    let both = try read(line(before) + line(payload), format: .jsonLines, options: options)
                    #expect(both.last?.description == alone.last?.description, "\(payload) after \(before)")
                }
            }
        }
    }

    @Test func `a line with all keys becomes a record`() throws {
        let line = """
            {"token":"\(Self.token)","payload":{"aps":{"alert":"é"}},"expiry":1735689600,"priority":5,"id":{"a":[1, 2]}}
            """
        #expect(
            try read(line) == [
                .record(
                    line: 1,
                    token: Self.token,
                    payload: #"{"aps":{"alert":"é"}}"#,
                    expiry: 1_735_689_600,
                    priority: 5,
                    id: #"{"a":[1, 2]}"#
                )
            ]
        )
    }

    @Test func `the keys may be in any order, with white space and escapes`() throws {
        let line = """
             { "priority" : 10 , "\\u0069d" : "x" , "payload" : { "a" : "b c" } , "expiry" : null , \
            "token" : "\(Self.token)" }\t
            """
        #expect(try read(line).map(\.description) == ["1 \(Self.token) {\"a\":\"b c\"} - 10 \"x\""])
    }

    @Test func `optional keys that are absent are nil, even after a record that has them`() throws {
        let full = "{\"token\":\"\(Self.token)\",\"payload\":{\"a\":1},\"expiry\":0,\"priority\":10,\"id\":1}\n"
        let bare = "{\"token\":\"\(Self.token)\",\"payload\":{}}\n"
        let null = "{\"token\":\"\(Self.token)\",\"payload\":{},\"expiry\":null,\"priority\":null,\"id\":null}\n"
        #expect(
            try read(full + bare + null).map(\.description) == [
                "1 \(Self.token) {\"a\":1} 0 10 1", "2 \(Self.token) {} - - ", "3 \(Self.token) {} - - null",
            ]
        )
    }

    @Test func `white space in a payload is kept if requested, and then counts`() throws {
        var options = smallOptions()
        options.minifiesPayload = false
        options.rules = PayloadRules(byteCountMax: 9)
        let line = "{\"token\":\"\(Self.token)\",\"payload\":{ \"a\": 1}}"
        #expect(try read(line, options: options).map(\.description) == ["1 \(Self.token) { \"a\": 1} - - "])
        options.rules.byteCountMax = 8
        #expect(
            try read(line, options: options).map(\.description) == [
                "bad: line 1, column 95: the payload has 9 bytes, the limit is 8"
            ]
        )
        options.minifiesPayload = true
        #expect(try read(line, options: options).map(\.description) == ["1 \(Self.token) {\"a\":1} - - "])
    }

    @Test func `a line without a payload gets the common payload`() throws {
        let options = smallOptions(common: "{ \"aps\": {} }")
        let lines = "{\"token\":\"\(Self.token)\"}\n{\"token\":\"\(Self.token)\",\"payload\":{}}\n"
        #expect(
            try read(lines, options: options).map(\.description) == [
                "1 \(Self.token) {\"aps\":{}} - - ", "2 \(Self.token) {} - - ",
            ]
        )
        #expect(
            try read(lines).map(\.description).first
                == "bad: line 1: missing payload; to share one, add --payload or --alert"
        )
    }

    @Test func `with an invalid common payload, no reader is created`() {
        let options = smallOptions(common: "{\"aps\":1}")
        #expect(throws: PayloadProblem.self) { _ = try read("", options: options) }
    }

    @Test(arguments: [
        ("[1]", "line 1, column 1: expected a JSON object, found an array"),
        ("{", "line 1, column 2: unexpected end of the JSON"),
        (
            "{} {}",
            "line 1, column 4: unexpected content after the end of the JSON; expected one object per line"
        ),
        ("// SECRET", "line 1, column 1: comments are not JSON; remove the comment"),
        ("  # SECRET", "line 1, column 3: comments are not JSON; remove the comment"),
        ("{/* SECRET */}", "line 1, column 2: comments are not JSON; remove the comment"),
        ("{“token”:1}", "line 1, column 2: typographic quotes; JSON needs straight ones (\")"),
        ("{\"token\":‘SECRET’}", "line 1, column 10: typographic quotes; JSON needs straight ones (\")"),
        ("{'token':1}", "line 1, column 2: expected a key in double quotes"),
        (
            #"{"token":"00","aps":{}}"#,
            "line 1, column 15: unknown key \"aps\"; write it in the payload: \"payload\": {\"aps\": ...}"
        ),
        (#"{"token":"12345"}"#, "line 1, column 10: \(Self.odd(5))"),
        ("{}", "line 1: missing token"),
        (#"{"payload":{}}"#, "line 1: missing token"),
        (#"{"token":1}"#, "line 1, column 10: token is a number, expected a string"),
        (#"{"token":"SECRET"}"#, notAToken), (#"{"token":""}"#, notAToken),
        (#"{"token":"zz"}"#, notAToken), ("{\"token\":\"" + String(repeating: "0", count: 202) + "\"}", notAToken),
        (#"{"token":"00"}"#, "line 1: missing payload; to share one, add --payload or --alert"),
        (#"{"token":"00","payload":"{}"}"#, "line 1, column 25: the payload is a string, expected an object"),
        (#"{"token":"00","payload":null}"#, "line 1, column 25: the payload is null, expected an object"),
        (#"{"é":1}"#, "line 1, column 2: unknown key \"é\"; \(Self.valid)"),
        (#"{"ttl":1}"#, "line 1, column 2: unknown key \"ttl\"; \(Self.valid)"),
        (#"{"tokn":1}"#, "line 1, column 2: unknown key \"tokn\"; did you mean \"token\"?"),
        ("{\"\(String.token(7))\":1}", "line 1, column 2: unknown key; \(Self.valid)"),
        (#"{"id":"é","id":1}"#, "line 1, column 11: duplicate key \"id\""),
        (#"{"id":1,"\u0069\u0064":1}"#, "line 1, column 9: duplicate key \"id\""),
        (#"{"payload":{"aps":{"badge":"SECRET"}}}"#, "line 1, column 28: aps.badge is a string, expected a number"),
        (#"{"payload":{"SECRET":01}}"#, "line 1, column 23: leading zero in a number"),
        (#"{"priority":7}"#, "line 1, column 13: invalid priority: expected 10 or 5"),
        (#"{"priority":10.0}"#, "line 1, column 13: invalid priority: expected 10 or 5"),
        (#"{"priority":"10"}"#, "line 1, column 13: priority is a string, expected a number"),
        (#"{"expiry":true}"#, "line 1, column 11: expiry is a boolean, expected a string or a number"),
        (#"{"expiry":86400}"#, tooEarly("86400")), (#"{"expiry":999999999}"#, tooEarly("999999999")),
        (#"{"expiry":1735689600000}"#, tooLate), (#"{"expiry":4294967296}"#, tooLate),
        (#"{"expiry":99999999999999999999999}"#, tooLate), (#"{"expiry":"+5000w"}"#, tooLate),
        (#"{"expiry":-1}"#, noExpiry), (#"{"expiry":1.5}"#, noExpiry), (#"{"expiry":1e9}"#, noExpiry),
        (#"{"expiry":""}"#, noExpiry), (#"{"expiry":"+"}"#, noExpiry), (#"{"expiry":"+1y"}"#, noExpiry),
        (#"{"expiry":"+1hh"}"#, noExpiry), (#"{"expiry":"1h"}"#, noExpiry), (#"{"expiry":"tomorrow"}"#, noExpiry),
    ])
    func `an invalid line is reported`(_ line: String, _ problem: String) throws {
        #expect(try read(line, format: .jsonLines, options: smallOptions(line: 512)) == [.bad(problem)])
        #expect(!problem.contains("SECRET"))
    }

    static let valid = "valid keys: token, payload, expiry, priority, id, topic, pushType, collapseId, apnsId"
    static func odd(_ count: Int) -> String {
        "invalid device token: \(count) hexadecimal digits, expected an even number"
    }
    static let notAToken =
        "line 1, column 10: invalid device token: expected hexadecimal or base64"
    static let tooLate = "line 1, column 11: expiry is after the year 2106; expected seconds, not milliseconds"
    static func tooEarly(_ seconds: String) -> String {
        "line 1, column 11: expiry \(seconds) is a time before 2001; to expire in \(seconds) seconds, "
            + "write \"+\(seconds)s\""
    }
    static let noExpiry =
        "line 1, column 11: invalid expiry: expected seconds since 1970, or a duration such as "
        + #""+90s", "+30m", "+1h" or "+2d""#

    @Test(
        arguments: [
            ("0", 0), ("1000000000", 1_000_000_000), ("4294967295", .max), (#""1735689600""#, 1_735_689_600),
            (#""+0""#, 1_700_000_000), (#""+90""#, 1_700_000_090), (#""+90s""#, 1_700_000_090),
            (#""+30m""#, 1_700_001_800), (#""+1h""#, 1_700_003_600), (#""+2d""#, 1_700_172_800),
            (#""+1w""#, 1_700_604_800), ("\"+2594967295s\"", .max),
        ] as [(String, UInt32)]
    )
    func `an expiry is a time or a duration`(_ text: String, _ expiry: UInt32) throws {
        let events = try read("{\"token\":\"00\",\"payload\":{},\"expiry\":\(text)}")
        #expect(events == [.record(line: 1, token: "00", payload: "{}", expiry: expiry, priority: nil, id: "")])
    }

    @Test(arguments: [
        token.uppercased(), "<" + token + ">",
        "<a1000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000>",
        " " + token + " ", "oQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
    ])
    func `a token is read in any notation`(_ spelling: String) throws {
        let events = try read("{\"token\":\"\(spelling)\",\"payload\":{}}")
        #expect(events.map(\.description) == ["1 \(Self.token) {} - - "])
    }

    @Test func `base64 is read with escaped slashes, and in the URL-safe alphabet`() throws {
        let hexadecimal = String(repeating: "ff", count: 31) + "fb"
        let base64 = String(repeating: "/", count: 41) + "/s="
        #expect(base64.count == 44)
        for spelling in [base64, base64.replacing("/", with: "\\/"), base64.replacing("/", with: "_")] {
            let events = try read("{\"token\":\"\(spelling)\",\"payload\":{}}")
            #expect(events.map(\.description) == ["1 \(hexadecimal) {} - - "])
        }
        let sloppy = base64.dropLast(2) + "t="
        #expect(try read("{\"token\":\"\(sloppy)\",\"payload\":{}}") == [.bad(Self.notAToken)])
    }

    @Test func `an invalid digit anywhere in a token is detected`() throws {
        let digits = Array((Self.token).utf8)
        for index in digits.indices {
            for wrong in Array("g/:@G`~".utf8) + [0x00, 0xB0, 0xE1] {
                var token = digits
                token[index] = wrong
                let line = Array("{\"token\":\"".utf8) + token + Array("\",\"payload\":{}}".utf8)
                let events = try read(line)
                #expect(events.count == 1)
                guard case .bad? = events.first else {
                    Issue.record("\(wrong) at \(index) passed")
                    continue
                }
            }
        }
    }

    @Test func `every digit is read at every position`() throws {
        for digit in "0123456789abcdefABCDEF" {
            for index in 0..<64 {
                var token = Array(repeating: Character("1"), count: 64)
                token[index] = digit
                let events = try read("{\"token\":\"\(String(token))\",\"payload\":{}}")
                #expect(events.map(\.description) == ["1 \(String(token).lowercased()) {} - - "])
            }
        }
    }
}
