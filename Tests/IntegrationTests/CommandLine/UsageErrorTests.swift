// SPDX-License-Identifier: Apache-2.0

import Foundation
import TestSupport
import Testing

/// The errors for invalid command lines: one line, with what to do.
@Suite(.timeLimit(.minutes(2))) struct UsageErrorTests {
    @Test(
        arguments: [
            ("sned", #"apns-legacy: unknown command "sned"; did you mean "send"?"#),
            ("apply", #"apns-legacy: unknown command "apply"; did you mean "purge apply"?"#),
            ("frobnicate", #"apns-legacy: unknown command "frobnicate"; see "apns-legacy --help""#),
            ("purge aply", #"apns-legacy purge: unknown command "aply"; did you mean "apply"?"#),
            ("gateway chek", #"apns-legacy gateway: unknown command "chek"; did you mean "check"?"#),
            ("certificate new sever", #"apns-legacy certificate new: unknown command "sever"; did you mean "server"?"#),
            ("help send bogus", #"apns-legacy help: unexpected argument "bogus""#),
            ("help sned", #"apns-legacy help: unknown command "sned"; did you mean "send"?"#),
            ("help purge aply", #"apns-legacy help: unknown command "aply"; did you mean "apply"?"#),
            ("hlep", #"apns-legacy: unknown command "hlep"; did you mean "help"?"#),
            ("exit-codes", #"apns-legacy: unknown command "exit-codes"; did you mean "help exit-codes"?"#),
            ("version", #"apns-legacy: unknown command "version"; see "apns-legacy --help""#),
            ("help exit-code", #"apns-legacy help: unknown command "exit-code"; did you mean "exit-codes"?"#),
        ]
    ) func `a misspelled command gets a suggestion`(_ words: String, _ line: String) async throws {
        try await Self.expect(words, line)
    }

    @Test(
        arguments: [
            ("send --hots=a b.jsonl", "send: Unknown option '--hots'. Did you mean '--host'?"),
            ("send --dryrun b.jsonl", "send: Unknown option '--dryrun'. Did you mean '--dry-run'?"),
            ("send --older-than 1d b.jsonl", "send: Unknown option '--older-than'"),
            ("purge --purge-list a list", "purge: Unknown option '--purge-list'"),
            ("gateway --conf a", "gateway run: Missing expected argument '--config <file>'"),
            ("gateway check g.yaml", "gateway check: Missing expected argument '--config <file>'"),
            ("purge import --purge-list=d a.csv b.csv", "purge import: Unexpected argument 'b.csv'"),
            ("purge list", "purge list: Missing expected argument '--purge-list <file>'"),
            ("purge import --purge-list a", "purge import: Missing expected argument '<input>'"),
        ]
    ) func `the parser's errors have the name of the command before them`(_ words: String, _ text: String) async throws
    {
        try await Self.expect(words, "apns-legacy \(text)")
    }

    @Test(
        arguments: [
            (
                "send --format jsnl a",
                "apns-legacy send: The value 'jsnl' is invalid for '--format <format>'. Please provide one of 'jsonl', "
                    + "'csv' or 'tokens'."
            ),
            (
                "send --port abc a",
                "apns-legacy send: The value 'abc' is invalid for '--port <port>': expected a whole number"
            ),
            ("payload build --badge -1", "apns-legacy payload build: --badge must be 0 or more"),
            ("send --window 0 a", "apns-legacy send: --window must be from 1 to 10000000"),
            (
                "send --from-line -3 a",
                "apns-legacy send: The value '-3' is invalid for '--from-line <number>': expected a whole number, "
                    + "which is not negative"
            ),
            (
                "purge apply --purge-list a --max-fraction -0.1",
                "apns-legacy purge apply: --max-fraction must be from 0 to 1, such as 0.2 for 20 %"
            ),
            (
                "send --answer-timeout soon a",
                "apns-legacy send: The value 'soon' is invalid for '--answer-timeout <duration>': expected a number "
                    + "and ms, s, m, h, d or w, such as 30s"
            ),
            ("send a --host", "apns-legacy send: Missing value for '--host <name>'"),
            ("send --results= a", "apns-legacy send: --results needs a value; is a variable not set?"),
            (
                "purge list --purge-list= a",
                "apns-legacy purge list: --purge-list needs a value; is a variable not set?"
            ),
            (
                "send --dry-run=yes a",
                "apns-legacy send: The option '--dry-run' does not take any value, but 'yes' was specified."
            ),
            (
                "send",
                "apns-legacy send: nothing to send; name an INPUT file, or use --tokens FILE with --payload FILE or "
                    + "--alert TEXT"
            ),
            (
                "send a --topic com.\u{1B}example --transport http2",
                #"apns-legacy send: invalid value 'com.<U+1B>example' for --topic; "#
                    + "expected a bundle identifier such as com.example.app"
            ),
            (
                "feedback --host a --certificate b --purge-list c --topic com.\u{7F}",
                #"apns-legacy feedback: invalid value 'com.<U+7F>' for --topic; "#
                    + "expected a bundle identifier such as com.example.app"
            ),
            (
                "purge import --purge-list a --topic com.example/app b",
                #"apns-legacy purge import: invalid value 'com.example/app' for --topic; "#
                    + "expected a bundle identifier such as com.example.app"
            ),
        ]
    ) func `the error for an invalid value names its option`(_ words: String, _ line: String) async throws {
        try await Self.expect(words, line)
    }

    @Test func `a misspelled device token is not shown`() async throws {
        let run = try await CommandRun(["purge", "list", "--purge-list", "a", "--token", "abcdefg123"])
        let text = "The value (a device token) is invalid for '--token <token>': expected hexadecimal or base64"
        #expect(run.error == "apns-legacy purge list: \(text)\n")
    }

    @Test(
        arguments: [
            ("send b.jsonl TOKEN", "send: Unexpected argument (a device token)"),
            ("send -- b.jsonl TOKEN", "send: Unexpected argument (a device token)"),
            (
                "send --port TOKEN b",
                "send: The value (a device token) is invalid for '--port <port>': expected a whole number"
            ),
            (
                "send --dry-run TOKEN",
                "send: a device token in place of a file name; write it to a file, or to standard input with -"
            ),
            (
                "purge import --purge-list /nowhere/a TOKEN",
                "purge import: a device token in place of a file name; write it to a file, or to standard input with -"
            ),
            (
                "send --dry-run=TOKEN b",
                "send: The option '--dry-run' does not take any value, but (a device token) was specified."
            ),
            ("purge TOKEN", #"purge: unknown command (a device token); see "apns-legacy purge --help""#),
        ]
    ) func `a device token in a wrong place is not shown`(_ words: String, _ text: String) async throws {
        let bytes = [UInt8](0xE0...0xFF)
        let hexadecimal = bytes.map { String($0, radix: 16) }.joined()
        let base64 = Data(bytes).base64EncodedString()
        for token in [hexadecimal, hexadecimal.uppercased(), base64] {
            try await Self.expect(words.replacing("TOKEN", with: token), "apns-legacy \(text)")
        }
    }

    @Test func `JSON, an empty name and other bytes than UTF-8 in place of a file name are not looked for`()
        async throws
    {
        let json = #"{"aps":{"alert":"secret"}}"#
        let advice = "JSON in place of a file name; write it to a file, or to standard input with -"
        try await Self.expect("payload check \(json)", "apns-legacy payload check: \(advice)")
        try await Self.expect("send --dry-run \(json)", "apns-legacy send: \(advice)")
        let empty = try await CommandRun(["send", "--dry-run", ""])
        #expect(empty.error == "apns-legacy send: the name of the input is empty; is a variable not set?\n")
        let folder = try TemporaryFolder()
        let script =
            #"cd "$0"; name=$(printf 'caf\351'); : > "$name"; "$1" send "$name"; code=$?; rm "$name"; exit $code"#
        let error = folder.path + "/error"
        let streams = Child.Streams(output: folder.path + "/output", error: error)
        let arguments = ["-c", script, folder.path, try Child.program]
        let ending = try await Child(arguments, streams, program: "/bin/sh").end()
        let text = try String(contentsOfFile: error, encoding: .utf8)
        #expect(ending.code == 64, "\(text)")
        #expect(text.hasPrefix("apns-legacy: argument 2 is not UTF-8; rename the file"), "\(text)")
    }

    @Test(
        arguments: [
            (
                "purge apply --purge-list a --sql postgresql --table a --token-column b --ignore-registration",
                "purge apply: --summary json excludes statements on standard output; write them to a file with "
                    + "--sql-file FILE"
            ),
            (
                "purge export --purge-list a --format csv",
                "purge export: --summary json excludes --format csv on standard output; write the entries to a file "
                    + "with --output FILE, or use --format jsonl"
            ),
            (
                "purge export --purge-list a",
                "purge export: --summary json excludes --format text on standard output; write the entries to a file "
                    + "with --output FILE, or use --format jsonl"
            ),
            (
                "feedback --host a --certificate c --purge-list b --output csv",
                "feedback: --summary json excludes --output csv; use --output jsonl"
            ),
            (
                "gateway check --config a --print-config",
                "gateway check: --summary json and --print-config exclude each other; use one of them"
            ),
        ]
    ) func `a summary in JSON does not follow data in another format`(_ words: String, _ text: String) async throws {
        try await Self.expect(words + " --summary json", "apns-legacy \(text)")
    }

    @Test func `a summary in JSON follows JSON lines, or is alone`() async throws {
        let list = "--purge-list /nowhere/list --summary json"
        for words in [
            "purge apply --sql postgresql --table a --token-column b --ignore-registration --dry-run",
            "purge apply --sql postgresql --table a --token-column b --ignore-registration --sql-file /nowhere/a",
            "purge export --format jsonl", "purge export --format csv --output /nowhere/a",
        ] {
            let run = try await CommandRun("\(words) \(list)".split(separator: " ").map(String.init))
            #expect(run.code == 66 && run.output.hasSuffix("}\n"), "\(run)")
        }
    }

    @Test func `with messages in JSON, usage errors are JSON, too`() async throws {
        for words in [["send", "--cert", "a", "--log-format", "json"], ["send", "--log-format=json", "--cert", "a"]] {
            let run = try await CommandRun(words)
            #expect(run.code == 64 && run.output.isEmpty)
            #expect(
                run.error.contains(#""level":"error","command":"send","message":"Unknown option '--cert'"#),
                "\(run)"
            )
        }
    }

    private static func expect(_ words: String, _ line: String) async throws {
        let run = try await CommandRun(words.split(separator: " ").map(String.init))
        #expect(run.code == 64 && run.output.isEmpty && run.error == line + "\n", "\(run)")
    }
}
