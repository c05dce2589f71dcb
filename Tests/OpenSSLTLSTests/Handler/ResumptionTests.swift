// SPDX-License-Identifier: Apache-2.0

import APNSTestKit
import NIOCore
import OpenSSLTLS
import Testing

/// Goal: a client resumes its newest session with the same server, and only if that is allowed.
@Suite(.timeLimit(.minutes(1)))
struct ResumptionTests {
    /// Connects a number of times, exchanging data each time, and returns which handshakes resumed a session.
    private func resumptions(
        count: Int,
        client: TLSContext,
        server: TLSContext,
        names: [String] = ["localhost"],
        isCut: Bool = false
    ) async throws -> [Bool] {
        var reused: [Bool] = []
        for index in 0..<count {
            let echo = Observer(onData: { context, buffer in
                context.writeAndFlush(NIOAny(buffer), promise: nil)
            })
            let name = names[index % names.count]
            let isReused = try await Loopback.withConnection(
                server: server,
                client: client,
                name: name,
                serverObserver: echo
            ) { client, server in
                try await client.channel.writeAndFlush(ByteBuffer(string: "x")).get(within: .seconds(10))
                try await client.wait("echo") { !$0.received.isEmpty }
                if isCut { server.close() } else { client.channel.close(promise: nil) }
                try await client.wait("end") { $0.isInactive }
                let notes = (client.observer.notes, server.observer.notes)
                #expect(notes.0.facts.isReused == notes.1.facts.isReused)
                #expect(notes.0.facts.certificate?.hostNames.contains("localhost") == true)
                return notes.0.facts.isReused
            }
            reused.append(isReused)
        }
        return reused
    }

    @Test(arguments: [TLSVersion.tls1_0, .tls1_2, .tls1_3], [false, true])
    func `all connections except the first resume, even after a reset`(version: TLSVersion, isCut: Bool) async throws {
        let server = try Certificates.serverContext(version: version...version) { $0.ticketCount = 2 }
        let client = try Certificates.clientContext(version: version...version)
        let reused = try await self.resumptions(count: 8, client: client, server: server, isCut: isCut)
        #expect(reused == [false] + Array(repeating: true, count: 7))
    }

    @Test func `by default, a TLS 1.3 server sends no tickets`() async throws {
        let server = try Certificates.serverContext(version: .tls1_3 ... .tls1_3)
        let client = try Certificates.clientContext()
        #expect(try await self.resumptions(count: 3, client: client, server: server) == [false, false, false])
    }

    @Test func `nothing is resumed if resumption is off`() async throws {
        let server = try Certificates.serverContext { $0.ticketCount = 2 }
        let client = try Certificates.clientContext { $0.resumesSessions = false }
        #expect(try await self.resumptions(count: 3, client: client, server: server) == [false, false, false])
    }

    @Test func `a session is resumed only with the same server name`() async throws {
        let server = try Certificates.serverContext(version: .tls1_2 ... .tls1_2)
        let client = try Certificates.clientContext()
        let reused = try await self.resumptions(
            count: 4,
            client: client,
            server: server,
            names: ["localhost", "127.0.0.1"]
        )
        #expect(reused == [false, false, true, true])
    }

    @Test(arguments: [TLSVersion.tls1_2, .tls1_3])
    func `the client's certificate is known in a resumed session`(version: TLSVersion) async throws {
        let issued = try Certificates.client.get()
        let server = try Certificates.serverContext(version: version...version) {
            $0.ticketCount = 1
            $0.clientCertificates = .required
        }
        let client = try Certificates.clientContext { $0.identity = issued.identity }
        for isExpectedToResume in [false, true] {
            let echo = Observer(onData: { context, buffer in
                context.writeAndFlush(NIOAny(buffer), promise: nil)
            })
            try await Loopback.withConnection(server: server, client: client, serverObserver: echo) { client, server in
                try await client.channel.writeAndFlush(ByteBuffer(string: "x")).get(within: .seconds(10))
                try await client.wait("echo") { !$0.received.isEmpty }
                let facts = server.observer.notes.facts
                #expect(facts.isReused == isExpectedToResume)
                #expect(facts.certificate?.subjectField("UID") == "com.example.app")
            }
        }
    }
}
