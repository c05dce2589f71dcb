// SPDX-License-Identifier: Apache-2.0

import Testing

@testable import GatewayService

/// Goal: exactly the changed keys that require a restart are named.
@Suite struct KeysForRestartTests {
    private static func file(_ text: String) throws -> GatewayFile {
        try GatewayFile(
            yaml: """
                server: {certificate: \(text.contains("server") ? "b" : "a")}
                feedback: \(text.contains("feedback") ? "b" : "a")
                providers:
                  - {name: shop, clients: {authority: a}, environment: sandbox, upstream: {certificate: a}}
                \(text.contains(":") ? text : "")
                """
        )
    }

    @Test(
        arguments: [
            ("listen: {host: h}", "listen.host"), ("listen: {ciphers: ALL}", "listen.ciphers"),
            ("listen: {tlsMaximum: \"1.3\"}", "listen.tlsMaximum"), ("limits: {idle: 1h}", "limits.idle"),
            ("limits: {unauthenticatedPerAddress: 9}", "limits.unauthenticatedPerAddress"),
            ("limits: {inFlightPerConnection: 9}", "limits.inFlightPerConnection"),
            ("limits: {outcome: 7m}", "limits.outcome"), ("limits: {handshake: 7s}", "limits.handshake"),
            ("admin: {host: h}", "admin.host"), ("admin: off", "admin"), ("log: error", "log"),
            ("feedback", "feedback"),
        ]
    )
    func `a key that requires a restart is named`(_ text: String, _ key: String) throws {
        #expect(try Self.file(text).keysForRestart(since: try Self.file("")) == [key])
        #expect(try Self.file("").keysForRestart(since: try Self.file(text)) == [key])
        #expect(try Self.file(text).keysForRestart(since: try Self.file(text)).isEmpty)
    }

    @Test func `an earlier name of a key is the same key`() throws {
        let (file, new) = (try Self.file("limits: {verdict: 7m}"), try Self.file("limits: {outcome: 7m}"))
        #expect(file.keysForRestart(since: new).isEmpty)
        #expect(file.limits.outcome == .seconds(420))
    }

    @Test func `a key that takes effect immediately is not named`() throws {
        #expect(try Self.file("server").keysForRestart(since: try Self.file("")).isEmpty)
    }
}
