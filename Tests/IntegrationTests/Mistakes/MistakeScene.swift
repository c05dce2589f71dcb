// SPDX-License-Identifier: Apache-2.0

import APNSSimulator
import APNSTestKit
import APNSWire
import Batch
import Foundation
import NIOCore
import NIOPosix
import OpenSSLTLS
import TestSupport
import Testing
import TokenStore

/// A folder with the files that the mistakes of docs/troubleshooting.md need, where the program runs.
struct MistakeScene {
    let folder: SendScene

    /// The files, which are made once.
    private static let files = Result { () throws -> [(name: String, bytes: [UInt8])] in
        let authority = try SendScene.authority.get()
        let provider = try SendScene.provider.get()
        let other = try MistakeScene.otherAuthority.get()
        let foreign = try other.issueClient(topic: SendScene.topic)
        // Keys of one kind are shared between certificates of a test.
        let otherKey = try authority.issueClient(topic: SendScene.topic, keyKind: .rsa2048).keyPEM
        let expired = try authority.issueClient(topic: SendScene.topic, validity: .expired)
        let early = try authority.issueClient(topic: SendScene.topic, validity: .future)
        var files: [(name: String, bytes: [UInt8])] = [
            ("batch.jsonl", Array((SendScene.line(1) + SendScene.line(2)).utf8)),
            ("one.jsonl", Array(SendScene.line(1).utf8)), ("server.pem", try SendScene.gateway.get().pem),
            ("tokens.txt", Array((SendScene.token(1) + "\n").utf8)),
            ("cert.pem", provider.certificatePEM), ("provider.key.pem", provider.keyPEM),
            ("locked.key.pem", try provider.encryptedKeyPEM(passphrase: "right")),
            ("provider.p12", try provider.pkcs12(passphrase: "right")),
            ("aps.cer", provider.certificateDER), ("other.key.pem", otherKey), ("other.pem", foreign.pem),
            ("other-ca.pem", other.certificatePEM), ("expired.pem", expired.pem), ("early.pem", early.pem),
            ("AuthKey_ABC123DEFG.p8", try ES256Key.pem()), ("passphrase.txt", Array("wrong\n".utf8)),
            ("empty.txt", []), ("empty.pem", []), ("page.pem", Array("<!DOCTYPE html>\n<html>Sign in</html>\n".utf8)),
            ("keystore.jks", [0xFE, 0xED, 0xFE, 0xED, 0, 0, 0, 2, 0, 0, 0, 0]), ("notes.txt", Array("hello\n".utf8)),
            ("request.pem", MistakeScene.pem("CERTIFICATE REQUEST")), ("public.pem", MistakeScene.pem("PUBLIC KEY")),
            ("authority.pem", authority.certificatePEM + (try authority.keyPEM())),
            ("gateway.yaml", Array("listn:\n  port: 2195\n".utf8)),
            ("tab.yaml", Array("listen:\n\tport: 2195\n".utf8)),
            ("table.jsonl", Array("token,payload\n\(SendScene.token(1)),{}\n".utf8)),
            ("array.json", Array("[{\"token\":\"\(SendScene.token(1))\",\"payload\":{\"aps\":{}}}]\n".utf8)),
            ("pretty.json", Array("{\n  \"token\": \"\(SendScene.token(1))\",\n  \"payload\": {}\n}\n".utf8)),
            ("names.csv", Array("device_token,payload\n\(SendScene.token(1)),{}\n".utf8)),
            ("rows.csv", Array("\(SendScene.token(1)),\"{\"\"aps\"\":{}}\"\n".utf8)),
            ("bars.csv", Array("token|payload\n\(SendScene.token(1))|{}\n".utf8)),
            ("commas.json", Array("{\"token\":\"\(SendScene.token(1))\",\"payload\":{}},\n".utf8)),
            ("utf16.csv", [0xFF, 0xFE] + Array("t\0o\0k\0e\0n\0\n\0".utf8)),
            ("users.xlsx", Array("PK\u{3}\u{4}".utf8) + [20, 0, 6, 0]),
            ("cut.jsonl.gz", [0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 3, 0xAB]),
        ]
        let table = try ApplyScene()
        try table.record(1...3)
        try table.makeTable(1...10)
        table.list.close()
        // The journal of one.jsonl, before anything was sent.
        let (batch, journal) = (table.path("one.jsonl"), table.path("one.journal"))
        try Data(SendScene.line(1).utf8).write(to: URL(filePath: batch))
        _ = try SendJournal(path: journal, of: SendInput(path: batch), payload: nil, results: nil)
        for name in ["purge.db", "app.db", "one.journal"] {
            files.append((name, Array(try Data(contentsOf: URL(filePath: table.path(name))))))
        }
        return files
    }

    init() throws {
        self.folder = try SendScene()
        for (name, bytes) in try Self.files.get() { try self.folder.write(name, bytes) }
    }

    private static let otherAuthority = Result { try CertificateAuthority(name: "Another") }

    private static func pem(_ label: String) -> [UInt8] {
        Array("-----BEGIN \(label)-----\nAAAA\n-----END \(label)-----\n".utf8)
    }

    /// Runs a command line of the table in the folder.
    ///
    /// - Parameters:
    ///   - line: what follows "apns-legacy"; words have spaces between them.
    ///   - port: replaces `{port}`.
    /// - Returns: the exit code, and the lines of standard error with the port as `2195`.
    /// - Throws: where the program does not start.
    func run(_ line: String, port: Int) async throws -> (code: Int32?, lines: [String]) {
        let words = line.replacing("{port}", with: "\(port)").split(separator: " ").map(String.init)
        let streams = Child.Streams(output: self.folder.path("run.out"), error: self.folder.path("run.err"))
        let shell = ["-c", #"cd "$0" && exec "$@""#, self.folder.folder, try Child.program] + words
        let ending = try await Child(shell, streams, program: "/bin/sh", deadline: 60).end()
        let text = self.folder.read("run.err")
        return (ending.code, text.split(separator: "\n").map { Self.masked(String($0), port) })
    }

    /// A line as the table shows it: with a fixed port, and without times.
    private static func masked(_ line: String, _ port: Int) -> String {
        var line = line.replacing(":\(port)", with: ":2195").replacing("port \(port)", with: "port 2195")
        // Whether a server that closes resets the connection depends on what has arrived by then.
        line = line.replacing(" (connection reset)", with: "")
        for word in line.split(whereSeparator: { " ;,".contains($0) }) where Self.isTime(word) {
            line = line.replacing(word, with: "2026-01-05T10:20:30Z")
        }
        return line
    }

    private static func isTime(_ word: Substring) -> Bool {
        word.count == 20 && word.hasPrefix("20") && word.dropFirst(10).first == "T" && word.hasSuffix("Z")
    }
}

/// A key for provider tokens, as Apple issues it.
enum ES256Key {
    static func pem() throws -> [UInt8] {
        let identity = try SendScene.authority.get().issueClient(topic: SendScene.topic)
        return identity.keyPEM
    }
}

/// What listens for one mistake.
enum MistakeServer: Sendable {
    /// Nothing; the port refuses connections.
    case none
    /// A simulator's binary port.
    case gateway
    /// A simulator's feedback port, with one dead token in its list.
    case feedback
    /// A simulator's feedback port, with an empty list.
    case emptyFeedback
    /// A simulator's HTTP/2 port.
    case http2
    /// Sends a text as soon as a connection opens.
    case greets(String)
    /// Sends a text when something came.
    case answers(String)
    /// Closes every connection before the handshake.
    case closes
    /// Accepts connections, and never sends anything.
    case silent
    /// `openssl s_server` with a certificate of its own.
    case openSSL(MistakeCertificate, String)
    /// A gateway that closes right after the handshake.
    case closesAfterHandshake
    /// Sends bytes right after the handshake.
    case sends([UInt8])

    /// Runs something while it listens.
    ///
    /// - Parameters:
    ///   - scene: has the files.
    ///   - body: gets the port.
    /// - Returns: what the body returns.
    /// - Throws: what the body throws, and where the server does not start.
    func withPort<Value: Sendable>(
        _ scene: MistakeScene,
        _ body: @escaping @Sendable (Int) async throws -> Value
    ) async throws -> Value {
        switch self {
        case .none:
            let port = try ReservedPort()
            defer { withExtendedLifetime(port) {} }
            return try await body(port.number)
        case .gateway: return try await SendScene.withGateway { try await body($0.gatewayPort) }
        case .feedback:
            return try await SendScene.withGateway { simulator in
                let token = try DeviceToken(SendScene.token(1))
                simulator.remove(token)
                // A notification for it makes the service list it.
                _ = try await scene.folder.send([scene.folder.path("batch.jsonl")], port: simulator.gatewayPort)
                try #require(!simulator.feedback(topic: SendScene.topic, environment: .sandbox).isEmpty)
                return try await body(simulator.feedbackPort)
            }
        case .emptyFeedback: return try await SendScene.withGateway { try await body($0.feedbackPort) }
        case .http2: return try await SendScene.withGateway { try await body($0.http2Port) }
        case .greets(let text): return try await Self.withText(text, isGreeting: true, body)
        case .answers(let text): return try await Self.withText(text, isGreeting: false, body)
        case .silent: return try await Self.withText("", isGreeting: true, body)
        case .closes: return try await Self.withScript({ $0.opening = .closeBeforeHandshake }, body)
        case .closesAfterHandshake: return try await Self.withScript({ $0.opening = .closeAfterHandshake }, body)
        case .sends(let bytes): return try await Self.withScript({ $0.action = { _, _ in .send(bytes) } }, body)
        case .openSSL(let certificate, let options):
            try certificate.write(scene)
            let words = ["s_server", "-accept", "127.0.0.1:0", "-cert", scene.folder.path("server.pem")]
            let trust = ["-CAfile", scene.folder.path("ca.pem")]
            let server = try await CertificateConnectTests.Server(
                words + trust + options.split(separator: " ").map(String.init)
            )
            defer { withExtendedLifetime(server) {} }
            return try await body(server.port)
        }
    }

    private static func withScript<Value: Sendable>(
        _ change: @escaping @Sendable (inout GatewayScript) -> Void,
        _ body: @Sendable (Int) async throws -> Value
    ) async throws -> Value {
        let tls = TLSConfiguration.server(identity: try SendScene.gateway.get().identity)
        let gateway = try await ScriptedGateway.start(tls: tls) { _ in GatewayScript { change(&$0) } }
        do {
            let value = try await body(gateway.port)
            try await gateway.stop()
            return value
        } catch {
            try? await gateway.stop()
            throw error
        }
    }

    private static func withText<Value: Sendable>(
        _ text: String,
        isGreeting: Bool,
        _ body: @Sendable (Int) async throws -> Value
    ) async throws -> Value {
        let server = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    if isGreeting {
                        if !text.isEmpty { channel.writeAndFlush(ByteBuffer(string: text), promise: nil) }
                    } else {
                        try channel.pipeline.syncOperations.addHandler(AnsweringHandler(text))
                    }
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        do {
            let value = try await body(server.localAddress?.port ?? 0)
            try await server.close()
            return value
        } catch {
            try? await server.close()
            throw error
        }
    }
}

/// The certificate of an `openssl s_server`.
enum MistakeCertificate: Sendable {
    case good
    case expired
    case otherHost

    func write(_ scene: MistakeScene) throws {
        let authority = try SendScene.authority.get()
        let identity =
            switch self {
            case .good: try authority.issueServer()
            case .expired: try authority.issueServer(validity: .expired)
            case .otherHost: try authority.issueServer(names: ["gateway.example.com"])
            }
        try scene.folder.write("server.pem", identity.pem)
    }
}

/// Answers the first bytes with a text, and closes.
private final class AnsweringHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private let text: String

    init(_ text: String) { self.text = text }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        context.channel.writeAndFlush(ByteBuffer(string: self.text), promise: nil)
        context.close(promise: nil)
    }
}
