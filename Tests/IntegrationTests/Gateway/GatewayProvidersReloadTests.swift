// SPDX-License-Identifier: Apache-2.0

import APNSServer
import APNSTestKit
import APNSWire
import Foundation
import NIOConcurrencyHelpers
import NIOCore
import OpenSSLTLS
import Testing

/// Goal: SIGHUP applies changes of providers; a provider that was removed is disconnected in order and loses nothing.
@Suite(.timeLimit(.minutes(5))) struct GatewayProvidersReloadTests {
    /// Changes the configuration and reloads it.
    private static func change(_ gateway: GatewayProgram, _ text: String, to other: String) async throws {
        let yaml = gateway.folder.read("gateway.yaml")
        #expect(yaml.contains(text))
        try gateway.folder.write("gateway.yaml", Array(yaml.replacing(text, with: other).utf8))
        gateway.child.send(SIGHUP)
        try await gateway.lines("configuration reloaded")
    }

    @Test
    func
        `a certificate moved to another provider gets status 10, and the old one delivers accepted notifications`()
        async throws
    {
        let isWell = NIOLockedValueBox(false)
        let upstream = GatewayUpstream { number, _ in
            let trouble = PushRejection(status: 503, reason: .serviceUnavailable)
            return number < 4 || isWell.withLockedValue { $0 } ? .accepted : .rejected(trouble)
        }
        let ending = try await upstream.withGateway { gateway in
            try await gateway.connect { provider in
                try await provider.send(try GatewayProgram.frames(1...6))
                try await upstream.wait(count: 6)
                // The upstream fails, so the notifications are retried after the change.
                try await Self.change(gateway, "name: shop", to: "name: store")
                try await provider.send(try GatewayProgram.frames(7...9))
                isWell.withLockedValue { $0 = true }
                #expect(try await provider.end().bytes == GatewayProgram.response(.shutdown, 6))
            }
            try await gateway.connect { provider in
                try await provider.send(try GatewayProgram.frames(7...9))
                try await provider.send(try GatewayProgram.probe(10))
                #expect(try await provider.end().bytes == GatewayProgram.response(.missingDeviceToken, 10))
            }
        }
        #expect(ending.code == 0, "\(ending)")
        #expect(upstream.accepted == Set(1...9))
        #expect(upstream.counts.filter { !(4...6).contains($0.key) }.allSatisfy { $0.value == 1 })
    }

    @Test func `the connection of a removed provider ends, and it is not admitted again`() async throws {
        let upstream = GatewayUpstream()
        let other = try CertificateAuthority(name: "Other")
        let ending = try await upstream.withGateway { gateway in
            try gateway.folder.write("other.pem", other.certificatePEM)
            try await gateway.connect { provider in
                try await provider.send(try GatewayProgram.frames(1...5))
                try await upstream.wait(count: 5)
                try await Self.change(gateway, "{authority: ca.pem}", to: "{authority: other.pem}")
                let ending = try await provider.end()
                #expect([GatewayProgram.response(.shutdown, 5), []].contains(ending.bytes))
                // Without a response, more of what the provider writes may be on its way.
                #expect(ending.hasCloseNotify == !ending.bytes.isEmpty)
            }
            try await gateway.lines("provider no longer admitted")
            #expect(try await gateway.connect { try await $0.end().bytes } == [])
            let new = try other.issueClient(topic: GatewayProgram.topic)
            #expect(try await gateway.serves(new.identity))
        }
        #expect(ending.code == 0, "\(ending)")
    }

    @Test func `revoking a certificate ends its open connection, and no other`() async throws {
        let upstream = GatewayUpstream()
        let ending = try await upstream.withGateway(clients: "{authority: ca.pem, revocations: crl.pem}") {
            try $0.write("crl.pem", try $0.authority.revocationList(of: []))
        } _: { gateway in
            let authority = gateway.folder.authority
            let other = try authority.issueClient(topic: GatewayProgram.topic)
            try await gateway.connect(other.identity) { otherProvider in
                try await gateway.connect { provider in
                    try await provider.send(try GatewayProgram.frames(1...5))
                    try await upstream.wait(count: 5)
                    let revoked = gateway.folder.provider.identity.certificate
                    try gateway.folder.write("crl.pem", try authority.revocationList(of: [revoked]))
                    gateway.child.send(SIGHUP)
                    let ending = try await provider.end()
                    #expect([GatewayProgram.response(.shutdown, 5), []].contains(ending.bytes))
                    // Without a response, more of what the provider writes may be on its way.
                    #expect(ending.hasCloseNotify == !ending.bytes.isEmpty)
                }
                try await gateway.lines("provider refused", "shop: the certificate of the provider is revoked")
                try await otherProvider.send(try GatewayProgram.frames(6...9))
                try await otherProvider.send(try GatewayProgram.probe(10))
                #expect(try await otherProvider.end().bytes == GatewayProgram.response(.missingDeviceToken, 10))
            }
        }
        #expect(ending.code == 0, "\(ending)")
        #expect(upstream.counts == Dictionary(uniqueKeysWithValues: (1...9).map { ($0, 1) }))
    }

    @Test func `a raised payload limit permits longer payloads`() async throws {
        let upstream = GatewayUpstream()
        let ending = try await upstream.withGateway { gateway in
            let text = "{\"aps\":{\"alert\":\"\(String(repeating: "a", count: 3000))\"}}"
            var long = ByteBuffer()
            let frame = NotificationFrame(
                token: try GatewayProgram.token(1),
                payload: ByteBuffer(string: text),
                identifier: 1,
                command: .enhanced
            )
            try frame.write(into: &long)
            for (isRaised, status) in [(false, ErrorResponse.Status.invalidPayloadSize), (true, .missingDeviceToken)] {
                if isRaised {
                    let text = "environment: sandbox"
                    try await Self.change(gateway, text, to: "\(text)\n    payloadLimit: 4096")
                }
                try await gateway.connect { provider in
                    provider.push(long)
                    provider.push(try GatewayProgram.probe(2))
                    let bytes = GatewayProgram.response(status, isRaised ? 2 : 1)
                    #expect(try await provider.end().bytes == bytes)
                }
            }
        }
        #expect(ending.code == 0, "\(ending)")
        #expect(upstream.counts == [1: 1])
    }
}
