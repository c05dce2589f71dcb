// SPDX-License-Identifier: Apache-2.0

import APNSProviderHTTP2
import APNSWire
import ArgumentParser
import Testing

@testable import APNSLegacyCommands

@Suite struct SendHTTP2OptionsTests {
    private static let key = ["--p8-key", "k.p8", "--key-id", "KEY0000001", "--team-id", "TEAM000001"]

    @Test(
        arguments: [
            (["--topic", "a"], "--topic needs --purge-list FILE or --transport http2"),
            (["--push-type", "alert"], "--push-type needs --transport http2"),
            (key + ["--topic", "a"], "--p8-key needs --transport http2"),
            (["--transport", "http2"] + key, "--p8-key needs --topic"),
            (["--transport", "http2", "--topic", "a", "--key-id", "KEY0000001"], "must be used together"),
            (
                ["--transport", "http2", "--topic", "a", "--certificate", "c.pem"] + key,
                "--certificate and --p8-key exclude each other"
            ),
            (["--transport", "http2", "--push-type", "lert"], "--push-type"),
            (["--transport", "http3"], "--transport"),
        ] as [([String], String)]
    ) func `incompatible options are an error`(_ arguments: [String], _ text: String) throws {
        let error = #expect(throws: (any Error).self) { try EndpointOptionsTests.command(arguments) }
        #expect(ApnsLegacyCommand.fullMessage(for: try #require(error)).contains(text))
        #expect(ApnsLegacyCommand.exitCode(for: try #require(error)).rawValue == ExitStatus.usage.rawValue)
    }

    @Test func `port and host are those of the HTTP/2 service unless given`() throws {
        let options = ["--transport", "http2", "--environment", "sandbox"]
        let endpoint = try EndpointOptionsTests.endpoint(options, .http2)
        #expect(endpoint.host == "api.sandbox.push.apple.com" && endpoint.port == 443)
        let other = try EndpointOptionsTests.endpoint(options + ["--port", "2197"], .http2)
        #expect(other.port == 2197)
    }

    @Test(arguments: [CompletionShell.bash, .zsh, .fish]) func `completion contains the values`(
        _ shell: CompletionShell
    ) {
        let script = ApnsLegacyCommand.completionScript(for: shell)
        let words = Set(script.split { !$0.isLetter && !$0.isNumber && $0 != "-" }.map(String.init))
        let values = ["binary", "http2", "at-most-once", "production", "sandbox"] + PushType.allValueStrings
        #expect(values.filter { !words.contains($0) } == [])
    }

    @Test func `help contains the status words`() {
        let help = ApnsLegacyCommand.helpMessage(for: SendCommand.self, columns: 10_000)
        for word in ["BadDeviceToken", "410 Unregistered", "429 or 5xx", "binary, http2"] {
            let isNamed = help.contains(word)
            #expect(isNamed, "\(word)")
        }
    }
}
