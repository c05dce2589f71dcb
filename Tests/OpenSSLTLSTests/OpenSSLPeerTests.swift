// SPDX-License-Identifier: Apache-2.0

import APNSTestKit
import NIOCore
import NIOPosix
import OpenSSLTLS
import TestSupport
import Testing

/// Goal: the handler works with OpenSSL's own `s_server` and `s_client`, not only with itself.
@Suite(.serialized, .timeLimit(.minutes(2)))
struct OpenSSLPeerTests {
    private let folder: TemporaryFolder
    private let authority: CertificateAuthority
    private let server: IssuedIdentity
    private let client: IssuedIdentity
    private let files: Files

    struct Files {
        let authority: String
        let server: String
        let client: String
    }

    init() throws {
        self.folder = try TemporaryFolder()
        // Only old peers use TLS 1.0 and 1.1, and their certificates have RSA keys.
        self.authority = try CertificateAuthority(keyKind: .rsa2048)
        self.server = try self.authority.issueServer(keyKind: .rsa2048)
        self.client = try self.authority.issueClient(topic: "com.example.app", keyKind: .rsa2048)
        self.files = Files(
            authority: try self.folder.write("authority.pem", self.authority.certificatePEM),
            server: try self.folder.write("server.pem", self.server.pem),
            client: try self.folder.write("client.pem", self.client.pem)
        )
    }

    private static func option(_ version: TLSVersion) -> String {
        switch version {
        case .tls1_0: "-tls1"
        case .tls1_1: "-tls1_1"
        case .tls1_2: "-tls1_2"
        case .tls1_3: "-tls1_3"
        }
    }

    private static func old(_ version: TLSVersion) -> [String] {
        version < .tls1_2 ? ["-cipher", "DEFAULT:@SECLEVEL=0"] : []
    }

    // MARK: Our client, OpenSSL's server

    /// Starts `s_server` and runs a closure with a client connected to it.
    private func withServer(
        _ arguments: [String],
        client: TLSContext,
        name: String = "localhost",
        _ body: (Loopback.End, OpenSSLTool) async throws -> Void
    ) async throws {
        let tool = try OpenSSLTool(
            ["s_server", "-accept", "127.0.0.1:0", "-cert", self.files.server, "-CAfile", self.files.authority]
                + arguments
        )
        defer { tool.stop() }
        try await tool.wait(for: "ACCEPT 127.0.0.1:")
        let port = tool.output.split(separator: "ACCEPT 127.0.0.1:").last?.prefix { $0.isNumber }
        let observer = Observer()
        let channel = try await Loopback.connect(
            port: Int(port ?? "") ?? 0,
            client: client,
            name: name,
            observer: observer
        )
        let end = Loopback.End(channel: channel, observer: observer)
        let result: Result<Void, any Error>
        do {
            result = .success(try await body(end, tool))
        } catch {
            result = .failure(error)
        }
        end.close()
        try? await channel.closeFuture.get(within: .seconds(10))
        try result.get()
    }

    private func clientContext(
        _ version: ClosedRange<TLSVersion>,
        _ change: (inout TLSConfiguration) -> Void = { _ in }
    ) throws -> TLSContext {
        var configuration = TLSConfiguration.client(trust: .file(self.files.authority))
        configuration.versionMin = version.lowerBound
        configuration.versionMax = version.upperBound
        change(&configuration)
        return try TLSContext(configuration)
    }

    @Test(arguments: TLSVersion.allCases)
    func `data is exchanged with s_server with each version and a client certificate`(
        version: TLSVersion
    ) async throws {
        let context = try self.clientContext(.tls1_0 ... .tls1_3) { $0.identity = self.client.identity }
        let arguments = [Self.option(version), "-Verify", "2", "-verify_return_error", "-rev"] + Self.old(version)
        try await self.withServer(arguments, client: context) { client, tool in
            try await client.channel.writeAndFlush(ByteBuffer(string: "abcdef\n")).get(within: .seconds(10))
            try await client.wait("echo") { $0.received == Array("fedcba\n".utf8) }
            #expect(client.observer.notes.facts.version == version)
            try await client.channel.close().get(within: .seconds(10))
            try await client.wait("end") { $0.isInactive }
            #expect(client.observer.notes.errors.isEmpty)
            // It prints while data is exchanged.
            try await tool.wait(for: "UID = com.example.app")
        }
    }

    @Test(arguments: [TLSVersion.tls1_0, .tls1_1])
    func `an old s_server is rejected unless a minimum below 1.2 is configured`(version: TLSVersion) async throws {
        let arguments = [Self.option(version)] + Self.old(version)
        try await self.withServer(arguments, client: self.clientContext(.tls1_2 ... .tls1_3)) { client, _ in
            try await client.wait("end") { $0.isInactive }
            guard case .versionRefused? = client.observer.notes.tlsError else {
                Issue.record("\(client.observer.notes.errors)")
                return
            }
        }
    }

    @Test(arguments: [TLSVersion.tls1_2, .tls1_3])
    func `s_server rejects a client without a certificate, and the error contains the reason`(version: TLSVersion)
        async throws
    {
        let arguments = [Self.option(version), "-Verify", "2", "-verify_return_error"]
        try await self.withServer(arguments, client: self.clientContext(.tls1_2 ... .tls1_3)) { client, _ in
            try await client.wait("end") { $0.isInactive }
            switch (version, client.observer.notes.tlsError) {
            case (.tls1_2, .handshakeRefused(40, _)?), (.tls1_3, .ownCertificateRefused(116, _)?): break
            default: Issue.record("\(client.observer.notes.errors)")
            }
            #expect(client.observer.notes.errors.count == 1)
        }
    }

    @Test func `s_server receives the server name and selects its certificate`() async throws {
        let other = try self.authority.issueServer(names: ["other.example"], keyKind: .rsa2048)
        let second = try self.folder.write("other.pem", other.pem)
        let arguments = ["-servername", "other.example", "-cert2", second, "-key2", second]
        let context = try self.clientContext(.tls1_2 ... .tls1_3)
        try await self.withServer(arguments, client: context, name: "other.example") { client, _ in
            try await client.wait("handshake") { $0.isHandshakeDone }
            #expect(client.observer.notes.facts.certificate?.hostNames == ["other.example"])
        }
        try await self.withServer(arguments, client: context, name: "localhost") { client, _ in
            try await client.wait("handshake") { $0.isHandshakeDone }
            #expect(client.observer.notes.facts.certificate == self.server.identity.certificate)
        }
        try await self.withServer(arguments, client: context, name: "third.example") { client, _ in
            try await client.wait("end") { $0.isInactive }
            guard case .wrongHost("third.example", _)? = client.observer.notes.tlsError else {
                Issue.record("\(client.observer.notes.errors)")
                return
            }
        }
    }

    @Test func `an application protocol is negotiated with s_server`() async throws {
        let context = try self.clientContext(.tls1_2 ... .tls1_3) { $0.applicationProtocols = ["h2", "http/1.1"] }
        try await self.withServer(["-alpn", "http/1.1"], client: context) { client, _ in
            try await client.wait("handshake") { $0.isHandshakeDone }
            #expect(client.observer.notes.applicationProtocol == "http/1.1")
        }
    }

    @Test func `sessions with s_server are resumed, even with TLS 1.3`() async throws {
        for version in [TLSVersion.tls1_2, .tls1_3] {
            let context = try self.clientContext(.tls1_2 ... .tls1_3)
            let tool = try OpenSSLTool(
                ["s_server", "-accept", "127.0.0.1:0", "-cert", self.files.server, "-rev", Self.option(version)])
            defer { tool.stop() }
            try await tool.wait(for: "ACCEPT 127.0.0.1:")
            let port = Int(tool.output.split(separator: "ACCEPT 127.0.0.1:").last?.prefix { $0.isNumber } ?? "") ?? 0
            for isExpected in [false, true, true] {
                let observer = Observer()
                let channel = try await Loopback.connect(port: port, client: context, observer: observer)
                let end = Loopback.End(channel: channel, observer: observer)
                try await channel.writeAndFlush(ByteBuffer(string: "ab\n")).get(within: .seconds(10))
                try await end.wait("echo") { $0.received == Array("ba\n".utf8) }
                try await channel.close().get(within: .seconds(10))
                #expect(observer.notes.facts.isReused == isExpected, "\(version)")
            }
        }
    }

    @Test func `close_notify of s_server is a clean end`() async throws {
        try await self.withServer(["-rev"], client: self.clientContext(.tls1_2 ... .tls1_3)) { client, _ in
            try await client.channel.writeAndFlush(ByteBuffer(string: "CLOSE\n")).get(within: .seconds(10))
            try await client.wait("end") { $0.isInactive }
            #expect(client.observer.notes.order == ["handshake", "shutdown", "inactive"])
        }
    }

    @Test func `an s_server that closes its socket without close_notify truncates the connection`() async throws {
        try await self.withServer([], client: self.clientContext(.tls1_2 ... .tls1_3)) { client, tool in
            try await client.wait("handshake") { $0.isHandshakeDone }
            try tool.write("last words\n")
            try await client.wait("data") { $0.received == Array("last words\n".utf8) }
            try tool.write("Q\n")
            try await client.wait("end") { $0.isInactive }
            #expect(client.observer.notes.order == ["handshake", "data", "error", "inactive"])
            #expect(client.observer.notes.tlsError == .truncated)
        }
    }

    @Test func `a server without TLS is reported`() async throws {
        let listener = try await ServerBootstrap(group: Loopback.group)
            .childChannelInitializer { channel in
                channel.eventLoop.execute {
                    channel.writeAndFlush(ByteBuffer(string: "220 mail.example ESMTP\r\n"), promise: nil)
                }
                return channel.eventLoop.makeSucceededVoidFuture()
            }
            .bind(host: "127.0.0.1", port: 0).get()
        let observer = Observer()
        _ = try await Loopback.connect(
            port: listener.localAddress?.port ?? 0,
            client: self.clientContext(.tls1_2 ... .tls1_3),
            observer: observer
        )
        try await observer.wait("end") { $0.isInactive }
        guard case .notTLS? = observer.notes.tlsError else {
            Issue.record("\(observer.notes.errors)")
            return
        }
        try await listener.close()
    }

    // MARK: OpenSSL's client, our server

    /// Starts an echo server, and runs a closure with it and an `s_client` connected to it.
    private func withClient(
        _ arguments: [String],
        _ change: (inout TLSConfiguration) -> Void,
        _ body: (OpenSSLTool, Loopback.End) async throws -> Void
    ) async throws {
        var configuration = TLSConfiguration.server(
            identity: self.server.identity,
            clientCertificates: .none,
            trust: .file(self.files.authority)
        )
        change(&configuration)
        let context = try TLSContext(configuration)
        let accepted = Loopback.group.next().makePromise(of: (any Channel).self)
        let observer = Observer(onData: { context, buffer in
            context.writeAndFlush(NIOAny(buffer), promise: nil)
        })
        let listener = try await ServerBootstrap(group: Loopback.group)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandlers(
                        LowClose(),
                        TLSHandler.server(context),
                        observer
                    )
                    accepted.succeed(channel)
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        let tool = try OpenSSLTool(
            [
                "s_client", "-connect", "127.0.0.1:\(listener.localAddress?.port ?? 0)", "-CAfile",
                self.files.authority, "-verify_return_error", "-verify_hostname", "localhost",
            ] + arguments
        )
        defer { tool.stop() }
        let channel = try await accepted.futureResult.get(within: .seconds(20))
        let end = Loopback.End(channel: channel, observer: observer)
        let result: Result<Void, any Error>
        do {
            result = .success(try await body(tool, end))
        } catch {
            result = .failure(error)
        }
        end.close()
        try? await channel.closeFuture.get(within: .seconds(10))
        try await listener.close()
        try result.get()
    }

    @Test(arguments: TLSVersion.allCases)
    func `data is exchanged with s_client with each version and a client certificate`(
        version: TLSVersion
    ) async throws {
        let arguments = [Self.option(version), "-cert", self.files.client, "-servername", "localhost"]
        try await self.withClient(arguments + Self.old(version)) {
            $0.versionMin = .tls1_0
            $0.versionMax = .tls1_3
            $0.clientCertificates = .required
        } _: { tool, server in
            try await server.wait("handshake") { $0.isHandshakeDone }
            try tool.write("hello from outside\n")
            try await tool.wait(for: "hello from outside")
            try tool.endInput()
            try await server.wait("end") { $0.isInactive }
            let notes = server.observer.notes
            #expect(notes.order == ["handshake", "data", "shutdown", "inactive"])
            #expect(notes.facts.version == version)
            #expect(notes.facts.requestedName == "localhost")
            #expect(notes.facts.certificate == self.client.identity.certificate)
            try await tool.waitForEnd()
            #expect(tool.output.contains("Verify return code: 0 (ok)"))
        }
    }

    @Test func `the server's order of ciphers is used, not that of a client that prefers CBC with SHA-1`()
        async throws
    {
        let offer = "AES128-SHA:ECDHE-RSA-AES128-SHA:AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256"
        try await self.withClient(["-tls1_2", "-cipher", offer]) { _ in
        } _: { tool, server in
            try await server.wait("handshake") { $0.isHandshakeDone }
            try await tool.wait(for: "Cipher    : ECDHE-RSA-AES128-GCM-SHA256")
        }
    }

    @Test func `s_client receives the alert that a certificate is required`() async throws {
        try await self.withClient(["-tls1_2"]) {
            $0.clientCertificates = .required
        } _: { tool, server in
            try await server.wait("end") { $0.isInactive }
            #expect(server.observer.notes.tlsError == .clientCertificateMissing)
            try await tool.wait(for: "alert handshake failure")
        }
    }

    @Test func `an s_client that verifies another host rejects the server, and the alert contains the reason`()
        async throws
    {
        try await self.withClient(["-verify_hostname", "other.example"]) { _ in
        } _: { _, server in
            try await server.wait("end") { $0.isInactive }
            guard case .ownCertificateRefused(42, _)? = server.observer.notes.tlsError else {
                Issue.record("\(server.observer.notes.errors)")
                return
            }
        }
    }

    @Test func `an application protocol is negotiated with s_client`() async throws {
        try await self.withClient(["-alpn", "spdy/1,h2"]) {
            $0.applicationProtocols = ["h2", "http/1.1"]
        } _: { tool, server in
            try await server.wait("handshake") { $0.isHandshakeDone }
            #expect(server.observer.notes.applicationProtocol == "h2")
            try await tool.wait(for: "ALPN protocol: h2")
        }
    }

    @Test func `an s_client that requests short records receives them`() async throws {
        try await self.withClient(["-tls1_2", "-maxfraglen", "512"]) { _ in
        } _: { tool, server in
            try await server.wait("handshake") { $0.isHandshakeDone }
            let line = String(repeating: "x", count: 5_000) + "end\n"
            try await server.channel.writeAndFlush(ByteBuffer(string: line)).get(within: .seconds(10))
            try await tool.wait(for: "xxxxend")
        }
    }

    @Test func `an s_client that requests renegotiation is rejected`() async throws {
        try await self.withClient(["-tls1_2"]) { _ in
        } _: { tool, server in
            try await server.wait("handshake") { $0.isHandshakeDone }
            try tool.write("R\n")
            try await tool.wait(for: "no renegotiation")
        }
    }
}
