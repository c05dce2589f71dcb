// SPDX-License-Identifier: Apache-2.0

import APNSTestKit
import Foundation
import NIOCore
import NIOPosix
import OpenSSLTLS
import TestSupport
import Testing

/// Goal: `certificate check --connect` reports each problem of a connection in one line, for our own listeners and
/// `openssl s_server`.
@Suite(.timeLimit(.minutes(1))) struct CertificateConnectTests {
    /// A server run by the `openssl` program, which ends with this object.
    final class Server {
        let port: Int
        private let child: Child
        private let input = Pipe()

        convenience init(_ scene: CertificateScene, _ line: String) async throws {
            try await self.init(
                scene.words("s_server -accept 127.0.0.1:0 -cert @server.pem -CAfile @authority.pem " + line)
            )
        }

        init(_ words: [String]) async throws {
            var streams = Child.Streams()
            let output = Pipe()
            // It runs until its input ends.
            streams.input = self.input.fileHandleForReading.fileDescriptor
            streams.outputDescriptor = output.fileHandleForWriting.fileDescriptor
            self.child = try Child(words, streams, program: "/usr/bin/openssl", deadline: 60)
            try output.fileHandleForWriting.close()
            let reader = LineReader(output.fileHandleForReading)
            while let line = try await reader.next() {
                guard line.hasPrefix("ACCEPT "), let port = Int(line.split(separator: ":").last ?? "") else { continue }
                self.port = port
                return
            }
            throw Child.Failure(description: "s_server does not listen: \(try await self.child.end())")
        }

        deinit { self.child.send(SIGKILL) }
    }

    /// A folder with an authority, its certificate with key in server.pem, and client.pem.
    private static func makeScene(
        names: [String] = ["127.0.0.1"],
        validity: CertificateAuthority.Validity = .current
    ) throws -> (CertificateScene, CertificateAuthority) {
        let (scene, authority) = (try CertificateScene(), try CertificateAuthority())
        try scene.write("authority.pem", authority.certificatePEM)
        try scene.write("server.pem", try authority.issueServer(names: names, validity: validity).pem)
        try scene.write("client.pem", try authority.issueClient(topic: CertificateScene.topic).pem)
        return (scene, authority)
    }

    private static func expect(
        _ scene: CertificateScene,
        _ line: String,
        _ code: Int32,
        _ text: String,
        location: SourceLocation = #_sourceLocation
    ) async throws {
        let run = try await scene.run("check \(line) --warn-days 0")
        let lines = run.output.split(separator: "\n").filter { $0.contains(" 127.0.0.1:") || $0.contains(".invalid:") }
        #expect(run.code == code && lines.count == 1, "\(run)", sourceLocation: location)
        #expect(lines.first?.contains(text) == true, "\(run)", sourceLocation: location)
    }

    @Test func `a server that does not refuse the certificate, with TLS 1,2 and 1,3, is not said to accept it`()
        async throws
    {
        let (scene, _) = try Self.makeScene()
        for (option, version) in [("-tls1_2", "TLS 1.2, ECDHE"), ("-tls1_3", "TLS 1.3, TLS_AES")] {
            let server = try await Server(scene, "-Verify 1 -verify_return_error -naccept 2 \(option)")
            let line = "@client.pem --trust @authority.pem --connect 127.0.0.1:\(server.port)"
            try await Self.expect(scene, line, 0, "\(version)")
            try await Self.expect(scene, line, 0, "asked for the client certificate and did not refuse it within 2 s;")
        }
    }

    @Test func `the certificate is not verified by a server that does not request one`() async throws {
        let (scene, _) = try Self.makeScene()
        for version in ["-tls1_2", "-tls1_3"] {
            let server = try await Server(scene, version)
            let line = "@client.pem --trust @authority.pem --connect 127.0.0.1:\(server.port)"
            try await Self.expect(scene, line, 1, "the server did not ask for a client certificate")
        }
    }

    @Test func `HTTP/2 is distinguished from feedback, and the server's certificate is checked with both`() async throws
    {
        let (scene, authority) = try Self.makeScene()
        let context = try TLSContext(try authority.makeServerTLS())
        let settings: [UInt8] = [0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 100]
        for (bytes, code, text) in [
            (settings, Int32(0), ", HTTP/2, "), (Array("feedback".utf8), 1, "if this is a feedback service"),
        ] {
            let server = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
                .childChannelInitializer { channel in
                    channel.eventLoop.makeCompletedFuture {
                        let tls = try TLSHandler.server(context)
                        try channel.pipeline.syncOperations.addHandler(tls)
                        channel.writeAndFlush(ByteBuffer(bytes: bytes), promise: nil)
                    }
                }
                .bind(host: "127.0.0.1", port: 0).get()
            let port = try #require(server.localAddress?.port)
            let line = "@client.pem --trust @authority.pem --connect 127.0.0.1:\(port)"
            try await Self.expect(scene, line, code, text)
            let soon = try await scene.run("check \(line) --warn-days 30")
            #expect(soon.output.contains("127.0.0.1:\(port): the server's certificate, of "), "\(soon)")
            try await server.close()
        }
    }

    @Test func `a rejected client certificate is reported`() async throws {
        let (scene, authority) = try Self.makeScene()
        let unknown = try CertificateAuthority()
        try scene.write("unknown.pem", try unknown.issueClient(topic: "a.b").pem)
        try scene.write("expired.pem", try authority.issueClient(topic: "a.b", validity: .expired).pem)
        let revoked = try authority.issueClient(topic: "a.b")
        try scene.write("revoked.pem", revoked.pem)
        try scene.write("list.pem", try authority.revocationList(of: [revoked.identity.certificate]))
        for version in ["-tls1_2", "-tls1_3"] {
            let verify = "-Verify 1 -verify_return_error \(version)"
            let server = try await Server(scene, verify)
            let place = "--trust @authority.pem --connect 127.0.0.1:\(server.port)"
            try await Self.expect(scene, place, 2, "client certificate")
            try await Self.expect(scene, "@unknown.pem \(place)", 2, "unknown.pem: unknown authority")
            try await Self.expect(scene, "@expired.pem \(place)", 2, "expired.pem: expired")
            let careful = try await Server(scene, "\(verify) -CRL @list.pem -crl_check")
            let other = "--trust @authority.pem --connect 127.0.0.1:\(careful.port)"
            try await Self.expect(scene, "@revoked.pem \(other)", 2, "revoked.pem: revoked")
        }
    }

    @Test func `a service that closes right after the handshake is reported`() async throws {
        let (scene, authority) = try Self.makeScene()
        let tls = try authority.makeServerTLS()
        for (cut, code) in [(GatewayScript.Cut.orderly, Int32(1)), (.fin, 2), (.reset, 2)] {
            let gateway = try await ScriptedGateway.start(tls: tls) { _ in
                GatewayScript {
                    $0.opening = .closeAfterHandshake
                    $0.cut = cut
                }
            }
            let line = "@client.pem --trust @authority.pem --connect 127.0.0.1:\(gateway.port)"
            let text = code == 1 ? "does not accept the client" : "closed the connection during the TLS handshake"
            try await Self.expect(scene, line, code, text)
            try await gateway.stop()
        }
    }

    @Test func `problems of the server are reported`() async throws {
        let (scene, _) = try Self.makeScene()
        let server = try await Server(scene, "")
        let place = "--connect 127.0.0.1:\(server.port)"
        try await Self.expect(scene, place, 2, "is not signed by a trusted authority")
        let (expired, _) = try Self.makeScene(validity: .expired)
        let expiredServer = try await Server(expired, "")
        let expiredPlace = "--trust @authority.pem --connect 127.0.0.1:\(expiredServer.port)"
        try await Self.expect(expired, expiredPlace, 2, "the certificate of the server has expired")
        let (named, _) = try Self.makeScene(names: ["gateway.example"])
        let namedServer = try await Server(named, "")
        let namedPlace = "--trust @authority.pem --connect 127.0.0.1:\(namedServer.port)"
        try await Self.expect(named, namedPlace, 2, "is not for 127.0.0.1 but for gateway.example")
        let old = try await Server(scene, "-tls1 -cipher ALL:@SECLEVEL=0")
        let oldPlace = "--trust @authority.pem --connect 127.0.0.1:\(old.port)"
        try await Self.expect(scene, oldPlace, 2, "no TLS version in common")
        try await Self.expect(scene, "\(oldPlace) --tls-min 1.0", 0, "; no client certificate was given; 0 days left")
    }

    @Test func `a server that does not speak TLS, hangs or closes is reported`() async throws {
        let (scene, authority) = try Self.makeScene()
        let plain = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    channel.writeAndFlush(ByteBuffer(string: "220 ready\r\n"), promise: nil)
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        let port = try #require(plain.localAddress?.port)
        try await Self.expect(
            scene,
            "--connect 127.0.0.1:\(port)",
            2,
            "does not speak TLS (it is a mail or FTP server)"
        )
        try await plain.close()
        let tls = try authority.makeServerTLS()
        for (opening, text) in [
            (GatewayScript.Opening.neverShakeHands, "did not complete the TLS handshake in time"),
            (.closeBeforeHandshake, "closed the connection during the TLS handshake"),
        ] {
            let gateway = try await ScriptedGateway.start(tls: tls) { _ in GatewayScript { $0.opening = opening } }
            try await Self.expect(scene, "--connect 127.0.0.1:\(gateway.port) --timeout 300ms", 2, text)
            try await gateway.stop()
        }
    }

    @Test func `problems before the connection to the server are reported`() async throws {
        let (scene, _) = try Self.makeScene()
        let port = try ReservedPort()
        try await Self.expect(scene, "--connect 127.0.0.1:\(port.number)", 2, " refused; is the server running there?")
        try await Self.expect(scene, "--connect nobody.invalid:2195", 2, "cannot be resolved")
        for (answer, text) in [
            (
                ScriptedProxy.Answer.say("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"),
                " it answered 403 Forbidden; see its log"
            ),
            (.say("HTTP/1.1 407 Proxy\r\nContent-Length: 0\r\n\r\n"), "requires a user name and a password"),
        ] {
            let proxy = try await ScriptedProxy.start(.http, answer, upstream: port.number)
            let line = "--connect 127.0.0.1:\(port.number) --proxy http://127.0.0.1:\(proxy.port)"
            try await Self.expect(scene, line, 2, text)
            try await proxy.stop()
        }
    }

    @Test func `with an unusable certificate, no connection is made`() async throws {
        let (scene, authority) = try Self.makeScene()
        try scene.write("bare.pem", try authority.issueClient(topic: "a.b").certificatePEM)
        let port = try ReservedPort()
        let run = try await scene.run("check @bare.pem --connect 127.0.0.1:\(port.number)")
        #expect(run.code == 2 && run.output.contains("no connection was made: "), "\(run)")
    }
}
