// SPDX-License-Identifier: Apache-2.0

import APNSFeedback
import APNSJSON
import APNSPayload
import APNSServer
import APNSTransport
import APNSWire
import Batch
import GatewayService
import OpenSSLTLS
import Testing

@testable import APNSLegacyCommands

@Suite struct DiagnosticTests {
    @Test func `an error has the name of the command before it, and a warning its label`() {
        #expect(Diagnostic.error("a table is missing").label(command: "purge apply") == "apns-legacy purge apply:")
        #expect(Diagnostic.error("a").label(command: "") == "apns-legacy:")
        #expect(Diagnostic.warning("--grace is short").label(command: "purge apply") == "Warning:")
        let note: Diagnostic = "2 notifications in 0.1 s"
        #expect(note.level == .info && note.label(command: "send") == nil && note.place == nil)
        #expect(Diagnostic(.warning, "Stopped early, after line 3").label(command: "send") == nil)
    }

    @Test func `advice follows the sentence, and the subject is before it`() {
        let diagnostic = Diagnostic(.error, "connection refused", advice: "is the gateway running there?")
        #expect(diagnostic.text == "connection refused; is the gateway running there?")
        #expect(diagnostic.about("a.pem").text == "a.pem: connection refused; is the gateway running there?")
    }

    @Test func `the place of an invalid line is its file, line and column`() {
        let problem = BatchProblem(.missingToken, lineNumber: 3, column: 9)
        let diagnostic = Diagnostic(.warning, at: .init(problem, in: "a.jsonl"), "\(problem.kind)")
        #expect(diagnostic.text == "a.jsonl, \(problem)")
        let json = diagnostic.json(command: "send")
        #expect(json.contains(#""file":"a.jsonl","line":3,"column":9}"#), "\(json)")
    }

    @Test func `the address of a failed connection is its host and port`() {
        let failure = ConnectionFailure(.refused, "connection to [::1]:2195 refused", advice: "is it running?")
        let endpoint = Endpoint(host: "::1", port: 2195)
        let diagnostic = Diagnostic(.warning, failure, to: endpoint).about("Retrying")
        #expect(diagnostic.text == "Retrying: connection to [::1]:2195 refused; is it running?")
        #expect(diagnostic.json(command: "send").hasSuffix(#""host":"::1","port":2195}"#))
    }

    @Test func `an error that ends a command has its exit code, and other messages have none`() {
        var failure = CommandFailure(.noInput, at: .init(file: "a.csv", line: 3), "cannot be read")
        #expect(failure.diagnostic.json(command: "send").contains(#""exitCode":66,"file":"a.csv","line":3}"#))
        failure.diagnostic.place = nil
        #expect(failure.diagnostic.code == .noInput && failure.diagnostic.about("a").code == .noInput)
        failure.diagnostic = .error("another")
        #expect(failure.diagnostic.code == .noInput)
        #expect(!Diagnostic.error("a line is wrong").json(command: "send").contains("exitCode"))
    }

    @Test func `errors of lower layers keep their place or address`() throws {
        let endpoint = Endpoint(host: "h1", port: 2196)
        #expect(CommandFailure(FeedbackError.refused(endpoint)).diagnostic.endpoint == endpoint)
        let listen = CommandFailure(ServerError.listen(host: "h1", port: 2196, detail: "in use"))
        #expect(listen.diagnostic.endpoint == endpoint && listen.status == .unavailable)
        let configuration = CommandFailure(GatewayFailure.line(path: "g.yaml", 7, "feedbak: unknown key feedbak"))
        #expect(configuration.diagnostic.place == .init(file: "g.yaml", line: 7))
        #expect(configuration.description == "g.yaml, line 7: feedbak: unknown key feedbak")
        let payload = #expect(throws: PayloadProblem.self) {
            try Payload(bytes: Array(#"{"aps":1}"#.utf8)).check(rules: .binary)
        }
        let problem = try #require(payload)
        let failure = CommandFailure(.dataError, at: .init(problem, in: "p.json"), "\(problem.kind)")
        #expect(failure.description == "p.json, \(problem)" && failure.diagnostic.place?.line == 1)
    }

    @Test func `JSON is one line for any text`() {
        var message = Diagnostic(.notice, "a \"text\"\n\u{1B}[31m")
        message.fields = [("apns.legacy.connection.id", "1\n2")]
        let json = message.json(command: "send")
        #expect(
            json.hasPrefix(#"{"time":"20"#) && json.hasSuffix(#""apns.legacy.connection.id":"1\u000a2"}"#),
            "\(json)"
        )
        #expect(json.contains(#""level":"notice","command":"send","message":"a \"text\"\u000a\u001b[31m""#), "\(json)")
        #expect(!json.unicodeScalars.contains { $0.value < 0x20 })
    }

    @Test func `a summary adds counts to counts`() {
        let summary = CommandSummary()
        summary.set("lists", 0)
        for _ in 1...2 { summary.add("lists", 3) }
        summary.add("tokens", UInt64.max)
        summary.set(JSONObject { $0.add("done", true) })
        let json = summary.json(command: "feedback", .success)
        let counts = #""lists":6,"tokens":9223372036854775807,"done":true"#
        #expect(json == #"{"command":"feedback","exitCode":0,\#(counts)}"#)
    }

    // MARK: Command lines

    @Test(arguments: [
        ("purge apply --dry-run", "purge apply", nil), ("gateway --config a", "gateway run", nil),
        ("gateway --help", "gateway", nil), ("certificate new sever", "certificate new", "sever"),
        ("-v send", "", nil), ("send apply", "send", nil),
    ])
    func `the command of a command line is known without the parser`(_ line: String, _ name: String, _ unknown: String?)
    {
        let command = NamedCommand(line.split(separator: " ").map(String.init))
        #expect(command.words.joined(separator: " ") == name && command.unknown == unknown)
    }

    @Test func `a line of the parser contains no device token, and no control characters`() {
        let token = String(repeating: "0f", count: 32)
        let line = NamedCommand.line(
            "2 unexpected arguments: '\(token)', 'a\u{1B}'\n  or: '\(token)'",
            ["send", token, "--dry-run=\(token)"]
        )
        #expect(line == "2 unexpected arguments: (a device token), 'a<U+1B>' or: (a device token)")
        #expect(NamedCommand.line("The value 'xyz' is invalid", ["--token", "xyz"]).contains("(a device token)"))
        let option = NamedCommand.line("Unknown option '--\(token)'", ["--\(token)"])
        #expect(option == "Unknown option '--(a device token)'")
        let long = String(repeating: "x", count: 100)
        let argument = NamedCommand.line("Unexpected argument '\(long)'", [long])
        #expect(argument == "Unexpected argument '\(long.prefix(64))...'")
    }
}
