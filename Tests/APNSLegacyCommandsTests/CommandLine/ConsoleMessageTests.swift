// SPDX-License-Identifier: Apache-2.0

import Testing

@testable import APNSLegacyCommands

@Suite struct ConsoleMessageTests {
    @Test func `what begins with the name of the command is an error`() {
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

    @Test func `JSON is one line, whatever the text has`() {
        var message = ConsoleMessage("a \"text\"\n\u{1B}[31m", .notice)
        message.fields = [("push.connection.id", "1\n2")]
        let json = message.json(command: "send")
        #expect(json.hasPrefix(#"{"time":"20"#) && json.hasSuffix(#""push.connection.id":"1\u000a2"}"#), "\(json)")
        #expect(json.contains(#""level":"notice","command":"send","message":"a \"text\"\u000a\u001b[31m""#), "\(json)")
        #expect(!json.unicodeScalars.contains { $0.value < 0x20 })
    }
}
