// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import NIOCore
import Testing

@testable import APNSLegacyCommands

/// Apple's host names of the services that it shut down, as different networks resolve them.
@Suite struct HostCheckTests {
    private static func failure(_ host: String, _ purpose: HostCheck.Purpose, _ address: String?) -> String? {
        let addresses = address.flatMap { try? SocketAddress(ipAddress: $0, port: 0) }.map { [$0] } ?? []
        do throws(CommandFailure) {
            try HostCheck.check(Endpoint(host: host, port: 2195), purpose, addresses: { _ in addresses })
            return nil
        } catch {
            return error.description
        }
    }

    @Test(arguments: ["127.0.0.1", "10.1.2.3", "172.20.0.1", "192.168.1.1", "100.64.0.1", "::1", "fd00::1"])
    func `a private gateway may have Apple's host name`(address: String) {
        #expect(Self.failure("gateway.push.apple.com", .gateway, address) == nil)
        #expect(Self.failure("feedback.push.apple.com", .feedback, address) == nil)
    }

    @Test(arguments: ["17.188.138.72", "172.32.0.1", "100.128.0.1", "2620:149:208:4310::1", nil])
    func `Apple's own services are reported as shut down`(address: String?) {
        let production = Self.failure("Gateway.Push.Apple.com", .gateway, address)
        #expect(production?.contains("2021-03-31") == true)
        #expect(production?.contains("--transport http2 --environment production") == true)
        let sandbox = Self.failure("gateway.sandbox.push.apple.com", .gateway, address)
        #expect(sandbox?.contains("--transport http2 --environment sandbox") == true)
        for host in ["feedback.push.apple.com", "feedback.push.apple.com."] {
            #expect(Self.failure(host, .feedback, address)?.contains("2021-03-31") == true)
        }
        #expect(Self.failure("GATEWAY.push.apple.com.", .gateway, address)?.contains("2021-03-31") == true)
    }

    @Test func `Apple's HTTP/2 service is accepted only for HTTP/2`() {
        #expect(Self.failure("api.push.apple.com", .http2, nil) == nil)
        for host in ["api.push.apple.com", "api.push.apple.com."] {
            #expect(Self.failure(host, .gateway, nil)?.hasSuffix("add --transport http2") == true)
        }
        #expect(Self.failure("gateway.example.com", .gateway, nil) == nil)
    }

    @Test(arguments: [
        (".example.com", "is not a host name"), ("localhost:2195", "use --host localhost --port 2195"),
        ("[::1]", "use --host ::1"),
        ("[::1]:2195", "use --host ::1 --port 2195"), ("https://a.example/x", "use --host a.example"),
        ("tls://a.example:1", "use --host a.example --port 1"), ("a b", "is not a host name"), ("", "is empty"),
        ("a.example:", "ends with a colon, and the port is missing; use --host a.example --port NUMBER"),
        ("[::1]:", "ends with a colon, and the port is missing; use --host ::1 --port NUMBER"),
    ])
    func `the error for a host with more than a name suggests the right options`(
        host: String,
        text: String
    ) {
        let error = #expect(throws: CommandFailure.self) { try HostCheck.checkText(host) }
        #expect(error?.description.hasPrefix("--host \(host)") == true && error?.description.contains(text) == true)
    }

    @Test(arguments: [
        ("https://user:secret@h.example/", "use --host h.example"),
        ("https://user:sec@ret@h.example:2195/x", "use --host h.example --port 2195"),
        ("https://user:sec/ret@h.example", "use --host h.example"), ("user:secret@h.example", "use --host h.example"),
        ("secret@[::1]:2195", "use --host ::1 --port 2195"), ("user:secret@", "give a host name or an IP address"),
    ])
    func `a user name and a password are not shown`(host: String, text: String) {
        let error = #expect(throws: CommandFailure.self) { try HostCheck.checkText(host) }
        #expect(error?.description == "--host contains @, expected a host name; \(text)")
    }

    @Test(arguments: ["localhost", "::1", "2001:db8::1", "192.0.2.1", "gateway.example.com"])
    func `a host name or an address is accepted`(host: String) throws { try HostCheck.checkText(host) }
}
