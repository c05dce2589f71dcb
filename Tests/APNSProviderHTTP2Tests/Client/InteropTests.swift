// SPDX-License-Identifier: Apache-2.0

import APNSProviderHTTP2
import APNSServer
import APNSTestKit
import APNSWire
import Foundation
import NIOCore
import OpenSSLTLS
import TestSupport
import Testing

@Suite("Interoperability", .timeLimit(.minutes(1)))
struct InteropTests {
    /// A folder of files for the other program; removed when this object is released.
    private final class Folder: Sendable {
        let path: String

        init() throws {
            self.path = FileManager.default.temporaryDirectory.appending(path: "http2-\(UUID().uuidString)").path
            try FileManager.default.createDirectory(atPath: self.path, withIntermediateDirectories: true)
        }

        deinit { try? FileManager.default.removeItem(atPath: self.path) }

        func write(_ name: String, _ bytes: [UInt8]) throws -> String {
            let path = "\(self.path)/\(name)"
            let folder = URL(filePath: path).deletingLastPathComponent()
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            try Data(bytes).write(to: URL(filePath: path))
            return path
        }
    }

    // MARK: curl with our server

    /// curl's output for one request: status, HTTP version, body and headers.
    private func curl(
        _ options: [String],
        token: String = String(repeating: "d0", count: 32),
        server change: (inout HTTP2ListenerConfiguration) throws -> Void = { _ in },
        service: ScriptedService = ScriptedService()
    ) async throws -> String {
        let folder = try Folder()
        let trust = try folder.write("ca.pem", try PushFixture.authority.get().certificatePEM)
        let identity = try folder.write("provider.pem", try PushFixture.provider.get().pem)
        var configuration = try PushFixture.serverConfiguration()
        try change(&configuration)
        return try await Listener(configuration, service: service, logger: PushFixture.quiet).withRunning { server in
            let port = try await server.boundAddress.port
            let options = options.map { $0 == "IDENTITY" ? identity : $0 }
            return try await PeerProgram.output(
                "curl",
                [
                    "-s", "-i", "--max-time", "20", "--cacert", trust, "-d", #"{"aps":{}}"#, "-w",
                    "\nversion %{http_version}",
                    "https://localhost:\(port)/3/device/\(token)",
                ] + options
            )
        }
    }

    @Test(arguments: ["123e4567-e89b-42d3-a456-426614174000", "123E4567-E89B-42D3-A456-426614174000"])
    func `curl with a certificate is accepted, and its apns-id is returned unchanged`(_ identifier: String) async throws
    {
        let answer = try await self.curl([
            "--http2", "--cert", "IDENTITY", "-H", "apns-id: \(identifier)", "-H", "apns-push-type: alert",
        ])
        #expect(answer.contains("HTTP/2 200"), "\(answer)")
        #expect(answer.contains("apns-id: \(identifier)"))
        #expect(answer.contains("apns-unique-id: "))
        #expect(answer.contains("version 2"))
    }

    @Test func `the production service returns no apns-unique-id`() async throws {
        let answer = try await self.curl(["--http2", "--cert", "IDENTITY"]) { $0.addsUniqueID = false }
        #expect(answer.contains("HTTP/2 200"), "\(answer)")
        #expect(answer.contains("apns-id: "))
        #expect(!answer.contains("apns-unique-id: "))
    }

    @Test func `curl without ALPN is accepted, unless ALPN is required`() async throws {
        let options = ["--http2-prior-knowledge", "--no-alpn", "--cert", "IDENTITY"]
        let answer = try await self.curl(options)
        #expect(answer.contains("HTTP/2 200"), "\(answer)")
        let refused = try await self.curl(options) { $0.requiresApplicationProtocol = true }
        #expect(!refused.contains("HTTP/2 200"))
    }

    @Test func `curl without a certificate needs a token`() async throws {
        let topic = ["--http2", "-H", "apns-topic: \(PushFixture.topic)"]
        let bare = try await self.curl(topic)
        #expect(bare.contains("HTTP/2 403") && bare.contains("MissingProviderToken"), "\(bare)")
        let key = try ProviderTokenKey(
            key: try PushFixture.signer.get(),
            keyID: PushFixture.keyID,
            teamID: PushFixture.teamID
        )
        let token = try key.token(issuedAt: Int64(Date().timeIntervalSince1970))
        let proved = try await self.curl(topic + ["-H", "authorization: bearer \(token)"])
        #expect(proved.contains("HTTP/2 200"), "\(proved)")
    }

    @Test func `an authenticated curl gets an error for a path without a valid token`()
        async throws
    {
        let topic = ["-H", "apns-topic: \(PushFixture.topic)", "--http2"]
        let paths = [("", "MissingDeviceToken"), ("xy", "BadDeviceToken"), ("0", "BadDeviceToken")]
        for (text, reason) in paths {
            let known = try await self.curl(topic + ["--cert", "IDENTITY"], token: text)
            #expect(known.contains("HTTP/2 400") && known.contains(reason), "\(known)")
            let unknown = try await self.curl(topic, token: text)
            #expect(unknown.contains("HTTP/2 403") && unknown.contains("MissingProviderToken"), "\(unknown)")
        }
    }

    @Test func `curl gets the reason of a rejection`() async throws {
        let dead = try DeviceToken(String(repeating: "d0", count: 32))
        let gone = try await self.curl(
            ["--http2", "--cert", "IDENTITY"],
            service: ScriptedService(dead: [dead: 1_700_000_000_000])
        )
        #expect(gone.contains("HTTP/2 410"), "\(gone)")
        #expect(gone.contains(#"{"reason":"Unregistered","timestamp":1700000000000}"#))
        let method = try await self.curl(["--http2", "--cert", "IDENTITY", "-X", "PUT"])
        #expect(method.contains("HTTP/2 405") && method.contains("MethodNotAllowed"), "\(method)")
    }

    // MARK: Our client with nghttpd

    @Test func `nghttpd answers our client`() async throws {
        let folder = try Folder()
        let known = try PushFixture.request(1)
        _ = try folder.write("3/device/\(known.token.hexadecimal)", [])
        let server = try PushFixture.server.get()
        let certificate = try folder.write("server.pem", server.certificatePEM)
        let key = try folder.write("server.key", server.keyPEM)
        let port = try await PushFixture.unusedPort()
        let process = Process()
        process.executableURL = URL(filePath: try PeerProgram.path("nghttpd"))
        process.arguments = ["-a", "127.0.0.1", "-m", "7", "-d", folder.path, "\(port)", key, certificate]
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        process.standardInput = FileHandle.nullDevice
        try process.run()
        let pid = process.processIdentifier
        defer { kill(pid, SIGKILL) }
        // The client retries until it listens.
        let configuration = try PushFixture.clientConfiguration(port: port)
        let unknown = try PushFixture.request(2)
        let outcomes = try await RequestClient.withClient(configuration, logger: PushFixture.quiet) { client in
            await withTaskGroup(of: DeliveryOutcome.self) { group in
                for number in 0..<200 {
                    group.addTask { await client.send(number == 100 ? unknown : known) }
                }
                return await group.reduce(into: [DeliveryOutcome]()) { $0.append($1) }
            }
        }
        #expect(outcomes.count { $0 == .accepted } == 199)
        #expect(outcomes.contains(.rejected(.http2(PushRejection(status: 404, reason: .other(""))))))
    }
}
