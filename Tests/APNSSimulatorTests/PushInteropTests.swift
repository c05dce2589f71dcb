// SPDX-License-Identifier: Apache-2.0

import APNSProviderHTTP2
import APNSServer
import APNSSimulator
import APNSTestKit
import APNSWire
import Foundation
import NIOCore
import OpenSSLTLS
import TestSupport
import Testing

/// Independent HTTP/2 clients at the simulator: each receives the responses of Apple's service.
@Suite(.timeLimit(.minutes(5)))
struct PushInteropTests {
    typealias Fixture = SimulatorFixture

    enum Tool: String, Sendable, CaseIterable {
        case curl, nghttp
    }

    enum Proof: Sendable, CaseIterable {
        case certificate, providerToken
    }

    /// The client and its credentials, whose files are removed with it.
    private final class Sender: Sendable {
        let tool: Tool
        let proof: Proof
        private let folder: URL

        init(_ tool: Tool, _ proof: Proof) throws {
            self.tool = tool
            self.proof = proof
            self.folder = FileManager.default.temporaryDirectory.appending(path: "apns-legacy-\(UUID().uuidString)")
            try FileManager.default.createDirectory(at: self.folder, withIntermediateDirectories: true)
            let provider = try Fixture.provider.get()
            let files = [
                ("trust", try Fixture.authority.get().certificatePEM), ("certificate", provider.certificatePEM),
                ("key", provider.keyPEM),
            ]
            for (name, bytes) in files { try Data(bytes).write(to: self.folder.appending(path: name)) }
        }

        deinit { try? FileManager.default.removeItem(at: self.folder) }

        private func path(_ name: String) -> String { self.folder.appending(path: name).path }

        private func headers(_ headers: [String]) throws -> [String] {
            guard self.proof == .providerToken else { return headers }
            let key = try ProviderTokenKey(
                key: ES256PrivateKey(bytes: Fixture.provider.get().keyPEM),
                keyID: "KEY0000001",
                teamID: "TEAM000001"
            )
            let token = try key.token(issuedAt: Int64(Date().timeIntervalSince1970))
            return headers + ["authorization: bearer \(token)"]
        }

        /// The client's output for a request.
        func printed(
            _ simulator: Simulator,
            path: String,
            _ headers: [String],
            body: String = "{\"aps\":{}}",
            _ options: [String] = []
        ) async throws -> String {
            let address = "https://localhost:\(simulator.http2Port)\(path)"
            var arguments = options + (try self.headers(headers)).flatMap { ["-H", $0] }
            switch self.tool {
            case .curl:
                arguments += ["-s", "-i", "--http2", "--max-time", "20", "--cacert", self.path("trust"), "-d", body]
            case .nghttp:
                try Data(body.utf8).write(to: self.folder.appending(path: "body"))
                arguments += ["-v", "-t", "20", "-d", self.path("body")]
            }
            if self.proof == .certificate {
                arguments += ["--cert", self.path("certificate"), "--key", self.path("key")]
            }
            let output = try await Program.run(
                "/usr/bin/env",
                [self.tool.rawValue] + arguments + [address],
                deadlineSeconds: 30
            )
            return String(decoding: output, as: UTF8.self)
        }

        /// The status and the reason.
        func answer(
            _ simulator: Simulator,
            path: String,
            _ headers: [String],
            body: String = "{\"aps\":{}}"
        ) async throws -> String {
            let printed = try await self.printed(simulator, path: path, headers, body: body)
            let status = printed.firstMatch(of: /(?:HTTP\/2|:status:) ([0-9]+)/)?.output.1 ?? "no status"
            let reason = printed.firstMatch(of: /"reason":"([A-Za-z]+)"/)?.output.1
            return [status, reason].compactMap { $0.map(String.init) }.joined(separator: " ")
        }
    }

    private static func configuration(_ faults: [Fault] = []) throws -> SimulatorConfiguration {
        var configuration = try Fixture.configuration(faults)
        configuration.http2.tokenKeys["KEY0000001"] = .init(
            key: try ES256PrivateKey(bytes: Fixture.provider.get().keyPEM).publicKey,
            teamID: "TEAM000001",
            topics: [Fixture.topic]
        )
        return configuration
    }

    private static let topic = "apns-topic: \(Fixture.topic)"

    private static func path(_ device: Int) throws -> String { "/3/device/" + (try Fixture.token(device)).hexadecimal }

    @Test(arguments: Tool.allCases, Proof.allCases)
    func `good, bad, dead and foreign tokens have their responses`(_ tool: Tool, _ proof: Proof) async throws {
        let sender = try Sender(tool, proof)
        try await Simulator.withRunning(try Self.configuration()) { simulator in
            let expected = [
                (1, "200"), (999, "400 BadDeviceToken"), (101, "410 Unregistered"),
                (102, "400 DeviceTokenNotForTopic"), (103, "400 BadDeviceToken"),
            ]
            for (device, text) in expected {
                let answer = try await sender.answer(simulator, path: try Self.path(device), [Self.topic])
                #expect(answer == text, "device \(device)")
            }
            let dead = try await sender.printed(simulator, path: try Self.path(101), [Self.topic])
            #expect(dead.contains("\"timestamp\":\(Fixture.deadSince)000"))
            let count = simulator.receivedCount(of: try Fixture.token(1))
            #expect(count == 1 && simulator.statistics.processedCount == 1)
        }
    }

    @Test(arguments: Tool.allCases, Proof.allCases)
    func `errors in a request are described`(_ tool: Tool, _ proof: Proof) async throws {
        let sender = try Sender(tool, proof)
        try await Simulator.withRunning(try Self.configuration()) { simulator in
            let expected: [(headers: [String], text: String)] = [
                (["apns-id: 1"], "400 BadMessageId"),
                (["apns-priority: 5", "apns-priority: 5"], "400 DuplicateHeaders"),
                (["apns-collapse-id: " + String(repeating: "x", count: 65)], "400 BadCollapseId"),
                (["apns-priority: 7"], "400 BadPriority"), (["apns-expiration: soon"], "400 BadExpirationDate"),
                (["apns-push-type: loud"], "400 InvalidPushType"), (["apns-push-type: voip"], "400 BadTopic"),
                (["apns-push-type: background", "apns-priority: 10"], "400 BadPriority"),
            ]
            let path = try Self.path(1)
            for (headers, text) in expected {
                let answer = try await sender.answer(simulator, path: path, headers + [Self.topic])
                #expect(answer == text, "\(headers)")
            }
            let foreign = try await sender.answer(simulator, path: path, ["apns-topic: com.example.other"])
            #expect(foreign == "400 TopicDisallowed")
            let bare = try await sender.answer(simulator, path: path, [])
            #expect(bare == (proof == .certificate ? "200" : "400 MissingTopic"))
            let long = String(repeating: " ", count: 4097)
            let bodies = [("no JSON", "400 PayloadEmpty"), (long, "413 PayloadTooLarge")]
            for (body, text) in bodies {
                #expect(try await sender.answer(simulator, path: path, [Self.topic], body: body) == text)
            }
            let paths = [("/3/device/", "400 MissingDeviceToken"), ("/4/device/00", "404 BadPath")]
            for (path, text) in paths {
                #expect(try await sender.answer(simulator, path: path, [Self.topic]) == text)
            }
            #expect(simulator.statistics.processedCount == (proof == .certificate ? 1 : 0))
        }
    }

    @Test(arguments: Proof.allCases)
    func `nghttp receives responses to many requests on one connection`(_ proof: Proof) async throws {
        let sender = try Sender(.nghttp, proof)
        try await Simulator.withRunning(try Self.configuration()) { simulator in
            let path = try Self.path(1)
            let printed = try await sender.printed(simulator, path: path, [Self.topic], ["-m", "200"])
            #expect(printed.matches(of: /:status: 200/).count == 200)
            let count = simulator.receivedCount(of: try Fixture.token(1))
            #expect(count == 200 && simulator.statistics.processedCount == 200)
        }
    }

    @Test func `nghttp receives the reason of a GOAWAY`() async throws {
        let sender = try Sender(.nghttp, .certificate)
        let fault = Fault(at: .notification(1), .goAway(.serviceUnavailable))
        try await Simulator.withRunning(try Self.configuration([fault])) { simulator in
            let printed = try await sender.printed(simulator, path: try Self.path(1), [])
            #expect(printed.contains("recv GOAWAY frame") && printed.contains("ServiceUnavailable"), "\(printed)")
        }
    }

    @Test func `curl receives both identifiers of a request`() async throws {
        let sender = try Sender(.curl, .certificate)
        try await Simulator.withRunning(try Self.configuration()) { simulator in
            let name = "123e4567-e89b-42d3-a456-426614174000"
            let printed = try await sender.printed(simulator, path: try Self.path(1), ["apns-id: \(name)"])
            #expect(printed.contains("apns-id: \(name)") && printed.contains("apns-unique-id: "))
        }
    }
}
