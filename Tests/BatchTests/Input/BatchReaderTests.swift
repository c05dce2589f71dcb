// SPDX-License-Identifier: Apache-2.0

import APNSWire
import Testing

@testable import Batch

@Suite struct BatchReaderTests {
    static let one = String.token(0x1A)
    static let two = String.token(0x2B)

    static func line(_ token: String) -> String {
        "{\"token\":\"\(token)\",\"payload\":{}}"
    }

    /// The expected events for ``inputs``, each with two records and an invalid line between them.
    static let inputs: [(BatchFormat, String, [String])] = [
        (
            .jsonLines, line(one) + "\n\n \t\n{\"token\":\"SECRET\"}\n" + line(two) + "\n",
            ["1 \(one) {} - - ", "bad: line 4, column 10: \(noToken)", "5 \(two) {} - - "]
        ),
        (
            .csv, "id,token\n\"a,\"\"b\",\(one)\n\nx,SECRET\n\"x\ny\",\(two)\n",
            ["2 \(one) {} - - \"a,\\\"b\"", "bad: line 4: \(noToken)", "5 \(two) {} - - \"x\\u000ay\""]
        ),
        (
            .tokens, "# SECRET\n\(one)\n\n  \nSECRET\n  \(two.uppercased())\t\n",
            ["2 \(one) {} - - ", "bad: line 5: \(noToken)", "6 \(two) {} - - "]
        ),
    ]

    @Test(
        arguments: [
            ("\(one) \(two)", "several device tokens; write one per line"),
            ("\(one)\t\(two) \(one)", "several device tokens; write one per line"),
            ("\(one),\(two)", "several device tokens; write one per line"),
            ("\(one) SECRET", "text after the device token; expected the token alone"),
            ("\(one);", "text after the device token; expected the token alone"),
            ("\"\(one)\"", "device token in quotes; remove the quotes (jq writes none with -r)"),
            (
                "qv8AqV+qv/8AqV+qv/8AqV+qv/8AqV+qv/8AqV+qvw8",
                "device token in base64 without padding; add \"=\" at its end"
            ),
            (String(one.dropLast()), "invalid device token: 63 hexadecimal digits, expected an even number"),
            ("x\(one)", noToken), ("SECRET \(one)", noToken), (String(repeating: one, count: 4), noToken),
        ] as [(String, String)]
    )
    func `why a line is not a token is reported`(_ line: String, _ problem: String) throws {
        let options = smallOptions(common: "{}")
        let events = try read("\(line)\n\(Self.two)\n", format: .tokens, options: options)
        #expect(events.map(\.description) == ["bad: line 1: \(problem)", "2 \(Self.two) {} - - "])
    }

    static let noToken = "invalid device token: expected hexadecimal or base64"

    @Test(arguments: inputs.indices)
    func `a valid line after an invalid one is read, with its own number`(_ index: Int) throws {
        let (_, input, expected) = Self.inputs[index]
        #expect(try read(input, options: smallOptions(common: "{}")).map(\.description) == expected)
    }

    @Test(arguments: inputs.indices)
    func `an input split anywhere is read as if it were whole`(_ index: Int) throws {
        let (format, input, expected) = Self.inputs[index]
        for chunk in 1...input.utf8.count {
            for told in [format, nil] {
                let events = try read(input, format: told, options: smallOptions(common: "{}"), chunk: chunk)
                #expect(events.map(\.description) == expected, "chunks of \(chunk) bytes")
            }
        }
    }

    @Test(arguments: inputs.indices)
    func `a missing last line break, CR LF and a byte order mark change nothing`(_ index: Int) throws {
        let (_, input, expected) = Self.inputs[index]
        let windows = input.replacing("\n", with: "\r\n").replacing("x\r\ny", with: "x\ny")
        for variant in [String(input.dropLast()), windows, "\u{FEFF}" + input, "\u{FEFF}" + windows] {
            for chunk in [1, 2, 3, 65, .max] {
                let events = try read(variant, options: smallOptions(common: "{}"), chunk: chunk)
                #expect(events.map(\.description) == expected)
            }
        }
    }

    @Test(arguments: [BatchFormat.jsonLines, .csv, .tokens])
    func `an empty input has no records`(_ format: BatchFormat) throws {
        for input in ["", "\n", "\u{FEFF}", "\r\n \n\n"] {
            #expect(try read(input, format: format, options: smallOptions(common: "{}")) == [])
            #expect(try read(input, options: smallOptions(common: "{}")) == [])
        }
    }

    @Test(arguments: [
        ("{\"token\"", BatchFormat.jsonLines), ("  [", .jsonLines), ("token,payload", .csv), ("\"id\",\"token\"", .csv),
        ("token", .csv), (" Token ", .csv), ("\"TOKEN\"", .csv), ("token;x", .csv), ("token\tx", .csv),
        ("a1\tb2", .tokens), ("<a1\tb2>", .tokens), ("a1b2", .tokens), ("<a1b2 c3d4>", .tokens),
        ("# tokens, of May", .tokens), ("", .tokens),
    ])
    func `the first line determines the format`(_ line: String, _ format: BatchFormat) {
        #expect(
            Array(line.utf8).withUnsafeBytes { BatchFormat(firstLine: $0) { BatchColumn($0) != nil } }
                == format
        )
    }

    @Test(
        arguments: [
            ("a.jsonl", BatchFormat.jsonLines), ("b/c.NDJSON", .jsonLines), ("x.json", .jsonLines), ("x.csv", .csv),
            ("x.tokens", .tokens), ("x.TSV", .csv), ("a.jsonl.gz", .jsonLines), ("a.b.csv.GZ", .csv), ("csv.gz", nil),
            ("x.gz", nil), ("x.txt", nil), ("csv", nil), ("", nil),
        ] as [(String, BatchFormat?)]
    )
    func `the file name extension determines the format`(_ name: String, _ format: BatchFormat?) {
        #expect(BatchFormat(fileName: name) == format)
    }

    @Test func `tokens without a payload are rejected`() throws {
        #expect(try read(Self.one) == [.refused("line 1: missing payload; to share one, add --payload or --alert")])
    }

    // MARK: - Long lines

    @Test(arguments: [1, 7, 64, 1000, .max])
    func `a line at the limit is read and a longer one is skipped`(_ chunk: Int) throws {
        let fits = Self.line(Self.one) + String(repeating: " ", count: 200 - Self.line(Self.one).utf8.count)
        for lineEnd in ["\n", "\r\n"] {
            let input = [fits, fits + " ", fits, fits + String(repeating: "x", count: 5000), fits].joined(
                separator: lineEnd
            )
            let events = try read(input, options: smallOptions(line: 200, block: 50), chunk: chunk)
            #expect(
                events.map(\.description) == [
                    "1 \(Self.one) {} - - ", "bad: line 2: the line is longer than 200 bytes", "3 \(Self.one) {} - - ",
                    "bad: line 4: the line is longer than 200 bytes", "5 \(Self.one) {} - - ",
                ]
            )
        }
    }

    @Test(arguments: ["\"", "\\", "{", " ", "\"\n", "[", ",", "<"], [1, 64])
    func `no endlessly repeated byte uses more memory`(_ bytes: String, _ block: Int) throws {
        for format in [BatchFormat.jsonLines, .csv, .tokens] {
            let input = "token\n" + String(repeating: bytes, count: 1000)
            let options = smallOptions(line: 32, block: block, common: "{}")
            for event in try read(input, format: format, options: options) {
                if case .record = event { Issue.record("there is no token: \(event)") }
            }
        }
    }

    @Test func `a last line that never ends is reported once`() throws {
        for format in [BatchFormat.jsonLines, .csv, .tokens] {
            let header = format == .csv ? "token\n" : ""
            let number = format == .csv ? 2 : 1
            let input = header + String(repeating: "0", count: 100_000)
            let events = try read(input, format: format, options: smallOptions(common: "{}"), chunk: 100)
            #expect(events == [.bad("line \(number): the line is longer than 256 bytes")])
        }
    }

    @Test func `endless blank lines use no memory`() throws {
        let input = String(repeating: "\n", count: 100_000) + Self.line(Self.one)
        #expect(try read(input).map(\.description) == ["100001 \(Self.one) {} - - "])
        let spaces = String(repeating: " ", count: 100_000) + "\n" + Self.line(Self.one)
        #expect(
            try read(spaces, format: .jsonLines).map(\.description) == [
                "bad: line 1: the line is longer than 256 bytes", "2 \(Self.one) {} - - ",
            ]
        )
    }

    // MARK: - Errors of the source

    @Test func `an error of the source loses nothing`() throws {
        struct Interruption: Error {}
        var reader = try BatchReader(format: .tokens, options: smallOptions(common: "{}"))
        var record = BatchRecord()
        let half = Array((Self.one + "\n").utf8)
        reader.fill { target in
            target.copyBytes(from: half[..<10])
            return 10
        }
        #expect(reader.next(&record) == .needMore)
        #expect(throws: Interruption.self) { try reader.fill { _ throws(Interruption) in throw Interruption() } }
        reader.fill { target in
            target.copyBytes(from: half[10...])
            return half.count - 10
        }
        #expect(reader.next(&record) == .record)
        #expect(record.token.hexadecimal == Self.one)
    }
}
