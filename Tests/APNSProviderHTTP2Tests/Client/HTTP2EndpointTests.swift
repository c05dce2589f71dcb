// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import APNSTestKit
import Foundation
import OpenSSLTLS
import Testing

@testable import APNSProviderHTTP2

/// Goal: a configuration for HTTP/2 reaches a service of HTTP/2, and is one line.
@Suite(.timeLimit(.minutes(1))) struct HTTP2EndpointTests {
    @Test func `production and development are Apple's services of HTTP/2`() throws {
        let identity = try PushFixture.provider.get().identity
        #expect(PushClientConfiguration.http2(.production, identity: identity).description == "api.push.apple.com:443")
        #expect(
            PushClientConfiguration.http2(.development, identity: identity).description
                == "api.sandbox.push.apple.com:443"
        )
        #expect(HTTP2Endpoint.apple(.production) == .production && HTTP2Endpoint.apple(.sandbox) == .development)
        #expect(HTTP2Endpoint.production.authority == "api.push.apple.com")
        #expect(HTTP2Endpoint(host: "::1", port: HTTP2Endpoint.alternatePort).authority == "[::1]:2197")
    }

    @Test func `an endpoint is stored as its host and port`() throws {
        let json = try JSONEncoder().encode(HTTP2Endpoint(host: "localhost", port: 2197))
        #expect(
            try JSONDecoder().decode(HTTP2Endpoint.self, from: json) == HTTP2Endpoint(host: "localhost", port: 2197)
        )
    }

    @Test func `a .p8 file makes a configuration in one line`() throws {
        let file = FileManager.default.temporaryDirectory.appending(path: "\(UUID().uuidString).p8").path
        try Data(PushFixture.provider.get().keyPEM).write(to: URL(filePath: file))
        defer { try? FileManager.default.removeItem(atPath: file) }
        let topic = PushFixture.topic
        var source: ProviderTokenSource?
        let configuration = try PushClientConfiguration.http2(
            .production,
            p8: file,
            keyID: "ABC123DEFG",
            teamID: "DEF123GHIJ",
            topic: topic
        ) { configuration, requests in
            source = configuration.providerToken
            #expect(requests.topic == topic)
        }
        #expect(configuration.description == "api.push.apple.com:443")
        #expect(source?.key.key == (try PushFixture.signer.get()))
        #expect(source?.description == "provider tokens by key ABC123DEFG of team DEF123GHIJ")

        var error = #expect(throws: ProviderError.self) {
            try PushClientConfiguration.http2(.production, p8: file, keyID: "short", teamID: "DEF123GHIJ", topic: topic)
        }
        #expect(error?.kind == .configuration)
        error = #expect(throws: ProviderError.self) {
            try PushClientConfiguration.http2(
                .production,
                p8: file + "x",
                keyID: "ABC123DEFG",
                teamID: "DEF123GHIJ",
                topic: topic
            )
        }
        guard case .tls(.fileUnreadable)? = error?.kind else {
            Issue.record("\(String(describing: error))")
            return
        }
    }
}
