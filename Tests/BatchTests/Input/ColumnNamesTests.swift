// SPDX-License-Identifier: Apache-2.0

import APNSPayload
import Testing

@testable import Batch

/// The names of columns and keys.
@Suite struct ColumnNamesTests {
    static let one = String.token(0x1A)

    private static func read(
        _ input: String,
        _ mappings: [String] = [],
        ignores: Bool = false,
        common: String? = nil
    ) throws -> [String] {
        var options = smallOptions(common: common)
        options.columns = try ColumnNames(mappings)
        options.ignoresUnknownColumns = ignores
        let results = try [1, 7, .max].map { chunk in
            try BatchTests.read(input, options: options, chunk: chunk).map(\.description)
        }
        #expect(results[0] == results[2] && results[1] == results[2])
        return results[2]
    }

    @Test(arguments: [
        "token,payload,id", "Token,PAYLOAD,Id", " token , payload,id ", "\"token\",\"Payload\",\"ID\"",
        " \"Token\" ,\" payload \",id", "\u{FEFF}token,payload,id",
    ])
    func `a header is read in any case, with spaces and quotes`(_ header: String) throws {
        for (separator, end) in [(",", "\n"), (";", "\n"), ("\t", "\n"), (";", "\r\n"), ("\t", "\r\n")] {
            let lines = [header, "\(Self.one),\"{\"\"a\"\":\"\"x,;\"\"}\",\"p,;\t\"", "\(Self.one),{},"]
            // Separators in quotes stay.
            let rows = lines.map { line in
                var isQuoted = false
                return String(
                    line.map { character in
                        if character == "\"" { isQuoted.toggle() }
                        return character == "," && !isQuoted ? Character(separator) : character
                    }
                )
            }
            let expected = ["2 \(Self.one) {\"a\":\"x,;\"} - - \"p,;\\u0009\"", "3 \(Self.one) {} - - "]
            #expect(try Self.read(rows.joined(separator: end) + end) == expected)
        }
    }

    @Test func `a single token column is valid, and tabs at the ends are empty columns`() throws {
        #expect(try Self.read("TOKEN\n\(Self.one)\n", common: "{}") == ["2 \(Self.one) {} - - "])
        let tabs = "id\ttoken\tpayload\texpiry\n\t\(Self.one)\t{}\t\nx\t\(Self.one)\t\t+1h\n"
        #expect(
            try Self.read(tabs, common: "{}") == ["2 \(Self.one) {} - - ", "3 \(Self.one) {} 1700003600 - \"x\""]
        )
    }

    @Test func `unknown columns and keys are skipped if requested`() throws {
        let csv = "user,token,payload,note\n7,\(Self.one),{},\"a, b\"\n8,\(Self.one),{}\n"
        #expect(
            try Self.read(csv, ignores: true) == ["2 \(Self.one) {} - - ", "bad: line 3: expected 4 fields, found 3"]
        )
        let json = "{\"a\":[{\"token\":1}],\"token\":\"\(Self.one)\",\"payload\":{},\"ttl\":null}\n{\"a\":01}\n"
        #expect(
            try Self.read(json, ignores: true) == [
                "1 \(Self.one) {} - - ", "bad: line 2, column 7: leading zero in a number",
            ]
        )
        #expect(try Self.read(json)[0].hasPrefix("bad: line 1, column 2: unknown key \"a\"; valid keys: token"))
    }

    @Test func `a mapped column has only its other name`() throws {
        let mappings = ["token=Device Token", "id=user"]
        let csv = "USER;\"device token\";payload\nu1;\(Self.one);{}\n"
        #expect(try Self.read(csv, mappings) == ["2 \(Self.one) {} - - \"u1\""])
        let json = "{\"user\":5,\"Device\\u0020Token\":\"\(Self.one)\",\"payload\":{}}\n"
        #expect(try Self.read(json, mappings) == ["1 \(Self.one) {} - - 5"])
    }

    @Test(arguments: [
        (
            ["token=Device Token", "id=user"], "token,payload,user\n",
            "no column \"Device Token\", which --column token names; the header has \"token\", \"payload\", \"user\""
        ),
        (
            ["id=user"], "token,payload,name\n",
            "no column \"user\", which --column id names; the header has \"token\", \"payload\", \"name\""
        ),
        (
            ["token=push"], "token,payload,push\n",
            "\"token\" is unknown, because --column token names \"push\"; to skip it, add --ignore-unknown-columns"
        ),
        (
            ["token=push"], "push_token,payload,push\n",
            "unknown column \"push_token\" in the header; valid columns: token, payload, expiry, priority, id, "
                + "topic, pushType, collapseId, apnsId; to skip "
                + "it, add --ignore-unknown-columns"
        ),
    ])
    func `advice about a header never contradicts the mappings`(
        _ mappings: [String],
        _ header: String,
        _ text: String
    ) throws {
        #expect(try Self.read(header, mappings) == ["refused: line 1: \(text)"])
    }

    @Test func `a key that a mapping replaces is not suggested`() throws {
        let json = "{\"token\":\"\(Self.one)\",\"payload\":{}}\n{\"push\":\"\(Self.one)\",\"deviceToken\":1}\n"
        let bad = try Self.read(json, ["token=push"])
        #expect(
            bad == [
                "bad: line 1, column 2: \"token\" is unknown, because --column token names \"push\"; to skip it, add "
                    + "--ignore-unknown-columns",
                "bad: line 2, column 76: unknown key \"deviceToken\"; valid keys: token, payload, expiry, priority, "
                    + "id, topic, pushType, collapseId, apnsId",
            ]
        )
        #expect(
            try Self.read("{\"deviceToken\":\"a\"}\n") == [
                "bad: line 1, column 2: unknown key \"deviceToken\"; to read it as token, add --column "
                    + "token=deviceToken"
            ]
        )
    }

    @Test(arguments: [
        (["token"], "--column: expected COLUMN=NAME, such as token=device_token"),
        (["=x"], "--column: expected COLUMN=NAME, such as token=device_token"),
        (["token="], "--column: expected COLUMN=NAME, such as token=device_token"),
        (["tokne=x"], "--column: unknown column \"tokne\"; did you mean \"token\"?"),
        (
            ["colour=x"],
            "--column: unknown column \"colour\"; valid columns: token, payload, expiry, priority, id, "
                + "topic, pushType, collapseId, apnsId, alert, badge, "
                + "sound"
        ),
        (
            ["device_token=token"],
            "--column: the column of the batch goes first; write --column token=device_token"
        ),
        (["Device Token=TOKEN"], "--column: the column of the batch goes first; write --column \"token=Device Token\""),
        (["token=a", "TOKEN=b"], "--column: \"token\" is mapped twice"),
        (["token=a", "id=A"], "--column: \"A\" is mapped twice"),
    ])
    func `the error for an invalid mapping contains the expected form`(_ arguments: [String], _ text: String) {
        let error = #expect(throws: ColumnMappingError.self) { _ = try ColumnNames(arguments) }
        #expect(error?.description == text)
    }

    @Test func `a name is shown only if it cannot be a token, a payload or an escape sequence`() {
        func text(_ name: String) -> String? { Array(name.utf8).withUnsafeBytes { ColumnName($0).text } }
        for name in ["device_token", "Gerätetoken", "user id", "a1", "token (new)", "x-y.z/1"] {
            #expect(text(name) == name)
        }
        for name in [
            "", .token(5), "a1b2c3d4e5f60718", "{\"aps\":1}", "a\u{1B}[2J", "\u{202E}x", "12345", "x\ny",
            String(repeating: "x", count: 33), "a\u{0301}" + String(repeating: "\u{0301}", count: 100),
        ] {
            #expect(text(name) == nil, "\(name)")
        }
    }
}
