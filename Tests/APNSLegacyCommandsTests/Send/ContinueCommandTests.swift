// SPDX-License-Identifier: Apache-2.0

import Testing

@testable import APNSLegacyCommands
@testable import BatchFiles

@Suite struct ContinueCommandTests {
    private static func command(_ words: [String], input: String, isTokens: Bool = false) -> ContinueCommand {
        ContinueCommand(commandLine: ["apns-legacy", "send"] + words, input: input, isTokens: isTokens) { _ in false }
    }

    private static func position(_ line: UInt64, _ format: BatchFormat, head: UInt64 = 0) -> BatchPosition {
        BatchPosition(nextLine: line, byteCount: 0, headLineCount: head, format: format)
    }

    @Test func `JSON lines are cut by tail`() {
        let command = Self.command(["batch.jsonl", "--port", "2195"], input: "batch.jsonl")
        #expect(
            command.rest(from: Self.position(1201, .jsonLines))
                == "tail -n +1201 batch.jsonl | apns-legacy send --format jsonl - --port 2195"
        )
    }

    @Test func `CSV keeps its header, and a compressed file is decompressed`() {
        var command = Self.command(["--format=csv", "b.csv"], input: "b.csv")
        let position = Self.position(1201, .csv, head: 1)
        #expect(
            command.rest(from: position)
                == "(head -n 1 b.csv; tail -n +1201 b.csv) | apns-legacy send --format=csv -"
        )
        command.isCompressed = true
        #expect(
            command.rest(from: position)
                == "(zcat b.csv | head -n 1; zcat b.csv | tail -n +1201) | apns-legacy send --format=csv -"
        )
    }

    @Test func `the input is distinguished from equal values of options`() {
        let command = Self.command(["--format", "csv", "csv", "--key", "csv"], input: "csv")
        #expect(
            command.rest(from: Self.position(2, .csv)) == "tail -n +2 csv | apns-legacy send --format csv - --key csv"
        )
        let tokens = Self.command(["--tokens", "t", "--alert", "t"], input: "t", isTokens: true)
        #expect(
            tokens.rest(from: Self.position(5, .tokens)) == "tail -n +5 t | apns-legacy send --tokens - --alert t"
        )
    }

    @Test func `an input behind the end of options stays the only word there`() {
        let command = Self.command(["--port", "2195", "--", "b.jsonl"], input: "b.jsonl")
        #expect(
            command.rest(from: Self.position(5, .jsonLines))
                == "tail -n +5 b.jsonl | apns-legacy send --format jsonl --port 2195 -- -"
        )
    }

    @Test func `only the value of --proxy loses a password`() {
        let alert = "See https://shop.example:443 or mail us@shop.example"
        let words = ["b.jsonl", "--proxy=socks5://user:secret@proxy:1080", "--alert", alert]
        let text = "apns-legacy send b.jsonl --proxy=socks5://user:PASSWORD@proxy:1080 --alert '\(alert)'"
        #expect(Self.command(words, input: "b.jsonl").sameCommand == text)
    }

    @Test func `results of the first part are kept`() {
        var command = Self.command(["b.jsonl", "--results", "r"], input: "b.jsonl")
        command.results = "r"
        command.exists = { $0 == "r.2" }
        #expect(command.rest(from: Self.position(5, .jsonLines)).hasSuffix("send --format jsonl - --results r.3"))
    }

    @Test func `words are quoted for a shell, and a password is not printed`() {
        let words = ["it's a $file.jsonl", "--proxy", "http://user:secret@proxy:3128", "--alert", ""]
        let command = Self.command(words, input: words[0])
        let text = #"apns-legacy send 'it'\''s a $file.jsonl' --proxy http://user:PASSWORD@proxy:3128 --alert ''"#
        #expect(command.sameCommand == text)
    }
}
