// SPDX-License-Identifier: Apache-2.0

import APNSPayload
import Testing

/// The problem that a check finds, `nil` for a valid payload.
func payloadProblem(_ bytes: [UInt8], rules: PayloadRules = .binary) -> PayloadProblem? {
    do throws(PayloadProblem) {
        try Payload.check(bytes, rules: rules)
        return nil
    } catch {
        return error
    }
}

func payloadProblem(_ text: String, rules: PayloadRules = .binary) -> PayloadProblem? {
    payloadProblem(Array(text.utf8), rules: rules)
}

@Suite struct PayloadTests {
    @Test(arguments: [
        "{}", " {} ", "\t\r\n{\n}\n", #"{"aps":{}}"#, #"{"mdm":"96B6D1B2-3F57-4E42-9F5B-A2C1F5F4D5B5"}"#,
        #"{"aps":{"alert":"Hello","badge":0,"sound":"default"}}"#,
        #"{"aps":{"content-available":1},"acme":[1,-1,0,-0,1.5,1e9,1E+9,1e-9,0.25,-0.0]}"#,
        #"{"acme":[true,false,null,"",{},[],[[]]]}"#,
        #"{"aps":{"alert":{"loc-key":"K","loc-args":[],"action-loc-key":null},"url-args":["a","b"]}}"#,
        #"{"a":"\"\\\/\b\f\n\r\t\u0000\u00e9\uD83D\ude00"}"#, #"{"a":"\#u{7F}äß€日本語😀\#u{10FFFF}\#u{FEFF}"}"#,
        #"{"a":1,"a":2}"#, #"{"aps":{"new-key":{"aps":1,"badge":"x"},"new-key":2}}"#, #"{"":""}"#,
        "{\"n\":" + String(repeating: "1234567890", count: 150) + "}",
        #"{"badge":"x","alert":1,"sound":{"volume":"1"}}"#,
    ])
    func `a valid payload passes`(_ text: String) {
        #expect(payloadProblem(text) == nil)
    }

    @Test(arguments: [
        ("", "line 1, column 1: no JSON value found"),
        (" \n ", "line 2, column 2: no JSON value found"),
        ("{", "line 1, column 2: unexpected end of the JSON"),
        ("{\"a\":1,\n", "line 2, column 1: unexpected end of the JSON"),
        (#"{"a":"#, "line 1, column 6: unexpected end of the JSON"),
        ("\u{FEFF}{}", "line 1, column 1: unexpected byte order mark"),
        ("\0{}", "line 1, column 1: NUL byte outside a string"),
        ("{}\0", "line 1, column 3: NUL byte outside a string"),
        ("{}{}", "line 1, column 3: unexpected content after the end of the JSON"),
        ("{} x", "line 1, column 4: unexpected content after the end of the JSON"),
        ("[]", "line 1, column 1: the payload is an array, expected an object"),
        ("\"x\"", "line 1, column 1: the payload is a string, expected an object"),
        (" 12", "line 1, column 2: the payload is a number, expected an object"),
        ("null", "line 1, column 1: the payload is null, expected an object"),
        ("true", "line 1, column 1: the payload is a boolean, expected an object"),
        ("aps", "line 1, column 1: expected an object"), ("not json", "line 1, column 1: expected an object"),
        ("  token", "line 1, column 3: expected an object"),
        ("{a:1}", "line 1, column 2: expected a key in double quotes"),
        ("{'a':1}", "line 1, column 2: expected a key in double quotes"),
        ("{,}", "line 1, column 2: expected a key in double quotes"),
        ("{1:1}", "line 1, column 2: expected a key in double quotes"),
        (#"{"a" 1}"#, "line 1, column 6: expected a colon after the key"),
        (#"{"a","b"}"#, "line 1, column 5: expected a colon after the key"),
        (#"{"a":1 "b":2}"#, "line 1, column 8: expected a comma or a closing brace"),
        (#"{"a":1]"#, "line 1, column 7: expected a comma or a closing brace"),
        (#"{"a":[1}"#, "line 1, column 8: expected a comma or a closing bracket"),
        (#"{"a":[1 2]}"#, "line 1, column 9: expected a comma or a closing bracket"),
        (#"{"a":1,}"#, "line 1, column 8: trailing comma"),
        (#"{"a":[1,]}"#, "line 1, column 9: trailing comma"),
        (#"{"a":[,1]}"#, "line 1, column 7: expected a value"),
        (#"{"a":}"#, "line 1, column 6: expected a value"),
        (#"{"a":NaN}"#, "line 1, column 6: expected a value"),
        (#"{"a":+1}"#, "line 1, column 6: expected a value"),
        (#"{"a":.5}"#, "line 1, column 6: expected a value"),
        (#"{"a":// x"# + "\n1}", "line 1, column 6: expected a value"),
        (#"{"a":01}"#, "line 1, column 7: leading zero in a number"),
        (#"{"a":-00}"#, "line 1, column 8: leading zero in a number"),
        (#"{"a":1.}"#, "line 1, column 8: expected a digit in a number"),
        (#"{"a":1e}"#, "line 1, column 8: expected a digit in a number"),
        (#"{"a":1e+}"#, "line 1, column 9: expected a digit in a number"),
        (#"{"a":-}"#, "line 1, column 7: expected a digit in a number"),
        (#"{"a":-x}"#, "line 1, column 7: expected a digit in a number"),
        (#"{"a":0x10}"#, "line 1, column 7: expected a comma or a closing brace"),
        (#"{"a":tru}"#, "line 1, column 6: expected true, false or null"),
        (#"{"a":True}"#, "line 1, column 6: expected a value"),
        (#"{"a":fals0}"#, "line 1, column 6: expected true, false or null"),
        (#"{"a":nul"#, "line 1, column 6: expected true, false or null"),
        (#"{"a":nullnull}"#, "line 1, column 10: expected a comma or a closing brace"),
        (#"{"a":"x}"#, "line 1, column 6: unterminated string"),
        (#"{"a":"\"#, "line 1, column 8: unexpected end of the JSON"),
        (#"{"a":"\u12"#, "line 1, column 11: unexpected end of the JSON"),
        (#"{"a":"\x41"}"#, "line 1, column 7: invalid escape in a string"),
        (#"{"a":"\U0001F600"}"#, "line 1, column 7: invalid escape in a string"),
        (#"{"a":"\u12g4"}"#, "line 1, column 7: invalid escape in a string"),
        (#"{"a":"\ud83d"}"#, "line 1, column 7: unpaired surrogate in a string"),
        (#"{"a":"\ud83d\n..........."}"#, "line 1, column 7: unpaired surrogate in a string"),
        (#"{"a":"\ud83d\ud83d"}"#, "line 1, column 7: unpaired surrogate in a string"),
        (#"{"a":"\ude00\ud83d"}"#, "line 1, column 7: unpaired surrogate in a string"),
        (#"{"a":"äö\ude00"}"#, "line 1, column 9: unpaired surrogate in a string"),
        ("{\"a\":\"x\ny\"}", "line 1, column 8: unescaped control character in a string"),
        ("{\"a\":\"x\u{0}y\"}", "line 1, column 8: unescaped control character in a string"),
        ("{\"a\":\"0123456789\u{1F}\"}", "line 1, column 17: unescaped control character in a string"),
        (#"{"aps":{},"aps":{}}"#, "line 1, column 11: duplicate key aps"),
        (#"{"aps":{},"\u0061p\u0073":{}}"#, "line 1, column 11: duplicate key aps"),
        (#"{"aps":{"badge":1,"sound":"x","badge":1}}"#, "line 1, column 31: duplicate key aps.badge"),
        (#"{"aps":{"alert":{"body":"a","body":"b"}}}"#, "line 1, column 29: duplicate key aps.alert.body"),
        ("{\n \"aps\": {\n  \"badge\": \"3\"}}", "line 3, column 12: aps.badge is a string, expected a number"),
        (#"{"aps":{"b\u0061dge":"3"}}"#, "line 1, column 22: aps.badge is a string, expected a number"),
        (#"{"aps":[]}"#, "line 1, column 8: aps is an array, expected an object"),
        (#"{"aps":{"alert":null}}"#, "line 1, column 17: aps.alert is null, expected an object or a string"),
        (
            #"{"aps":{"alert":{"loc-args":["a",1]}}}"#,
            "line 1, column 34: aps.alert.loc-args contains a number, expected only strings"
        ),
        ("{\r\n\"aps\":\r{\"badge\":true}}", "line 3, column 10: aps.badge is a boolean, expected a number"),
        ("{\"é😀\":1,\"aps\":1}", "line 1, column 15: aps is a number, expected an object"),
    ])
    func `an invalid payload is refused with position and reason`(_ text: String, _ description: String) {
        #expect(payloadProblem(text)?.description == description)
    }

    @Test func `UTF-16 is detected by its byte order mark`() {
        #expect(payloadProblem([0xFE, 0xFF, 0, 0x7B])?.kind == .syntax(.byteOrderMark))
        #expect(payloadProblem([0xFF, 0xFE, 0x7B, 0])?.kind == .syntax(.byteOrderMark))
    }

    @Test func `the column counts code points and the offset counts bytes`() throws {
        let problem = try #require(payloadProblem("{\"é😀\":1,\"aps\":1}"))
        #expect(problem.byteOffset == 18)
        #expect(problem.column == 15)
    }

    @Test(arguments: [
        (PayloadRules.original, 256), (.binary, 2048), (.http2, 4096), (.voip, 5120), (.init(byteCountMax: 2), 2),
    ])
    func `a payload at the limit passes, and one byte more is refused`(_ rules: PayloadRules, _ limit: Int) throws {
        let fits = limit == 2 ? "{}" : "{\"a\":\"" + String(repeating: "x", count: limit - 8) + "\"}"
        #expect(fits.utf8.count == limit)
        #expect(try Payload.check(Array(fits.utf8), rules: rules).byteCount == limit)
        let problem = try #require(payloadProblem(fits + " ", rules: rules))
        #expect(problem.kind == .tooLong(byteCount: limit + 1, byteCountMax: limit))
        #expect(problem.byteOffset == limit)
        #expect(problem.description.hasSuffix("the payload has \(limit + 1) bytes, the limit is \(limit)"))
    }

    @Test func `white space can be excluded from the length`() throws {
        var rules = PayloadRules(byteCountMax: 9, measuresMinified: true)
        let text = Array(" { \"a\" : [ 1 ] }\n".utf8)
        let measure = try Payload.check(text, rules: rules)
        #expect(measure == .init(byteCount: text.count, minifiedByteCount: 9))
        rules.byteCountMax = 8
        #expect(payloadProblem(text, rules: rules)?.kind == .tooLong(byteCount: 9, byteCountMax: 8))
        rules = PayloadRules(byteCountMax: 9)
        #expect(payloadProblem(text, rules: rules)?.kind == .tooLong(byteCount: text.count, byteCountMax: 9))
    }

    @Test func `without the check of known keys only a second aps is refused`() {
        let rules = PayloadRules(byteCountMax: 2048, checksKnownKeys: false)
        #expect(payloadProblem(#"{"aps":{"badge":"x","badge":1,"alert":{"loc-args":[1]}}}"#, rules: rules) == nil)
        #expect(payloadProblem(#"{"aps":1,"aps":2}"#, rules: rules)?.kind == .duplicateKey(.aps))
        #expect(payloadProblem(#"{"aps":{"a":01}}"#, rules: rules)?.kind == .syntax(.leadingZero))
    }

    @Test(arguments: ["[", "{\"a\":"])
    func `nesting up to the limit passes, and deeper nesting is refused`(_ open: String) {
        func nested(_ count: Int) -> String {
            let close = open == "[" ? "]" : "}"
            let inner = String(repeating: open, count: count) + "1" + String(repeating: close, count: count)
            return "{\"x\":\(inner)}"
        }
        #expect(payloadProblem(nested(PayloadRules.depthMax - 1)) == nil)
        #expect(payloadProblem(nested(PayloadRules.depthMax))?.kind == .syntax(.tooDeep))
        let million = PayloadRules(byteCountMax: .max)
        #expect(
            payloadProblem("{\"x\":" + String(repeating: open, count: 1_000_000), rules: million)?.kind
                == .syntax(.tooDeep)
        )
    }

    @Test func `a span and a raw buffer are checked like an array`() throws {
        let bytes = Array("{\"aps\":{\"badge\":1}} ".utf8)
        let measure = try Payload.check(bytes)
        #expect(try Payload.check(bytes.span) == measure)
        #expect(try bytes.withUnsafeBytes { try Payload.check($0) } == measure)
        #expect(throws: PayloadProblem.self) { try Payload.check(UnsafeRawBufferPointer(start: nil, count: 0)) }
    }

    @Test func `every prefix of a payload is refused`() {
        let text =
            #" {"aps":{"alert":{"body":"é😀\u00e9\ud83d\ude00","loc-args":["x"]},"badge":-1.5e+3},"#
            + #""a":[true,false,null]}"#
        let bytes = Array(text.utf8)
        #expect(payloadProblem(bytes) == nil)
        for count in bytes.indices {
            #expect(payloadProblem(Array(bytes.prefix(count))) != nil, "\(count) bytes")
        }
    }

    @Test func `no description shows the content of a payload`() {
        let secret = "SECRET"
        let bad = [
            "{\"\(secret)\":\"\(secret)", "{\"\(secret)\":\(secret)}", "{\"\(secret)\" \"\(secret)\"}", "\(secret)",
            "{\"aps\":{\"badge\":\"\(secret)\"}}", "{\"aps\":{\"\(secret)\":01}}", "{\"a\":\"\(secret)\\x\"}",
            "{}\(secret)", "{\"aps\":{\"alert\":{\"loc-args\":[\"\(secret)\",1]}}}", "{\"a\":\"\(secret)\u{1}\"}",
        ]
        for text in bad {
            let description = payloadProblem(text).map { "\($0) \($0.kind)" }
            #expect(description?.contains(secret) == false)
        }
    }

    @Test func `all problems are found at their positions, as far as the text is JSON`() {
        let payload: Payload = """
            {"aps": {"badge": "1", "alert": {"body": [1, {"a": 2}], "loc-args": ["x", 2, null], "body": "again"},
            "sound": {"volume": {}, "name": 5}, "badge": 2}, "aps": [], "own": ["oops"
            """
        let found = payload.problems(rules: .binary, countMax: 20)
        #expect(
            found.map(\.kind) == [
                .wrongKind(.badge, found: .string, allowed: .number),
                .wrongKind(.alertBody, found: .array, allowed: .string),
                .wrongElementKind(.alertLocArguments, found: .number),
                .wrongElementKind(.alertLocArguments, found: .null), .duplicateKey(.alertBody),
                .wrongKind(.soundVolume, found: .object, allowed: .number),
                .wrongKind(.soundName, found: .number, allowed: .string), .duplicateKey(.badge), .duplicateKey(.aps),
                .wrongKind(.aps, found: .array, allowed: .object), .syntax(.unexpectedEnd),
            ]
        )
        #expect(found.map(\.line) == [1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2])
        #expect(found.map(\.byteOffset) == found.map(\.byteOffset).sorted())
        #expect(found.map(\.kind.key?.description).suffix(2) == ["aps", nil])
        // The first is the one that a check throws.
        #expect(throws: found[0]) { try payload.check() }
        #expect(payload.problems(rules: .binary, countMax: 3) == Array(found.prefix(3)))
        #expect(Payload("{}").problems(rules: .binary, countMax: 3) == [])
        let tooLong = Payload(#"{"aps":{"badge":""}}"#).problems(rules: PayloadRules(byteCountMax: 5), countMax: 9)
        #expect(tooLong.map(\.kind.key) == [.badge, nil])
    }
}
