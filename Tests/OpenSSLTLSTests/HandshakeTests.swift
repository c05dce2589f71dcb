// SPDX-License-Identifier: Apache-2.0

import APNSTestKit
import NIOCore
import OpenSSLTLS
import Testing

@Suite(.timeLimit(.minutes(1)))
struct HandshakeTests {
    @Test(arguments: TLSVersion.allCases)
    func `octets go both ways`(version: TLSVersion) async throws {
        let server = try Certificates.serverContext(version: version...version)
        let client = try Certificates.clientContext(version: version...version)
        let echo = Observer(onData: { context, buffer in
            context.writeAndFlush(NIOAny(buffer), promise: nil)
        })
        try await Loopback.withConnection(server: server, client: client, serverObserver: echo) { client, server in
            try await client.channel.writeAndFlush(ByteBuffer(string: "hello")).get(within: .seconds(10))
            try await client.wait("echo") { $0.received == Array("hello".utf8) }
            #expect(client.observer.notes.facts.version == version)
            #expect(server.observer.notes.facts.requestedName == "localhost")
            try await client.channel.close().get(within: .seconds(10))
            try await server.wait("end") { $0.isInactive }
            try await client.wait("end") { $0.isInactive }
            #expect(server.observer.notes.order == ["handshake", "data", "shutdown", "inactive"])
            #expect(client.observer.notes.order == ["handshake", "data", "shutdown", "inactive"])
        }
    }
}
