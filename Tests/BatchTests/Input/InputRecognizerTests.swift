// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing

@testable import Batch

/// Inputs that are recognized as something other than a batch.
@Suite struct InputRecognizerTests {
    /// The error for an input; `nil` if it is read.
    private static func advice(
        _ bytes: [UInt8],
        _ expectation: InputExpectation = .batch(nil),
        chunk: Int = .max,
        file: String? = "batch.json"
    ) throws -> String? {
        let decoder = InputDecoder(bytes, chunk: chunk)
        do {
            try decoder.recognize(expecting: expectation)
            return nil
        } catch let error as UnexpectedContent {
            return error.advice(expecting: expectation, file: file)
        }
    }

    private static func utf16(_ text: String, isBigEndian: Bool = false) -> [UInt8] {
        text.utf16.flatMap { unit in
            let bytes = [UInt8(truncatingIfNeeded: unit), UInt8(truncatingIfNeeded: unit >> 8)]
            return isBigEndian ? bytes.reversed() : bytes
        }
    }

    private static let der: [UInt8] = [0x30, 0x82, 0x0A, 0x5B, 0x02, 0x01, 0x03] + Array(repeating: 0xAA, count: 40)

    private static let refused: [([UInt8], String)] = [
        (
            Array("[\n {\"token\":\"a\"}\n]\n".utf8),
            "a JSON array, expected one object per line; convert it: jq -c '.[]' batch.json > batch.jsonl"
        ),
        (Array("\n\n  [{\"token\":\"a\"}]".utf8), "a JSON array"),
        (
            Array("{\n  \"token\": \"a\"\n}\n".utf8),
            "JSON over several lines, expected one object per line; convert it: jq -c . batch.json > batch.jsonl"
        ),
        (Array("\u{FEFF}{ \"token\": \"a\",\r\n  \"payload\": {} }".utf8), "JSON over several lines"),
        (Array("{\"payload\": {\n".utf8), "JSON over several lines"),
        (der, "a certificate or key (.p12 or DER), expected a batch; did you mean --certificate?"),
        (Array("-----BEGIN CERTIFICATE-----\nMIIB\n".utf8), "a certificate or key (PEM)"),
        (Array("<?xml version=\"1.0\"?>\n<plist>".utf8), "an XML file, expected a batch"),
        (Array("<plist version=\"1.0\">\n".utf8), "an XML file"), (Array("<tokens>\n".utf8), "an XML file"),
        (Array("<!DOCTYPE html>\n".utf8), "an HTML page"), (Array("<HTML>\n".utf8), "an HTML page"),
        (
            Array("{\"token\":\"a\"},\n{\"token\":\"b\"}\n".utf8),
            "JSON with a comma after each object, expected one object per line; convert it: sed 's/,$//' batch.json > "
                + "batch.jsonl"
        ),
        (Array("{\"token\":\"a\",\"payload\":{},\n".utf8), "JSON over several lines"),
        (
            Array("{\"token\":\"a\"}\r{\"token\":\"b\"}\r".utf8),
            "text with CR at the ends of lines, expected LF; convert it: tr '\\r' '\\n' < batch.json > "
                + "batch-converted.json"
        ),
        (
            Array("ok.jsonl".utf8) + Array(repeating: 0, count: 249) + Array("ustar".utf8),
            "a tar archive, expected a batch; unpack it"
        ),
        (Array("bplist00".utf8) + [0xD1, 1, 2], "a binary property list"),
        (
            [0xFF, 0xFE] + utf16("token\n"),
            "UTF-16 text, expected UTF-8; convert it: iconv -f UTF-16 -t UTF-8 batch.json > batch-converted.json"
        ),
        ([0xFE, 0xFF] + utf16("token\n", isBigEndian: true), "UTF-16 text"),
        (utf16("token,payload\n"), "UTF-16 text, expected UTF-8; convert it: iconv -f UTF-16LE"),
        (utf16("token,payload\n", isBigEndian: true), "UTF-16 text, expected UTF-8; convert it: iconv -f UTF-16BE"),
        ([0xFF, 0xFE, 0, 0, 0x41, 0, 0, 0], "UTF-32 text"),
        (Array("\u{7F}ELF\u{2}\u{1}\u{1}".utf8) + Array(repeating: 0, count: 20), "an executable program"),
        (Array("PK\u{3}\u{4}\u{14}".utf8) + Array(repeating: 0, count: 20), "a ZIP archive or spreadsheet"),
        (Array("SQLite format 3\0".utf8), "an SQLite database"), (Array("%PDF-1.7\n".utf8), "a PDF document"),
        ([0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A, 0, 0, 0, 13], "an image"),
        (
            [0x28, 0xB5, 0x2F, 0xFD, 4, 0, 1, 0],
            "Zstandard data, expected text or gzip; convert it: zstdcat batch.json"
        ),
        (Array("BZh91AY&SY".utf8), "bzip2 data"), ([0xFD, 0x37, 0x7A, 0x58, 0x5A, 0, 0, 4], "xz data"),
        ([0xFE, 0xED, 0xFE, 0xED, 0, 0, 0, 2] + Array(repeating: 0, count: 8), "a Java keystore, expected a batch"),
        (Array("abc\0def\n".utf8), "binary data, expected a batch"),
        (Array("a\u{1}b\u{2}c\u{3}\n".utf8), "binary data"),
        (gzip(gzip(Array("{}\n".utf8))), "gzip data inside gzip data"),
        (gzip(Array("[1]".utf8)), "a JSON array"), (gzip(der), "a certificate or key"),
    ]

    @Test(arguments: refused.indices)
    func `an input that is not a batch is named, however it is read`(_ index: Int) throws {
        let (bytes, text) = Self.refused[index]
        let whole = try #require(try Self.advice(bytes))
        #expect(whole.hasPrefix(text), "\(whole)")
        for chunk in 1...min(bytes.count, 40) { #expect(try Self.advice(bytes, chunk: chunk) == whole, "\(chunk)") }
    }

    @Test(arguments: [
        "", "\n", "{}\n", "{\"token\":\"a\",\"payload\":{}}\n", "{\"token\":\"a\",\"payload\":{}}", "{\"token\n{}\n",
        "x\n",
        "{\"token\":\"a\",\r\"payload\":{}}\n", "token,payload\n", "\u{FEFF}token\n", "<a1b2 c3d4>\n", "<fade>\n",
        "# [tokens]\na1b2\n", "a1b2\n", "0\n",
        "token\tpayload\n", "{\"é\":1}\n", "caf\u{E9},1\n", "{}\n[1]\n", "{}\n\0\n", "3082\n", "a\u{1B}b\u{1}\n",
    ])
    func `an input that may be a batch is read`(_ text: String) throws {
        for chunk in [1, 3, .max] {
            #expect(try Self.advice(Array(text.utf8), chunk: chunk) == nil)
            #expect(try Self.advice(gzip(Array(text.utf8)), chunk: chunk) == nil)
        }
    }

    @Test(arguments: ["{", "[", ",", ":", "}", " "])
    func `a line longer than the recognized part is read, wherever it is split`(_ last: String) throws {
        let head = #"{"token":"a","payload":{"aps":{"alert":""#
        let text = head + String(repeating: "x", count: 4095 - head.utf8.count) + last
        let line = Array((text + String(repeating: "y", count: 500) + "\"}}}\n").utf8)
        for format in [nil, BatchFormat.jsonLines] {
            #expect(try Self.advice(line, .batch(format)) == nil)
            #expect(try Self.advice(gzip(line), .batch(format), chunk: 100) == nil)
        }
    }

    @Test(arguments: ["BZhAAY+SYabcdefg0123456789abcdefghijklmnopq=", "BZh91AYaSYabcdefghijk+/mnopq=", "BZh9"])
    func `a base64 token may start like a bzip2 file`(_ token: String) throws {
        for chunk in [1, .max] { #expect(try Self.advice(Array("\(token)\n".utf8), chunk: chunk) == nil) }
    }

    @Test(
        arguments: [
            ("token,name\nab,x\n", "export.csv", "send export.csv"),
            ("\"Device Token\"\nab\n", "e.csv.gz", "send e.csv.gz"),
            ("device_token\nab\n", "list.txt", "send --format csv list.txt"),
            ("ab;1\n", nil, "send --format csv -"), ("ab\tuser\n", "a b", "send --format csv FILE"),
        ] as [(String, String?, String)]
    )
    func `a list of tokens that is CSV is named`(_ text: String, _ name: String?, _ command: String) throws {
        let bytes = Array(text.utf8)
        #expect(
            try Self.advice(bytes, .tokens, file: name)
                == "CSV, expected one device token per line; to read its columns, leave out --tokens: \(command)"
        )
        let advice = "CSV, expected one device token per line; to read its columns, add --format csv"
        #expect(try Self.advice(bytes, .batch(.tokens), file: name) == advice)
        #expect(try Self.advice(bytes, .deadTokens(.tokens), file: name) == advice)
        let registrations = try Self.advice(bytes, .registrations, file: name)
        #expect(registrations == "CSV with a header, expected TOKEN or TOKEN,TIME in each line; remove the header")
    }

    @Test(
        arguments: [
            ("token,payload\nab,{}\n", BatchFormat.jsonLines, "CSV, expected JSON lines; use --format csv"),
            ("\"Payload\";token\n", .jsonLines, "CSV, expected JSON lines; use --format csv"),
            (
                "\(String.token(1))\n", .jsonLines,
                "a list of device tokens, expected JSON lines; use --format tokens"
            ),
            ("{\"token\":\"ab\"}\n", .csv, "JSON lines, expected CSV; use --format jsonl"),
            ("# id, token\n{}\n", .jsonLines, nil),
            ("{\"token\":\"ab\"}\n", .jsonLines, nil), ("token,payload\n", .csv, nil), ("hello\n", .jsonLines, nil),
            ("{a},token\n", .csv, nil), ("device_token\n", .jsonLines, nil),
        ] as [(String, BatchFormat, String?)]
    )
    func `lines of another format than the name of the file says are named`(
        _ text: String,
        _ expected: BatchFormat,
        _ advice: String?
    ) throws {
        for expectation in [InputExpectation.batch(expected), .deadTokens(expected)] {
            #expect(try Self.advice(Array(text.utf8), expectation) == advice, "\(text)")
        }
    }

    @Test(arguments: [",", ";", "\t"])
    func `tokens in rows without a header are extracted`(_ separator: String) throws {
        let rows = Array("7\(separator)\(String.token(1))\(separator)x\n".utf8)
        let option = [",": "-d, ", ";": "-d';' "][separator] ?? ""
        #expect(
            try Self.advice(rows, .tokens, file: "list.csv")
                == "CSV, expected one device token per line; convert it: cut \(option)-f2 list.csv > list.tokens"
        )
        #expect(try Self.advice(Array("\(String.token(1))\(separator)\n".utf8), .tokens) == nil)
        #expect(try Self.advice(Array("\(String.token(1))\(separator)1767225600\n".utf8), .registrations) == nil)
    }

    @Test(arguments: ["token,payload\n", "payload;token\n", "\(String.token(1))\n", "1,\(String.token(1))\n"])
    func `a batch is not a payload`(_ text: String) throws {
        let advice = try Self.advice(Array(text.utf8), .payload)
        #expect(advice == "a batch of CSV or tokens, expected a payload in JSON; to check a batch, use: send --dry-run")
        let ids = (0..<3).map { "\"550e8400e29b41d4a71644665544000\($0)\"" }.joined(separator: ",")
        for json in ["{\"aps\":{}}\n", "{\"aps\":{},\"ids\":[\(ids)]}\n", "[1,2]", "\"a\"", "1", "{\n\"token\": 1,\n"] {
            #expect(try Self.advice(Array(json.utf8), .payload) == nil)
        }
    }

    @Test func `the expected content decides`() throws {
        let pem = Array("-----BEGIN CERTIFICATE-----\nMIIB\n".utf8)
        #expect(try Self.advice(pem, .deadTokens(nil)) == "a certificate or key (PEM), expected a list of dead tokens")
        #expect(try Self.advice(pem, .document) == "a certificate or key (PEM), expected a payload")
        #expect(try Self.advice(Array("\(String.token(1)) \(String.token(2))\n".utf8), .tokens) == nil)
        #expect(try Self.advice(Array("\(String.token(1)),\(String.token(2))\n".utf8), .tokens) == nil)
        let array = Array("[\"a1\", \"b2\"]\n".utf8)
        #expect(try Self.advice(array, .tokens)?.contains("jq -r '.[]' batch.json > batch.tokens") == true)
        #expect(try Self.advice(array, .batch(.csv)) == nil)
        #expect(try Self.advice(array, .document) == nil)
        #expect(try Self.advice(Array("{\n}".utf8), .document) == nil)
        #expect(try Self.advice(Self.der, .document) != nil)
        #expect(
            try Self.advice(Array("{\"token\":\"a1\"}\n".utf8), .tokens)?
                .contains("jq -r .token batch.json > batch.tokens") == true
        )
    }

    @Test(
        arguments: [
            (nil, "convert it with: jq -c '.[]'"), ("a b.json", "convert it with: jq -c '.[]'"),
            ("-rf", "convert it with: jq -c '.[]'"), ("x;reboot", "convert it with: jq -c '.[]'"),
            ("dir.d/batch.json", "convert it: jq -c '.[]' dir.d/batch.json > dir.d/batch.jsonl"),
            ("b.jsonl", "convert it: jq -c '.[]' b.jsonl > b-converted.jsonl"),
            ("b.json.gz", "convert it: zcat b.json.gz | jq -c '.[]' > b.jsonl"),
            ("b", "convert it: jq -c '.[]' b > b.jsonl"),
        ] as [(String?, String)]
    )
    func `the suggested command has a file name that is safe in a shell`(_ name: String?, _ text: String) throws {
        #expect(try Self.advice([UInt8(ascii: "[")], file: name)?.hasSuffix(text) == true)
    }
}
