// SPDX-License-Identifier: Apache-2.0

import APNSPayload
import Testing

@testable import Batch

@Suite struct BatchCSVTests {
    static let token = String.token(0xC5)

    static let valid = "valid columns: token, payload, expiry, priority, id, topic, pushType, collapseId, apnsId"
    static let latin1 = "if the file is Latin-1, convert it with: iconv -f LATIN1 -t UTF-8"
    static let quote =
        "misplaced or unbalanced double quote; a field with quotes is written \"{\"\"aps\"\":{}}\""
    static let skip = "to skip it, add --ignore-unknown-columns"

    private static func many(_ count: Int) -> String {
        (1...count).map { "\"c\($0)x\"" }.joined(separator: ", ")
    }

    @Test func `the columns may be in any order`() throws {
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

    @Test func `a row may span several lines, and the next row has its own number`() throws {
        let input = "token,payload\n\(Self.token),\"{\n\"\"a\"\":\n1}\"\n\(Self.token),{}\n"
        #expect(try read(input).map(\.description) == ["2 \(Self.token) {\"a\":1} - - ", "5 \(Self.token) {} - - "])
    }

    @Test func `an empty payload is replaced by the common payload`() throws {
        let input = "token,payload\n\(Self.token),\n"
        #expect(
            try read(input, options: smallOptions(common: "{\"c\":1}")).map(\.description) == [
                "2 \(Self.token) {\"c\":1} - - "
            ]
        )
        #expect(
            try read(input).map(\.description) == [
                "bad: line 2: missing payload; to share one, add --payload or --alert"
            ]
        )
    }

    private static let headers: [(String, String)] = [
        ("token,payload,colour", "line 1: unknown column \"colour\" in the header; \(Self.valid); \(Self.skip)"),
        (
            "Device_Token,payload",
            "line 1: unknown column \"Device_Token\" in the header; to read it as token, add --column "
                + "token=Device_Token"
        ),
        (
            "token;push token;payload",
            "line 1: unknown column \"push token\" in the header; \(Self.valid); \(Self.skip)"
        ),
        (
            "push token;user_id;payload",
            "line 1: unknown columns \"push token\", \"user_id\" in the header; to read \"push token\" as token and "
                + "\"user_id\" as id, add --column \"token=push token\" --column id=user_id; to skip "
                + "\"user_id\", add --ignore-unknown-columns"
        ),
        (
            "device,name,payload,{SECRET}",
            "line 1: unknown columns \"device\", \"name\", number 4 in the header; for the column with the token, add "
                + "--column token=NAME; to skip the others, add --ignore-unknown-columns"
        ),
        (
            "token,body",
            "line 1: unknown column \"body\" in the header; for the column with the payload, add "
                + "--column payload=NAME (or --payload FILE, or --alert TEXT); to skip \"body\", add "
                + "--ignore-unknown-columns"
        ),
        (
            "token,payload,id,expiry,priority,topic,push-type,collapse-id,apns-id,"
                + "\(Self.many(14).replacing("\"", with: "").replacing(" ", with: ""))",
            "line 1: unknown columns \(Self.many(12)), 2 more in the header; to skip them, add --ignore-unknown-columns"
        ),
        ("token,payload,{SECRET}", "line 1: unknown column number 3 in the header; \(Self.valid); \(Self.skip)"),
        ("token,payload,\u{1B}[2J", "line 1: unknown column number 3 in the header; \(Self.valid); \(Self.skip)"),
        ("sep=;", "line 1: only Excel reads a line with \"sep=\"; remove it"),
        ("token|payload", "line 1: the columns are separated by \"|\"; expected commas, semicolons or tabs"),
        ("token,payload,token", "line 1: duplicate column \"token\" in the header"),
        (
            "payload,id",
            "line 1: no column \"token\" in the header; if it has another name, add --column token=NAME; the header "
                + "has \"payload\", \"id\""
        ),
        (
            "token,id",
            "line 1: no column \"payload\" in the header; to send all rows the same payload, add --payload FILE or "
                + "--alert TEXT; the header has \"token\", \"id\""
        ),
        ("\ntoken\"x,id", "line 2: \(Self.quote)"),
        (
            "\(token),{}",
            "line 1: missing header; add a first line with the names of the columns, such as token,payload"
        ),
        (
            "user;\"{\"\"aps\"\":{\"\"badge\"\":1}}\";\(token);10;+1h",
            "line 1: missing header; add a first line with the names of the columns, such as "
                + "id;payload;token;priority;expiry"
        ),
        (
            "\(token),{\"aps\":{\"alert\":\"a\",\"badge\":1}}",
            "line 1: missing header; add a first line with the names of the columns, such as token,payload,id"
        ),
        (
            "a\tb\t\(token)",
            "line 1: missing header; add a first line with the names of the columns, such as token payload (with tabs "
                + "between them)"
        ),
        (
            token,
            "line 1: missing header; add a first line with the names of the columns, such as token"
        ),
    ]

    @Test(arguments: headers)
    func `an invalid header rejects the whole input`(_ header: String, _ problem: String) throws {
        #expect(try read(header + "\n\(Self.token),{}\n", format: .csv) == [.refused(problem)])
    }

    @Test(arguments: [
        ("{},,,", "line 2: missing token"),
        (
            "{},SECRET,,",
            "line 2: invalid device token: expected hexadecimal or base64"
        ),
        ("{},00,,,", "line 2: expected 4 fields, found 5"),
        ("{},00", "line 2: expected 4 fields, found 2"),
        (
            "{},00,86400,",
            "line 2: expiry 86400 is a time before 2001; to expire in 86400 seconds, write \"+86400s\""
        ),
        ("{},00,,7", "line 2: invalid priority: expected 10 or 5"),
        ("{}\",00,,", "line 2: \(Self.quote)"),
        ("\"{}\" ,00,,", "line 2: \(Self.quote)"),
        ("\"{},00,,", "line 2: \(Self.quote)"),
        (
            "\"{\"\"aps\"\":{\"\"badge\"\":\"\"SECRET\"\"}}\",00,,",
            "line 2: payload, line 1, column 17: aps.badge is a string, expected a number"
        ),
    ])
    func `an invalid row is reported, and the next one is read`(_ row: String, _ problem: String) throws {
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
        #expect(try read(input).map(\.description) == ["bad: line 2: invalid UTF-8 in id; \(Self.latin1)"])
    }

    @Test func `any id becomes a JSON string`() throws {
        let input = "token,payload,id\n00,{},\"\\\"\"\t\u{1}é\"\n00,{},12\n"
        #expect(
            try read(input).map(\.description) == ["2 00 {} - - \"\\\\\\\"\\u0009\\u0001é\"", "3 00 {} - - \"12\""]
        )
    }

    @Test func `only the first line of a row that is too long is lost`() throws {
        let long = "00,\"{\"\"a\"\":\"\"" + String(repeating: "x", count: 300)
        let input = "token,payload\n\(long)\n01,{}\n\(long)\"\"}\"\n02,{}\n"
        for chunk in [1, 50, .max] {
            #expect(
                try read(input, chunk: chunk).map(\.description) == [
                    "bad: line 2: the line is longer than 256 bytes", "3 01 {} - - ",
                    "bad: line 4: the line is longer than 256 bytes", "5 02 {} - - ",
                ]
            )
        }
    }

    @Test func `alert, badge and sound build the payload, and empty cells are left out`() throws {
        let input = [
            "Sound;TOKEN;alert;id;badge",
            #"chime.caf;01;"Say ""hi"" \; é";a;7"#, ";02; Hello ;;", " default ;03;;;", ";04; ;;0", ";05;;;007",
        ].joined(separator: "\n")
        for chunk in [1, .max] {
            #expect(
                try read(input, chunk: chunk).map(\.description) == [
                    #"2 01 {"aps":{"alert":"Say \"hi\" \\; é","badge":7,"sound":"chime.caf"}} - - "a""#,
                    #"3 02 {"aps":{"alert":" Hello "}} - - "#, #"4 03 {"aps":{"sound":"default"}} - - "#,
                    #"5 04 {"aps":{"badge":0}} - - "#, #"6 05 {"aps":{"badge":7}} - - "#,
                ]
            )
        }
    }

    @Test func `a row of the longest line may consist of characters to escape, in the alert and in the id`() throws {
        let text = String(repeating: "\u{1}", count: 250)
        let escaped = String(repeating: "\\u0001", count: 250)
        var options = smallOptions()
        options.rules = PayloadRules(byteCountMax: 2048)
        #expect(
            try read("token,alert,id\n00,\(text),\n00,a,\(text.dropLast())\n", options: options).map(\.description) == [
                "2 00 {\"aps\":{\"alert\":\"\(escaped)\"}} - - ",
                "3 00 {\"aps\":{\"alert\":\"a\"}} - - \"\(escaped.dropLast(6))\"",
            ]
        )
    }

    @Test(arguments: [
        (",,,", "line 2: missing payload: alert, badge and sound are empty or missing"),
        (",,, ", "line 2: missing payload: alert, badge and sound are empty or missing"),
        ("a,-1,,", "line 2: invalid badge: expected a whole number, 0 or more"),
        (",1.0,,", "line 2: invalid badge: expected a whole number, 0 or more"),
        (",9223372036854775808,,", "line 2: invalid badge: expected a whole number, 0 or more"),
        (
            "\(String(repeating: "x", count: 60)),,,",
            "line 2: payload, line 1, column 65: the payload has 80 bytes, the limit is 64"
        ),
    ])
    func `a row without a payload in its cells is reported, and the next one is read`(
        _ cells: String,
        _ problem: String
    ) throws {
        var options = smallOptions()
        options.rules = PayloadRules(byteCountMax: 64)
        let input = "alert,badge,sound,id,token\n\(cells),00\na,,,,01\n"
        #expect(
            try read(input, options: options).map(\.description) == [
                "bad: \(problem)", "3 01 {\"aps\":{\"alert\":\"a\"}} - - ",
            ]
        )
    }

    @Test(arguments: ["alert", "sound"]) func `a part of the payload that is not UTF-8 is reported`(
        _ name: String
    ) throws {
        let input = Array("token,\(name)\n00,".utf8) + [0xC3, 0x28, 0x0A]
        #expect(try read(input).map(\.description) == ["bad: line 2: invalid UTF-8 in \(name); \(Self.latin1)"])
    }

    private static let elsewhere = "in the header, and also from"

    @Test(
        arguments: [
            (
                "token,payload,Alert", nil, [],
                "line 1: the payload comes from \"alert\" \(elsewhere) the column \"payload\"; keep one, or add "
                    + "--ignore-unknown-columns to skip \"alert\""
            ),
            (
                "token,sound,badge", "{}", [],
                "line 1: the payload comes from \"sound\", \"badge\" \(elsewhere) --payload or --alert; leave out that "
                    + "option, or add --ignore-unknown-columns to skip \"sound\", \"badge\""
            ),
            (
                "token,payload,text", nil, ["alert=text"],
                "line 1: the payload comes from \"alert\" \(elsewhere) the column \"payload\"; keep one"
            ),
            (
                "token,alert,colour", nil, [],
                "line 1: unknown column \"colour\" in the header; valid columns: token, expiry, priority, id, "
                    + "topic, pushType, collapseId, apnsId, alert, "
                    + "badge, sound; \(Self.skip)"
            ),
            (
                "token,allert", nil, [],
                "line 1: unknown column \"allert\" in the header; to read it as alert, add --column alert=allert"
            ),
            (
                "token,payload,allert", nil, [],
                "line 1: unknown column \"allert\" in the header; \(Self.valid); \(Self.skip)"
            ),
        ] as [(String, String?, [String], String)]
    )
    func `a payload comes from one place, and no advice contradicts that`(
        _ header: String,
        _ common: String?,
        _ mappings: [String],
        _ problem: String
    ) throws {
        var options = smallOptions(common: common)
        options.columns = try ColumnNames(mappings)
        #expect(try read(header + "\n00,a,1\n", options: options) == [.refused(problem)])
    }

    @Test func `columns of parts are skipped like unknown ones if the payload comes from elsewhere`() throws {
        var options = smallOptions()
        options.ignoresUnknownColumns = true
        #expect(
            try read("token,badge,payload\n00,x,{}\n", options: options).map(\.description) == ["2 00 {} - - "]
        )
        options.commonPayload = Array("{\"c\":1}".utf8)
        #expect(try read("token,badge\n00,x\n", options: options).map(\.description) == ["2 00 {\"c\":1} - - "])
    }

    @Test func `a part of the payload may have another name in CSV, and is no key of JSON lines`() throws {
        var options = smallOptions()
        options.columns = try ColumnNames(["alert=Text", "id=sound"])
        #expect(
            try read("token,text,sound\n00,Hi,x\n", options: options).map(\.description) == [
                "2 00 {\"aps\":{\"alert\":\"Hi\"}} - - \"x\""
            ]
        )
        #expect(
            try read("{\"token\":\"00\",\"text\":\"Hi\"}\n", options: options) == [
                .refused("line 1: --column alert is only for CSV; in JSON lines, write alert in the payload")
            ]
        )
        let bad = try read("{\"token\":\"00\",\"alert\":\"Hi\"}\n")
        #expect(
            bad.map(\.description) == ["bad: line 1, column 15: unknown key \"alert\"; \(BatchJSONLinesTests.valid)"]
        )
    }
}
