// SPDX-License-Identifier: Apache-2.0

import Testing

@testable import APNSLegacyCommands

@Suite struct ContinueCommandTests {
    private static func command(_ words: [String], results: String? = nil) -> ContinueCommand {
        ContinueCommand(commandLine: ["apns-legacy", "send"] + words, results: results) { $0 == "r.2" }
    }

    @Test(
        arguments: [
            (["batch.jsonl", "--port", "2195"], "--from-line 1201 batch.jsonl --port 2195"),
            (["--", "-b.jsonl"], "--from-line 1201 -- -b.jsonl"),
            (["-v", "t", "--alert", "t"], "--from-line 1201 -v t --alert t"),
            (["--from-line", "7", "b.csv"], "--from-line 1201 b.csv"),
            (["b.csv", "--from-line=7"], "b.csv --from-line=1201"),
        ]
    ) func `the same command starts at another line`(_ words: [String], _ rest: String) {
        #expect(Self.command(words).rest(from: 1201) == "apns-legacy send \(rest)")
    }

    @Test func `results of the first part are kept`() {
        let command = Self.command(["b.jsonl", "--results", "r"], results: "r")
        #expect(command.rest(from: 5) == "apns-legacy send --from-line 5 b.jsonl --results r.3")
        let other = Self.command(["b.jsonl", "--results=r"], results: "r")
        #expect(other.rest(from: 5) == "apns-legacy send --from-line 5 b.jsonl --results=r.3")
    }

    @Test func `arguments are quoted for a shell`() {
        let command = Self.command(["it's a $file.jsonl", "--alert", "", "a\n'\u{1B}\\b"])
        let text = #"apns-legacy send 'it'\''s a $file.jsonl' --alert '' $'a\012\'\033\\b'"#
        #expect(command.sameCommand == text)
    }

    @Test func `only the password of a proxy is omitted`() {
        let alert = "See https://shop.example:443 or mail us@shop.example"
        for words in [["--proxy", "http://user:secret@proxy:3128"], ["--proxy=http://user:secret@proxy:3128"]] {
            let command = Self.command(["b.jsonl", "--alert", alert] + words)
            let proxy = words.joined(separator: " ").replacing("secret", with: "PASSWORD")
            #expect(command.sameCommand == "apns-legacy send b.jsonl --alert '\(alert)' \(proxy)")
            #expect(command.hidesPassword)
        }
        #expect(!Self.command(["b.jsonl", "--alert", alert]).hidesPassword)
    }
}
