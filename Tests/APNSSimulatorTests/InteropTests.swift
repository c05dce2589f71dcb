// SPDX-License-Identifier: Apache-2.0

import APNSSimulator
import APNSTestKit
import APNSWire
import Foundation
import NIOCore
import TestSupport
import Testing

/// Clients of another make against the front: what they say became of their notifications must be true.
@Suite(.serialized, .timeLimit(.minutes(10)))
struct InteropTests {
    typealias Fixture = SimulatorFixture

    /// What a client says.
    struct Outcome: Decodable {
        var succeeded: [String]
        /// Token and, as the client puts it, the reason.
        var failed: [String: Reason]
        var rounds: Int
        var seconds: Double
    }

    /// A status, or the client's words for one.
    enum Reason: Decodable, Equatable {
        case status(Int)
        case words(String)

        init(from decoder: any Decoder) throws {
            let container = try decoder.singleValueContainer()
            if let status = try? container.decode(Int.self) {
                self = .status(status)
            } else {
                self = .words(try container.decode(String.self))
            }
        }
    }

    struct Client: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var package: String
        var reason: Reason
    }

    static let clients = [
        Client(testDescription: "pushjack", package: "pushjack==1.6.0", reason: .status(8)),
        Client(testDescription: "apns-clerk", package: "apns-clerk==0.2.0", reason: .words("Invalid token")),
    ]

    static let script = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .appending(path: "Interop/python_clients.py")

    @Test(arguments: clients)
    func `a client of another make blames the one bad token and sends the rest`(_ client: Client) async throws {
        let environment = try await PythonEnvironment(client.package)
        let folder = FileManager.default.temporaryDirectory.appending(path: "apns-legacy-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let tokens = Array(1...60) + [999] + Array(61...100)
        let texts = try tokens.map { try Fixture.token($0).hexadecimal }
        let files = ["identity", "trust", "tokens"].map { folder.appending(path: $0) }
        try Data(try Fixture.provider.get().pem).write(to: files[0])
        try Data(try Fixture.authority.get().certificatePEM).write(to: files[1])
        try Data(texts.joined(separator: "\n").utf8).write(to: files[2])
        try await Simulator.withRunning(try Fixture.configuration()) { simulator in
            let printed = try await Program.run(
                environment.python,
                [
                    Self.script.path, client.testDescription, "--port", "\(simulator.gatewayPort)",
                    "--identity", files[0].path, "--trust", files[1].path, "--tokens", files[2].path,
                ],
                deadlineSeconds: 60
            )
            let outcome = try JSONDecoder().decode(Outcome.self, from: printed)
            let bad = try Fixture.token(999).hexadecimal
            #expect(outcome.failed == [bad: client.reason])
            #expect(outcome.succeeded == texts.filter { $0 != bad })
            for number in 1...100 { #expect(simulator.deliveryCount(of: try Fixture.token(number)) == 1) }
            #expect(simulator.statistics.rejectedCount == 1)
            #expect(simulator.statistics.endings[8] == 1)
        }
    }

    /// Goal: the plainest peer that there is gets the six octets.
    ///
    /// Method: `openssl s_client` copies octets to the front, and what comes back to its output.
    @Test(arguments: [true, false]) func `openssl s_client gets the six octets`(isProbe: Bool) async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "apns-legacy-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let (identity, trust) = (folder.appending(path: "identity"), folder.appending(path: "trust"))
        try Data(try Fixture.provider.get().pem).write(to: identity)
        try Data(try Fixture.authority.get().certificatePEM).write(to: trust)
        try await Simulator.withRunning(try Fixture.configuration()) { simulator in
            var octets = try Fixture.messages(20)
            octets.writeImmutableBuffer(isProbe ? try Fixture.probe(21) : try Fixture.message(21, to: 999))
            let answer = try await Program.run(
                "/usr/bin/env",
                [
                    "openssl", "s_client", "-connect", "127.0.0.1:\(simulator.gatewayPort)", "-quiet",
                    "-cert", identity.path, "-key", identity.path, "-CAfile", trust.path, "-verify_return_error",
                ],
                input: Data(octets.readableBytesView),
                keepsInputOpen: true,
                deadlineSeconds: 30
            )
            #expect(Array(answer) == Fixture.response(isProbe ? 2 : 8, 21))
            #expect(simulator.statistics.processedCount == 20)
        }
    }
}
