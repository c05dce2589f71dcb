// SPDX-License-Identifier: Apache-2.0

import APNSSimulator
import APNSTestKit
import APNSWire
import Foundation
import NIOCore
import TestSupport
import Testing

/// Independent clients at the listener: the outcomes that they report must be true.
@Suite(.serialized, .timeLimit(.minutes(10)))
struct InteropTests {
    typealias Fixture = SimulatorFixture

    @Test(arguments: PythonProvider.all)
    func `an independent client identifies the one bad token and sends the rest`(_ client: PythonProvider) async throws
    {
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
            let outcome = try await client.send(
                port: simulator.gatewayPort,
                identity: files[0].path,
                trust: files[1].path,
                tokens: files[2].path
            )
            let bad = try Fixture.token(999).hexadecimal
            #expect(outcome.failed == [bad: client.invalidToken])
            #expect(outcome.succeeded == texts.filter { $0 != bad })
            for number in 1...100 { #expect(simulator.receivedCount(of: try Fixture.token(number)) == 1) }
            #expect(simulator.statistics.rejectedCount == 1)
            #expect(simulator.statistics.endings[8] == 1)
        }
    }

    /// Goal: the outcomes that the client reports match the simulator's record.
    ///
    /// A dead token is not an error in the binary protocol, but is listed by feedback; unknown tokens and those of
    /// another app are rejected.
    @Test(arguments: PythonProvider.all)
    func `an independent client and the record agree on each notification`(_ client: PythonProvider) async throws {
        let folder = try TemporaryFolder()
        // Device 999 is unknown, 101 has deleted the app, 102 is of another app, 103 is of the other environment.
        let refused = [999, 102, 103]
        let devices = [1, 999, 2, 101, 3, 102, 4, 103, 5]
        let texts = try devices.map { try Fixture.token($0).hexadecimal }
        let identity = try folder.write("identity", Fixture.provider.get().pem)
        let trust = try folder.write("trust", Fixture.authority.get().certificatePEM)
        let tokens = try folder.write("tokens", Array(texts.joined(separator: "\n").utf8))
        try await Simulator.withRunning(try Fixture.configuration()) { simulator in
            let outcome = try await client.send(
                port: simulator.gatewayPort,
                identity: identity,
                trust: trust,
                tokens: tokens
            )
            let said = texts.map { "\($0) \(outcome.failed[$0] == client.invalidToken ? "refused" : "accepted")" }
            let recorded = simulator.record.map { notification in
                let isRefused = notification.rejection == .binary(.invalidToken)
                #expect(isRefused || notification.rejection == nil)
                return "\(notification.token?.hexadecimal ?? "") \(isRefused ? "refused" : "accepted")"
            }
            #expect(said == recorded)
            #expect(Set(outcome.failed.keys) == Set(try refused.map { try Fixture.token($0).hexadecimal }))
            #expect(outcome.succeeded == texts.filter { outcome.failed[$0] == nil })
            let environment = try await PythonEnvironment("apns-clerk==0.2.0")
            let printed = try await Program.run(
                environment.python,
                [
                    PythonProvider.script, "apns-clerk-feedback", "--port", "\(simulator.feedbackPort)",
                    "--identity", identity, "--trust", trust,
                ],
                deadlineSeconds: 60
            )
            let feedback = try JSONDecoder().decode(Feedback.self, from: printed).feedback
            #expect(feedback == [[.token(try Fixture.token(101).hexadecimal), .seconds(Int(Fixture.deadSince))]])
        }
    }

    /// Goal: the simplest client receives the six bytes.
    ///
    /// Method: `openssl s_client` copies bytes to the listener, and the response to its output.
    @Test(arguments: [true, false]) func `openssl s_client receives the six bytes`(isProbe: Bool) async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "apns-legacy-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let (identity, trust) = (folder.appending(path: "identity"), folder.appending(path: "trust"))
        try Data(try Fixture.provider.get().pem).write(to: identity)
        try Data(try Fixture.authority.get().certificatePEM).write(to: trust)
        try await Simulator.withRunning(try Fixture.configuration()) { simulator in
            var bytes = try Fixture.messages(20)
            bytes.writeImmutableBuffer(isProbe ? try Fixture.probe(21) : try Fixture.message(21, to: 999))
            let answer = try await Program.run(
                "/usr/bin/env",
                [
                    "openssl", "s_client", "-connect", "127.0.0.1:\(simulator.gatewayPort)", "-quiet",
                    "-cert", identity.path, "-key", identity.path, "-CAfile", trust.path, "-verify_return_error",
                ],
                input: Data(bytes.readableBytesView),
                keepsInputOpen: true,
                deadlineSeconds: 30
            )
            #expect(Array(answer) == Fixture.response(isProbe ? 2 : 8, 21))
            #expect(simulator.statistics.processedCount == 20)
        }
    }

    /// The output of a feedback reader.
    struct Feedback: Decodable {
        /// The token and seconds.
        var feedback: [[Entry]]

        enum Entry: Decodable, Hashable {
            case token(String)
            case seconds(Int)

            init(from decoder: any Decoder) throws {
                let container = try decoder.singleValueContainer()
                if let seconds = try? container.decode(Int.self) {
                    self = .seconds(seconds)
                } else {
                    self = .token(try container.decode(String.self))
                }
            }
        }
    }

    @Test func `an independent feedback reader reads the whole list, which is then empty`() async throws {
        let environment = try await PythonEnvironment("apns-clerk==0.2.0")
        let folder = FileManager.default.temporaryDirectory.appending(path: "apns-legacy-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let (identity, trust) = (folder.appending(path: "identity"), folder.appending(path: "trust"))
        try Data(try Fixture.provider.get().pem).write(to: identity)
        try Data(try Fixture.authority.get().certificatePEM).write(to: trust)
        try await Simulator.withRunning(try Fixture.configuration()) { simulator in
            var expected: Set<[Feedback.Entry]> = []
            for number in 1...100 {
                let token = try Fixture.token(number)
                let time = Fixture.deadSince + UInt32(number)
                simulator.remove(token, at: Timestamp(secondsSince1970: Int64(time)))
                expected.insert([.token(token.hexadecimal), .seconds(Int(time))])
            }
            let ending = try await ScriptedProvider.withConnection(
                port: simulator.gatewayPort,
                tls: try Fixture.client()
            ) { provider in
                var bytes = try Fixture.messages(100)
                bytes.writeImmutableBuffer(try Fixture.probe(101))
                provider.push(bytes)
                return try await provider.end()
            }
            #expect(ending.bytes == Fixture.response(2, 101))
            let printed = try await Program.run(
                environment.python,
                [
                    PythonProvider.script, "apns-clerk-feedback", "--port", "\(simulator.feedbackPort)",
                    "--identity", identity.path, "--trust", trust.path,
                ],
                deadlineSeconds: 60
            )
            let said = try JSONDecoder().decode(Feedback.self, from: printed)
            #expect(said.feedback.count == 100)
            #expect(Set(said.feedback).symmetricDifference(expected) == [])
            let again = try await Program.run(
                environment.python,
                [
                    PythonProvider.script, "apns-clerk-feedback", "--port", "\(simulator.feedbackPort)",
                    "--identity", identity.path, "--trust", trust.path,
                ],
                deadlineSeconds: 60
            )
            #expect(try JSONDecoder().decode(Feedback.self, from: again).feedback.isEmpty)
        }
    }
}
