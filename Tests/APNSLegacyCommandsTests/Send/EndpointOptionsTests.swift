// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import APNSWire
import ArgumentParser
import OpenSSLTLS
import Testing

@testable import APNSLegacyCommands

@Suite struct EndpointOptionsTests {
    static func command(_ arguments: [String]) throws -> SendCommand {
        try SendCommand.parse(["a.jsonl"] + arguments)
    }

    static func endpoint(_ arguments: [String], _ purpose: HostCheck.Purpose) throws -> Endpoint {
        let command = try self.command(arguments)
        return try command.endpoint.endpoint(purpose, command.client)
    }

    @Test func `host, port and environment determine the gateway`() throws {
        let host = try Self.endpoint(["--host", "push.example.com", "--port", "2200"], .gateway)
        #expect(host.host == "push.example.com" && host.port == 2200)
        for (environment, name) in [("production", "api.push.apple.com"), ("sandbox", "api.sandbox.push.apple.com")] {
            let service = try Self.endpoint(["--environment", environment], .http2)
            #expect(service.host == name && service.port == 443)
            // Apple shut down the binary service with this name.
            let failure = Self.failure {
                _ = try Self.endpoint(["--environment", environment], .gateway)
            }
            #expect(failure?.status == .unavailable)
        }
        #expect(Self.failure { _ = try Self.endpoint([], .gateway) }?.status == .usage)
    }

    @Test(
        arguments: [
            "http://proxy:3128", "http://proxy:3128/", "http://user:pass@proxy:3128", "http://user:p@ss:word@proxy:1",
            "socks5://10.0.0.1:1080",
        ]
    ) func `a proxy has a kind, a host, a port, and may have credentials`(_ text: String) throws {
        let proxy = try #require(
            try Self.command(["--host", "a", "--proxy", text]).client.connection.proxyValue
        )
        #expect(proxy.kind == (text.hasPrefix("socks5") ? .socks5 : .http))
        #expect(["proxy", "10.0.0.1"].contains(proxy.endpoint.host))
        #expect((proxy.credentials != nil) == text.contains("@"))
        if text.contains("p@ss") { #expect(proxy.credentials?.password == "p@ss:word") }
    }

    @Test(
        arguments: [
            "proxy:3128", "ftp://proxy:1", "http://proxy", "http://proxy:0", "http://proxy:65536", "http://:80",
            "http://user@proxy:80", "socks5://user:pass@proxy:80", "http://proxy:eighty", "",
        ]
    ) func `any other text is not a proxy`(_ text: String) {
        #expect(throws: (any Error).self) { try Self.command(["--host", "a", "--proxy", text]) }
    }

    @Test(
        arguments: [
            ["--environment", "sandbox", "--host", "a"], ["--host", "a", "--port", "0"],
            ["--host", "a", "--port", "65536"], ["--host", "a", "--tls-min", "1.4"], ["--environment", "staging"],
        ]
    ) func `incompatible options are rejected`(_ arguments: [String]) {
        #expect(throws: (any Error).self) { try Self.command(arguments) }
    }

    @Test func `every version of TLS can be the minimum`() throws {
        let versions: [(String, TLSVersion)] = [
            ("1.0", .tls1_0), ("1.1", .tls1_1), ("1.2", .tls1_2), ("1.3", .tls1_3),
        ]
        for (text, version) in versions {
            let command = try Self.command(["--host", "a", "--tls-min", text])
            #expect(try command.endpoint.tls(command.client).versionMin == version)
        }
    }

    @Test func `a key without a certificate is rejected`() throws {
        let command = try Self.command(["--host", "a", "--key", "k.pem"])
        #expect(Self.failure { _ = try command.endpoint.tls(command.client) }?.status == .usage)
    }

    @Test func `the help names every command and every option`() {
        let root = ApnsLegacyCommand.helpMessage()
        for command in ["quickstart", "send"] { #expect(root.contains(command)) }
        let help = ApnsLegacyCommand.helpMessage(for: SendCommand.self)
        for option in [
            "--environment", "--host", "--port", "--certificate", "--key", "--passphrase-file", "--trust", "--tls-min",
            "--proxy", "--format", "--tokens", "--payload", "--alert", "--payload-max", "--command", "--connections",
            "--delivery", "--window", "--stop-after-invalid-tokens", "--give-up-after", "--journal", "--dry-run",
            "--results", "--results-only-exceptions", "--summary", "--quiet", "--verbose",
        ] { #expect(help.contains("  \(option)") || help.contains(", \(option)"), "\(option)") }
        for code in [0, 1, 64, 65, 66, 69, 70, 73, 74, 75, 77, 78] { #expect(help.contains("\(code)")) }
    }

    /// The error that an operation throws; `nil` if it succeeds.
    private static func failure(_ body: () throws -> Void) -> CommandFailure? {
        do {
            try body()
            return nil
        } catch {
            return CommandFailure(error)
        }
    }
}
