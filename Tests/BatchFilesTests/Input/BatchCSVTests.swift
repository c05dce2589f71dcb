// SPDX-License-Identifier: Apache-2.0

import BatchFiles
import Testing

@Suite struct BatchCSVTests {
    static let token = String.token(0xC5)

    @Test func `the columns come in any order`() throws {
        let input = [
            "priority,id,payload,token,expiry",
            #"5,a,"{""aps"":{""alert"":""x, \""y\""""}}",\#(Self.token),+1h"#,
            #",,"{ ""a"": 1 }","<\#(Self.token)>","#,
            "10,,{},\(Self.token),0",
        ].joined(separator: "\n")
        #expect(
            try read(input).map(\.description) == [
                "2 \(Self.token) {\"aps\":{\"alert\":\"x, \\\"y\\\"\"}} 1700003600 5 \"a\"",
                "3 \(Self.token) {\"a\":1} - - ",
                "4 \(Self.token) {} 0 10 ",
            ]
        )
    }

    @Test func `a row may take several lines, and the next row has its own number`() throws {
        let input = "token,payload\n\(Self.token),\"{\n\"\"a\"\":\n1}\"\n\(Self.token),{}\n"
        #expect(try read(input).map(\.description) == ["2 \(Self.token) {\"a\":1} - - ", "5 \(Self.token) {} - - "])
    }

    @Test func `an empty payload takes the one that all share`() throws {
        let input = "token,payload\n\(Self.token),\n"
        #expect(
            try read(input, options: smallOptions(common: "{\"c\":1}")).map(\.description) == [
                "2 \(Self.token) {\"c\":1} - - "
            ]
        )
        #expect(try read(input).map(\.description) == ["bad: line 2: it has no payload"])
    }

    @Test(arguments: [
        ("token,payload,SECRET", "line 1: column 3 of the header is none of token, payload, expiry, priority and id"),
        ("token,payload,token", "line 1: the header has token twice"),
        ("payload,id", "line 1: the header has no column token"),
        ("token,id", "line 1: the header has no column payload"),
        ("\ntoken\"x,id", "line 2: a double quote stands where none may, or lacks its partner"),
        ("\(token),{}", "line 1: column 1 of the header is none of token, payload, expiry, priority and id"),
    ])
    func `a header at fault refuses all`(_ header: String, _ problem: String) throws {
        #expect(try read(header + "\n\(Self.token),{}\n", format: .csv) == [.refused(problem)])
    }

    @Test(arguments: [
        ("{},,,", "line 2: it has no token"),
        (
            "{},SECRET,,",
            "line 2: its token is neither hexadecimal digits of 1 to 100 bytes nor the base64 of 32 bytes"
        ),
        ("{},00,,,", "line 2: it has 5 fields, and the header has 4"),
        ("{},00", "line 2: it has 2 fields, and the header has 4"),
        (
            "{},00,86400,",
            "line 2: expiry 86400 is a moment in 1970 to 2001; write \"+86400s\" for that many seconds from now"
        ),
        ("{},00,,7", "line 2: priority is neither 10 nor 5"),
        ("{}\",00,,", "line 2: a double quote stands where none may, or lacks its partner"),
        ("\"{}\" ,00,,", "line 2: a double quote stands where none may, or lacks its partner"),
        ("\"{},00,,", "line 2: a double quote stands where none may, or lacks its partner"),
        (
            "\"{\"\"aps\"\":{\"\"badge\"\":\"\"SECRET\"\"}}\",00,,",
            "line 2: in its payload, line 1, column 17: aps.badge is a string, expected a number"
        ),
    ])
    func `a faulty row is reported, and the next one is read`(_ row: String, _ problem: String) throws {
        let input = "payload,token,expiry,priority\n\(row)\n{},\(Self.token),,\n\"{}\",\(Self.token),,\n"
        for chunk in [1, 10, .max] {
            #expect(
                try read(input, chunk: chunk).map(\.description) == [
                    "bad: \(problem)", "3 \(Self.token) {} - - ", "4 \(Self.token) {} - - ",
                ]
            )
        }
    }

    @Test func `an id that is not UTF-8 is reported`() throws {
        let input = Array("token,payload,id\n00,{},".utf8) + [0xC3, 0x28, 0x0A]
        #expect(try read(input).map(\.description) == ["bad: line 2: id is not valid UTF-8"])
    }

    @Test func `an id becomes a JSON string whatever it holds`() throws {
        let input = "token,payload,id\n00,{},\"\\\"\"\t\u{1}é\"\n00,{},12\n"
        #expect(
            try read(input).map(\.description) == ["2 00 {} - - \"\\\\\\\"\\u0009\\u0001é\"", "3 00 {} - - \"12\""]
        )
    }

    @Test func `a row that is too long costs its first line only`() throws {
        let long = "00,\"{\"\"a\"\":\"\"" + String(repeating: "x", count: 300)
        let input = "token,payload\n\(long)\n01,{}\n\(long)\"\"}\"\n02,{}\n"
        for chunk in [1, 50, .max] {
            #expect(
                try read(input, chunk: chunk).map(\.description) == [
                    "bad: line 2: it has more than 256 bytes", "3 01 {} - - ",
                    "bad: line 4: it has more than 256 bytes", "5 02 {} - - ",
                ]
            )
        }
    }
}
