// SPDX-License-Identifier: Apache-2.0

import HTTPTypes
import Testing

@testable import SimulatorService

/// Goal: no web page reaches a simulator through a browser, and remote access requires the token.
@Suite struct RequestGuardTests {
    static let token = "0123456789abcdef"

    private static func refusal(
        _ authority: String?,
        host: String = "127.0.0.1",
        path: String = "/",
        names: [String] = [],
        token: String? = nil,
        _ fields: HTTPFields = [:]
    ) -> Int? {
        var configuration = ControlConfiguration()
        configuration.host = host
        configuration.names = names
        configuration.token = token
        let head = HTTPRequest(method: .post, scheme: "http", authority: authority, path: path, headerFields: fields)
        return RequestGuard(configuration).refusal(head)?.status.code
    }

    @Test(arguments: ["localhost", "localhost:8080", "LOCALHOST:1", "127.0.0.1:8080", "[::1]:8080", "[::1]"])
    func `the names of the machine itself are accepted`(_ authority: String) {
        #expect(Self.refusal(authority) == nil)
    }

    @Test(
        arguments: [
            nil, "", "example.com", "example.com:8080", "localhost.example.com", "127.0.0.1.example.com:1", "127.0.0.2",
            "[::2]:1", "[::1].evil.com", "[::1]x", "[::1]:8080x", "localhost:80x", "localhost:80:80", "localhost.",
            "192.0.2.1:8080", "0.0.0.0", "[", "::", ":", "localhost@example.com",
        ]
    )
    func `another name is refused, and so is a missing one`(_ authority: String?) {
        #expect(Self.refusal(authority) == 421)
    }

    @Test func `the configured address and further names are accepted, in either letter case`() {
        #expect(Self.refusal("box.example:80", host: "192.0.2.7", names: ["Box.example"]) == nil)
        #expect(Self.refusal("192.0.2.7:80", host: "192.0.2.7") == nil)
        #expect(Self.refusal("192.0.2.8:80", host: "192.0.2.7") == 421)
    }

    @Test func `a wildcard listener accepts any address, but not any name`() {
        #expect(Self.refusal("192.0.2.7:80", host: "0.0.0.0") == nil)
        #expect(Self.refusal("[2001:db8::1]:80", host: "::") == nil)
        #expect(Self.refusal("example.com", host: "0.0.0.0") == 421)
    }

    @Test func `a page of another origin is refused`() {
        #expect(Self.refusal("localhost:8080", [.origin: "http://localhost:8080"]) == nil)
        for origin in ["http://localhost:8081", "http://example.com", "https://localhost:8080", "null", "", "file://"] {
            #expect(Self.refusal("localhost:8080", [.origin: origin]) == 403, "\(origin)")
        }
    }

    @Test func `a page of another site is refused in every way, except for a link to the page`() throws {
        let (site, mode) = (
            try #require(HTTPField.Name("Sec-Fetch-Site")), try #require(HTTPField.Name("Sec-Fetch-Mode"))
        )
        func refusal(_ siteValue: String, _ modeValue: String?, _ path: String) -> Int? {
            var fields: HTTPFields = [site: siteValue]
            fields[mode] = modeValue
            return Self.refusal("localhost:8080", path: path, fields)
        }
        for value in ["cross-site", "same-site", "Cross-Site"] {
            for path in ["/", "/notifications?wait=1s&text=secret", "/page/app.js"] {
                #expect(refusal(value, "no-cors", path) == 403)
                #expect(refusal(value, nil, path) == 403)
            }
            #expect(refusal(value, "navigate", "/notifications?text=secret") == 403)
            #expect(refusal(value, "navigate", "/?view=devices") == nil)
        }
        for value in ["same-origin", "none"] { #expect(refusal(value, "cors", "/notifications") == nil) }
    }

    @Test func `a token is required if configured, as a bearer token or a browser's password`() {
        func refusal(_ header: String?) -> Int? {
            Self.refusal("localhost", token: Self.token, header.map { [.authorization: $0] } ?? [:])
        }
        #expect(refusal("Bearer \(Self.token)") == nil)
        #expect(refusal("bearer  \(Self.token)") == nil)
        // ":0123456789abcdef" and "me:0123456789abcdef"
        #expect(refusal("Basic OjAxMjM0NTY3ODlhYmNkZWY=") == nil)
        #expect(refusal("Basic bWU6MDEyMzQ1Njc4OWFiY2RlZg==") == nil)
        for header in [
            nil, "", "Bearer", "Bearer ", "Bearer 0123456789abcdee", "Bearer 0123456789abcdef0", "Basic", "Basic !",
            "Basic MDEyMzQ1Njc4OWFiY2RlZg==", Self.token, "Digest \(Self.token)",
        ] {
            #expect(refusal(header) == 401, "\(header ?? "none")")
        }
    }

    @Test(arguments: [("127.0.0.1", true), ("::1", true), ("localhost", true), ("127.9.9.9", true)])
    func `loopback addresses are recognized`(_ host: String, _ isLoopback: Bool) {
        var configuration = ControlConfiguration()
        configuration.host = host
        #expect(configuration.isLoopback == isLoopback)
    }

    @Test(arguments: ["0.0.0.0", "::", "192.0.2.1", "127.example.com", "localhost.example.com", "example.com"])
    func `other addresses are not mistaken for loopback ones`(_ host: String) {
        var configuration = ControlConfiguration()
        configuration.host = host
        #expect(!configuration.isLoopback)
    }
}
