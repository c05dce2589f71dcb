// SPDX-License-Identifier: Apache-2.0

import APNSTestKit
import APNSWire
import Foundation
import NIOCore
import OpenSSLTLS
import TestSupport
import Testing

/// The whole gateway as in production: independent providers on one side, an independent HTTP/2 server on the other.
@Suite(.serialized, .timeLimit(.minutes(10))) struct GatewayTests {
    private static func token(_ number: Int) throws -> DeviceToken {
        try DeviceToken(bytes: [UInt8](repeating: 0xB0, count: 30) + [UInt8(number >> 8), UInt8(number & 255)])
    }

    static let repository = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()
        .deletingLastPathComponent()

    @Test(arguments: PythonProvider.all)
    func `an independent client identifies the bad token, and each of the rest is sent once`(
        _ client: PythonProvider
    ) async throws {
        let tokens = try (1...100).map { try Self.token($0).hexadecimal }
        let (bad, dead) = (tokens[39], tokens[69])
        let (requests, ending) = try await GatewayScene.run(bad: [bad], dead: [dead]) { scene in
            try scene.folder.write("tokens", Array(tokens.joined(separator: "\n").utf8))
            let outcome = try await client.send(
                port: scene.port,
                identity: scene.folder.path("provider.pem"),
                trust: scene.folder.path("ca.pem"),
                tokens: scene.folder.path("tokens")
            )
            #expect(outcome.failed == [bad: client.invalidToken])
            #expect(outcome.succeeded == tokens.filter { $0 != bad })
            let tuple = FeedbackTuple(token: try Self.token(70), failedAt: 1_700_000_000)
            #expect(try await scene.feedback() == [tuple])
            // The gateway may not have seen the close yet; each further connection gives it time.
            var rest = [tuple]
            for _ in 0..<20 where !rest.isEmpty { rest = try await scene.feedback() }
            #expect(rest == [])
        }
        #expect(ending.code == 0, "\(ending)")
        let counts = Dictionary(requests.map { ($0.token, 1) }, uniquingKeysWith: +)
        #expect(counts == Dictionary(uniqueKeysWithValues: tokens.map { ($0, 1) }))
        #expect(Set(requests.map(\.topic)) == [GatewayProgram.topic])
        #expect(Set(requests.map(\.pushType)) == ["alert"])
    }

    @Test func `the example configuration is valid`() async throws {
        let example = Self.repository.appending(path: "docs/gateway/gateway.yaml").path
        let ending = try await Child(["gateway", "check", "--config", example]).end()
        #expect(ending.code == 0, "\(ending)")
    }

    @Test func `an invalid configuration ends with 78, a missing one with 66`() async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "apns-legacy-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let file = folder.appending(path: "gateway.yaml").path
        let missing = try await Child(["gateway", "check", "--config", file]).end()
        #expect(missing.code == 66, "\(missing)")
        try Data("listen: {prot: 1}\n".utf8).write(to: URL(filePath: file))
        let faulty = try await Child(["gateway", "check", "--config", file]).end()
        #expect(faulty.code == 78, "\(faulty)")
    }
}
