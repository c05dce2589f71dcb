// SPDX-License-Identifier: Apache-2.0

import APNSTestKit
import APNSWire
import Foundation
import NIOCore
import NIOPosix
import OpenSSLTLS
import TestSupport
import Testing

/// Processes that send with a client, and gateways, are repeatedly killed, stopped and restarted.
@Suite(.serialized, .timeLimit(.minutes(TestEffort.count(2, long: 30)))) struct ClientKillTests {
    private static let sequenceCount = 1500
    private static let singleCount = 120
    private static let faultCountMax = TestEffort.count(10, long: 20)

    /// Waits between one fault and the next.
    private static func pass(_ time: Duration) async throws {
        try await MultiThreadedEventLoopGroup.singleton.any().scheduleTask(in: TimeAmount(time)) {}.futureResult.get()
    }

    /// A gateway that records each notification before it responds, and rejects some of them.
    private protocol RecordingGateway: AnyObject {
        func start() async throws
        /// Kills it, with all of its connections.
        func kill() async throws
        /// Pauses it for a time, if it is a process.
        func pause(for duration: Duration) async throws
        /// The numbers of the notifications that it accepted, including those before restarts.
        var taken: [Int] { get throws }
    }

    /// An independent gateway as a separate process.
    private final class PythonGateway: RecordingGateway {
        private let scene: SendScene
        private let port: Int
        private var child: Child?

        init(_ scene: SendScene, port: Int) throws {
            (self.scene, self.port) = (scene, port)
            try scene.write("gateway.pem", SendScene.gateway.get().pem)
        }

        func start() async throws {
            let script = URL(filePath: #filePath).deletingLastPathComponent()
                .appending(path: "../../Interop/recording_gateway.py").path
            let options = [
                "--port", "\(self.port)", "--identity", self.scene.path("gateway.pem"), "--trust",
                self.scene.path("ca.pem"), "--record", self.scene.path("taken"),
            ]
            let words = ["python3", script] + options
            let log = self.scene.path("gateway.err")
            self.child = try await Child.start(words, program: "/usr/bin/env", log: log).child
        }

        func kill() async throws {
            self.child?.send(SIGKILL)
            _ = try await self.child?.end()
        }

        func pause(for duration: Duration) async throws {
            self.child?.send(SIGSTOP)
            try await ClientKillTests.pass(duration)
            self.child?.send(SIGCONT)
        }

        var taken: [Int] { self.scene.read("taken").split(separator: "\n").compactMap { Int($0) } }
    }

    /// The gateway of the test kit, in this process.
    private final class KitGateway: RecordingGateway {
        private let port: Int
        private let tls: TLSConfiguration
        private var gateway: ScriptedGateway?
        private var records: [GatewayRecord] = []

        init(port: Int) throws {
            self.port = port
            self.tls = .server(
                identity: try SendScene.gateway.get().identity,
                trust: try SendScene.authority.get().trust
            )
        }

        func start() async throws {
            self.gateway = try await ScriptedGateway.start(tls: self.tls, port: self.port) { _ in
                GatewayScript {
                    $0.action = { frame, _ in Self.number(frame).isRefused ? .refuse(.invalidToken) : .accept }
                }
            }
        }

        func kill() async throws {
            try await self.gateway?.stop()
            self.records += self.gateway?.records ?? []
            self.gateway = nil
        }

        func pause(for duration: Duration) async throws { try await ClientKillTests.pass(duration) }

        var taken: [Int] { (self.records + (self.gateway?.records ?? [])).flatMap { $0.accepted.map(Self.number) } }

        private static func number(_ frame: NotificationFrame) -> Int {
            frame.token?.bytes.suffix(4).reduce(0) { $0 << 8 | Int($1) } ?? -1
        }
    }

    /// Goal: the outcomes that a client reports are true, regardless of kills: every notification reported as accepted
    /// was accepted; none was accepted twice unless it was flagged, or its process died before it could flag it; and a
    /// process that was not killed reported each of its notifications once.
    ///
    /// Method: a process keeps a journal of what it sent and received, a gateway one of what it accepted. Both are
    /// killed, stopped and restarted at random times, and their journals are compared line by line.
    private func survive(_ gateway: any RecordingGateway, _ scene: SendScene, port: Int, seed: UInt64) async throws {
        var random = SplitMix64(seed: seed)
        try await gateway.start()
        var client = try Self.startClient(scene, port)
        var killed: Set<pid_t> = []
        var faultCount = 0
        while !client.hasEnded, faultCount < Self.faultCountMax {
            try await Self.pass(.milliseconds(random.below(200)))
            faultCount += 1
            let (fault, pause) = (random.below(5), Duration.milliseconds(random.below(400)))
            if [0, 4].contains(fault) {
                client.send(SIGKILL)
                if try await client.end().signal == SIGKILL {
                    killed.insert(client.pid)
                    client = try Self.startClient(scene, port)
                }
            }
            switch fault {
            case 1:
                client.send(SIGSTOP)
                try await Self.pass(pause)
                client.send(SIGCONT)
            case 2, 4:
                try await gateway.kill()
                try await Self.pass(pause)
                try await gateway.start()
            // Often longer than the client waits for a response.
            case 3: try await gateway.pause(for: pause * 4)
            default: break
            }
        }
        let ending = try await client.end()
        #expect(ending.code == 0, "seed \(seed): \(ending) \(scene.read("err"))")
        try await gateway.kill()
        let accounts = DeliveryAccounts(journal: scene.read("journal"), taken: try gateway.taken)
        let findings = accounts.findings(count: Self.sequenceCount + Self.singleCount, killed: killed)
        #expect(findings.isEmpty, "seed \(seed): \(findings.count), the first: \(findings.prefix(10))")
        #expect(faultCount > 2, "seed \(seed): it ended before much could happen")
    }

    private static func startClient(_ scene: SendScene, _ port: Int) throws -> Child {
        let provider = scene.path("provider.pem")
        let words = ["localhost", "\(port)", provider, provider, scene.path("ca.pem"), scene.path("journal")]
        return try Child(
            words + ["\(Self.sequenceCount)", "\(Self.singleCount)"],
            Child.Streams(error: scene.path("err")),
            program: Child.program(named: "SendFromAnOutbox")
        )
    }

    @Test(arguments: 1...TestEffort.count(2, long: 40) as ClosedRange<UInt64>)
    func `with an independent gateway, reported outcomes are true despite kills`(seed: UInt64) async throws {
        let (scene, port) = (try SendScene(), try ReservedPort())
        let gateway = try PythonGateway(scene, port: port.number)
        try await self.survive(gateway, scene, port: port.number, seed: seed)
    }

    @Test(arguments: 1...TestEffort.count(1, long: 20) as ClosedRange<UInt64>)
    func `with the gateway of the test kit, reported outcomes are true despite kills`(seed: UInt64) async throws {
        let (scene, port) = (try SendScene(), try ReservedPort())
        let gateway = try KitGateway(port: port.number)
        try await self.survive(gateway, scene, port: port.number, seed: 1000 + seed)
    }

    // MARK: The comparison

    @Test func `the comparison finds each kind of difference`() {
        let journal = """
            run 1
            sent 0
            sent 1
            told 0 accepted once
            run 2
            sent 1
            told 1 accepted once
            sent 2
            told 2 accepted twice
            sent 7
            told 7 rejected once

            """
        let findings = { (journal: String, taken: [Int]) in
            DeliveryAccounts(journal: journal, taken: taken).findings(numbers: [0, 1, 2, 7], killed: [1])
        }
        // Notification 1 was in flight when the process died, and 2 was flagged.
        #expect(findings(journal, [0, 1, 1, 2, 2]).isEmpty)
        #expect(findings(journal, [0, 2]) == ["1 was accepted, and not taken"])
        #expect(findings(journal, [0, 0, 1, 2]) == ["0 was taken 2 times, which was not said"])
        #expect(findings(journal, [0, 1, 2, 3]) == ["3 was taken, and not sent"])
        #expect(findings(journal, [0, 1, 2, 7]) == ["7 was rejected, and taken"])
        #expect(findings(journal + "told 0 accepted once\n", [0, 1, 2]) == ["0 has 2 outcomes"])
        #expect(findings(journal + "sent 0\n", [0, 1, 2]) == ["0 has no outcome in run 2, which was not killed"])
        let accepted = journal.replacing("7 rejected", with: "7 accepted")
        #expect(
            findings(accepted, [0, 1, 2])
                == ["7 was accepted, and is to be rejected", "7 was accepted, and not taken"]
        )
        let unsent = journal.replacing("told 2 accepted", with: "told 2 unsent")
        #expect(findings(unsent, [0, 1, 2]) == ["2 was unsent, and taken"])
        let untold = findings(String(journal.dropLast(22)), [0, 1, 2])
        #expect(untold.contains("7 has 0 outcomes"))
    }
}
