// SPDX-License-Identifier: Apache-2.0

import Testing

@testable import APNSLegacyCommands

@Suite struct ConsoleMessageTests {
    @Test func `a line that starts with the name of the command is an error`() {
        let error = ConsoleMessage(line: "apns-legacy purge apply: a table is missing", command: "purge apply")
        #expect(error.level == .error && error.text == "a table is missing")
        let warning = ConsoleMessage(line: "Warning: --grace is short", command: "purge apply")
        #expect(warning.level == .warning && warning.text == "--grace is short")
        let note = ConsoleMessage(line: "2 notifications in 0.1 s", command: "send")
        #expect(note.level == .info && note.text == "2 notifications in 0.1 s" && note.file == nil)
    }

    @Test func `places are fields`() {
        let bad = ConsoleMessage("batch.jsonl, line 3, column 126: aps.badge is a string, expected a number")
        #expect(bad.file == "batch.jsonl" && bad.line == 3 && bad.column == 126)
        let line = ConsoleMessage("tokens, line 7: invalid device token")
        #expect(line.file == "tokens" && line.line == 7 && line.column == nil)
        let host = ConsoleMessage("connection to localhost:2195 refused; is the gateway running there?")
        #expect(host.host == "localhost" && host.port == 2195)
        let address = ConsoleMessage("connection to [::1]:2195 refused")
        #expect(address.host == "::1" && address.port == 2195)
    }

    @Test(arguments: [
        "stopped at 12:30", "stopped on 2026:11", "the format h:8080 is unknown", "batch.jsonl: into localhost:80",
        "connection to localhost:0 refused", "connection to localhost:65536 refused", "connection to [::zz]:80 refused",
        "connection to [12]:80 refused",
    ])
    func `other texts are not a host and port`(text: String) {
        let message = ConsoleMessage(text)
        #expect(message.host == nil && message.port == nil, "\(message)")
    }

    @Test(arguments: [
        ("at 12:30, connection to h1:65535 refused", "h1", 65_535), ("proxy 192.0.2.1:1 is busy", "192.0.2.1", 1),
        ("cannot listen on [2001:db8::1]:80", "2001:db8::1", 80),
        ("cannot listen on h.example port 80", "h.example", 80),
    ])
    func `a host is a name or an address`(text: String, host: String, port: Int) {
        let message = ConsoleMessage(text)
        #expect(message.host == host && message.port == port, "\(message)")
    }

    @Test(arguments: [
        "Retrying: connection to localhost:2195 refused", "Stopped at once: 2 notifications may have arrived",
        "Stopped early, after line 3; to start again, run the same command.",
    ])
    func `messages about incomplete runs are warnings`(line: String) {
        let message = ConsoleMessage(line: line, command: "send")
        #expect(message.level == .warning && message.text == line)
    }

    @Test func `JSON is one line for any text`() {
        var message = ConsoleMessage("a \"text\"\n\u{1B}[31m", .notice)
        message.fields = [("push.connection.id", "1\n2")]
        let json = message.json(command: "send")
        #expect(json.hasPrefix(#"{"time":"20"#) && json.hasSuffix(#""push.connection.id":"1\u000a2"}"#), "\(json)")
        #expect(json.contains(#""level":"notice","command":"send","message":"a \"text\"\u000a\u001b[31m""#), "\(json)")
        #expect(!json.unicodeScalars.contains { $0.value < 0x20 })
    }
}
