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
            ("help sned", #"apns-legacy help: unknown command "sned"; did you mean "send"?"#),
            ("help purge aply", #"apns-legacy help: unknown command "aply"; did you mean "apply"?"#),
            ("hlep", #"apns-legacy: unknown command "hlep"; did you mean "help"?"#),
            ("exit-codes", #"apns-legacy: unknown command "exit-codes"; did you mean "help exit-codes"?"#),
            ("help send extra", #"apns-legacy help: unexpected argument "extra""#),
            ("version", #"apns-legacy: unknown command "version"; did you mean "--version"?"#),
            ("help version", #"apns-legacy help: unknown command "version"; did you mean "--version"?"#),
            ("help exit-code", #"apns-legacy help: unknown command "exit-code"; did you mean "exit-codes"?"#),
        ]
    ) func `a misspelled command gets a suggestion`(_ words: String, _ line: String) async throws {
        try await Self.expect(words, line)
    }

    @Test(
        arguments: [
            ("send --cert a.pem b.jsonl", #"apns-legacy send: unknown option "--cert"; did you mean "--certificate"?"#),
            ("send --tokens-file a", #"apns-legacy send: unknown option "--tokens-file"; did you mean "--tokens"?"#),
            ("send --hots=a b.jsonl", #"apns-legacy send: unknown option "--hots"; did you mean "--host"?"#),
            (
                "send --passphrase a b.jsonl",
                #"apns-legacy send: unknown option "--passphrase"; did you mean "--passphrase-file"?"#
            ),
            (
                "send --cert-file a b.jsonl",
                #"apns-legacy send: unknown option "--cert-file"; did you mean "--certificate"?"#
            ),
            ("send --dryrun b.jsonl", #"apns-legacy send: unknown option "--dryrun"; did you mean "--dry-run"?"#),
            (
                "send --older-than 1d b.jsonl",
                #"apns-legacy send: unknown option "--older-than"; it is an option of "purge expire"; "#
                    + #"see "apns-legacy send --help""#
            ),
            (
                "purge --purge-list a list",
                #"apns-legacy purge: unknown option "--purge-list" before the command; "#
                    + #"did you mean "purge list --purge-list"?"#
            ),
            ("-v", #"apns-legacy: unknown option "-v"; did you mean "--version"?"#),
            ("-V", #"apns-legacy: unknown option "-V"; did you mean "--version"?"#),
            ("-v send", #"apns-legacy: unknown option "-v" before the command; did you mean "send -v"?"#),
            ("send -x b.jsonl", #"apns-legacy send: unknown option "-x"; see "apns-legacy send --help""#),
            ("gateway --conf a", #"apns-legacy gateway run: unknown option "--conf"; did you mean "--config"?"#),
            (
                "gateway check g.yaml",
                #"apns-legacy gateway check: unexpected argument "g.yaml"; did you mean "--config FILE"?"#
            ),
            (
                "gateway check h.yaml --config g.yaml",
                #"apns-legacy gateway check: unexpected argument "h.yaml"; see "apns-legacy gateway check --help""#
            ),
            (
                "purge import --purge-list=d a.csv b.csv",
                #"apns-legacy purge import: unexpected argument "b.csv"; see "apns-legacy purge import --help""#
            ),
            (
                "send b.jsonl host",
                #"apns-legacy send: unexpected argument "host"; did you mean "--host"?"#
            ),
        ]
    ) func `a misspelled option gets a suggestion`(_ words: String, _ line: String) async throws {
        try await Self.expect(words, line)
    }

    @Test(
        arguments: [
            (
                "send --format jsnl a", #"apns-legacy send: invalid value "jsnl" for --format; did you mean "jsonl"?"#
            ),
            (
                "send --environment prod a",
                #"apns-legacy send: invalid value "prod" for --environment; did you mean "production"?"#
            ),
            (
                "send --environment=live a",
                #"apns-legacy send: invalid value "live" for --environment; valid values: production, sandbox"#
            ),
            ("send --port abc a", #"apns-legacy send: invalid value "abc" for --port; expected a number"#),
            (
                "send --answer-timeout soon a",
                #"apns-legacy send: invalid value "soon" for --answer-timeout; "#
                    + "expected a number and ms, s, m, h, d or w, such as 30s"
            ),
            ("send a --host", "apns-legacy send: --host needs a value: --host <name>"),
            ("send --results= a", "apns-legacy send: --results needs a value: --results <file>"),
            ("purge list --purge-list= a", "apns-legacy purge list: --purge-list needs a value: --purge-list <file>"),
            (
                "send --metrics-file= --dry-run a",
                "apns-legacy send: --metrics-file needs a value: --metrics-file <file.prom>"
            ),
            ("send --window -1 a", "apns-legacy send: --window is -1; it must not be negative"),
            ("send --dry-run=yes a", #"apns-legacy send: --dry-run takes no value; remove "=yes""#),
            (
                "send",
                "apns-legacy send: nothing to send; name an INPUT file, or use --tokens FILE with --payload FILE or "
                    + "--alert TEXT"
            ),
            (
                "send a --topic com.\u{1B}example --transport http2",
                #"apns-legacy send: invalid value "com.<U+1B>example" for --topic; "#
                    + "expected a bundle identifier such as com.example.app"
            ),
            (
                "feedback --host a --certificate b --purge-list c --topic com.\u{7F}",
                #"apns-legacy feedback: invalid value "com.<U+7F>" for --topic; "#
                    + "expected a bundle identifier such as com.example.app"
            ),
            (
                "purge import --purge-list a --topic com.example/app b",
                #"apns-legacy purge import: invalid value "com.example/app" for --topic; "#
                    + "expected a bundle identifier such as com.example.app"
            ),
            (
                "purge list",
                #"apns-legacy purge list: missing option --purge-list <file>; see "apns-legacy purge list --help""#
            ),
            (
                "purge import --purge-list a",
                #"apns-legacy purge import: missing argument <input>; see "apns-legacy purge import --help""#
            ),
        ]
    ) func `the error for an invalid value names the expected form`(_ words: String, _ line: String) async throws {
        try await Self.expect(words, line)
    }

    @Test func `a misspelled device token is not shown`() async throws {
        let run = try await CommandRun(["purge", "list", "--purge-list", "a", "--token", "abcdefg123"])
        #expect(run.error == "apns-legacy purge list: invalid value for --token; expected hexadecimal or base64\n")
    }

    @Test(
        arguments: [
            ("send b.jsonl TOKEN", #"send: unexpected argument (a device token); see "apns-legacy send --help""#),
            ("send -- b.jsonl TOKEN", #"send: unexpected argument (a device token); see "apns-legacy send --help""#),
            ("send --port TOKEN b", "send: invalid value (a device token) for --port; expected a number"),
            (
                "send --dry-run TOKEN",
                "send: a device token in place of a file name; write it to a file, or to standard input with -"
            ),
            (
                "purge import --purge-list /nowhere/a TOKEN",
                "purge import: a device token in place of a file name; write it to a file, or to standard input with -"
            ),
            ("send --dry-run=TOKEN b", "send: --dry-run takes no value; remove (a device token)"),
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
        #expect(text.hasPrefix(#"apns-legacy: the file name "caf\xE9" is not UTF-8; rename the file"#), "\(text)")
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
                run.error.contains(#""level":"error","command":"send","message":"unknown option \"--cert\""#),
                "\(run)"
            )
        }
    }

    private static func expect(_ words: String, _ line: String) async throws {
        let run = try await CommandRun(words.split(separator: " ").map(String.init))
        #expect(run.code == 64 && run.output.isEmpty && run.error == line + "\n", "\(run)")
    }
}
