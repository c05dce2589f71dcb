// SPDX-License-Identifier: Apache-2.0

import APNSFeedback
import APNSServer
import APNSTestKit
import APNSTransport
import APNSWire
import Foundation
import TestSupport
import TokenStore
import Testing

/// Goal: of several hosts with one purge list, one reads a list of the service at a time, and records all that it read.
@Suite(
    .enabled(if: PostgreSQLServer.isInstalled, "Debian's package postgresql is not installed."),
    .enabled(if: TokenTableApplication.canOpen("postgresql://host/"), "This is a build without the trait PostgreSQL."),
    .timeLimit(.minutes(3))
) struct SharedFeedbackTests {
    let scene: SendScene
    let apply: ApplyScene

    init() throws {
        self.scene = try SendScene()
        self.apply = try ApplyScene()
    }

    private func withServer(_ body: (PostgreSQLServer) async throws -> Void) async throws {
        try await PostgreSQLServer.with(self.apply, body)
    }

    private static func store(_ count: Int) throws -> ForgetfulStore {
        let store = ForgetfulStore()
        store.add(try (0..<count).map { try SendScene.tuple($0) })
        return store
    }

    /// The arguments of a host.
    private func feedback(_ port: Int, _ list: String, _ more: [String] = []) -> [String] {
        ["feedback"] + self.scene.endpoint(port) + ["--purge-list", list, "--spool", self.scene.spool] + more
    }

    private static func acquired(_ acquisition: PurgeLease.Acquisition?) -> PurgeLease? {
        guard case .acquired(let lease) = acquisition else { return nil }
        return lease
    }

    @Test func `tokens are recorded in the shared list, which has no spool of its own`() async throws {
        let (scene, store) = (self.scene, try Self.store(50))
        try await self.withServer { server in
            let address = server.address
            try await SendScene.withFeedback(store) { port in
                let missing = try await scene.run(["feedback"] + scene.endpoint(port) + ["--purge-list", address])
                #expect(missing.ending.code == 64 && missing.error.contains("--spool FOLDER"), "\(missing)")
                let run = try await scene.run(self.feedback(port, address, SendScene.json))
                #expect(try run.ending.code == 0 && run.counts["added"] == 50, "\(run)")
                #expect(try await scene.run(self.feedback(port, address)).ending.code == 0)
            }
            let list = try PurgeList(path: address)
            #expect(try list.statistics().count == 50)
            #expect(try list.knownScopes().map(\.topic) == ["com.example.app"])
            #expect(scene.spoolNames.isEmpty)
        }
    }

    @Test func `a batch skips the tokens of the shared list, and adds those that are rejected`() async throws {
        let scene = self.scene
        try await self.withServer { server in
            let address = server.address
            let list = try PurgeList(path: address)
            let dead = PurgeEntry(
                topic: "com.example.app",
                environment: .production,
                token: try DeviceToken(SendScene.token(2)).bytes,
                failedAt: Timestamp(secondsSince1970: 1_700_000_000),
                firstSeen: Timestamp(secondsSince1970: 1_700_000_000),
                source: "feedback"
            )
            try list.record([dead])
            let batch = try scene.write("batch.jsonl", [1, 2, 1_000_000].map { SendScene.line($0) }.joined())
            try await SendScene.withGateway { simulator in
                let options = ["--purge-list", address, "--purge-environment", "production", "--purge-rejected"]
                let run = try await scene.send([batch] + options, port: simulator.gatewayPort)
                #expect(run.ending.code == 1 && run.error.contains("1 suppressed"), "\(run)")
                #expect(run.error.contains("1 rejected token added"), "\(run)")
                #expect(try simulator.count(1) == 1 && simulator.count(2) == 0)
            }
            #expect(try list.statistics().count == 2)
        }
    }

    @Test func `a lease is acquired when it ends, and its earlier holder cannot renew it`() async throws {
        try await self.withServer { server in
            let (one, other) = try (PurgeList(path: server.address), PurgeList(path: server.address))
            let first = try #require(Self.acquired(try one.acquireLease(of: "a", for: .seconds(600), holder: "one")))
            guard case .held(by: "one") = try other.acquireLease(of: "a", for: .seconds(600), holder: "other") else {
                Issue.record("two holders")
                return
            }
            #expect(Self.acquired(try other.acquireLease(of: "b", for: .seconds(600), holder: "other")) != nil)
            #expect(try one.renew(first, for: .seconds(600)))
            try await server.run("UPDATE apns_feedback_lease SET ends_at = now() - interval '1 s' WHERE name = 'a';")
            let second = try #require(
                Self.acquired(try other.acquireLease(of: "a", for: .seconds(600), holder: "other"))
            )
            #expect(try !one.renew(first, for: .seconds(600)))
            // What is released late does not end the lease of another host.
            #expect(try !one.renew(first, for: .zero))
            #expect(try other.renew(second, for: .zero))
            #expect(Self.acquired(try one.acquireLease(of: "a", for: .seconds(600), holder: "one")) != nil)
        }
    }

    @Test func `hosts that want a lease at once do not get it twice`() async throws {
        try await self.withServer { server in
            let address = server.address
            _ = try PurgeList(path: address)
            let count = try await withThrowingTaskGroup(of: Bool.self) { group in
                for host in 0..<8 {
                    group.addTask {
                        let list = try PurgeList(path: address, isMade: false)
                        return Self.acquired(try list.acquireLease(of: "a", for: .seconds(60), holder: "\(host)"))
                            != nil
                    }
                }
                return try await group.reduce(into: 0) { $0 += $1 ? 1 : 0 }
            }
            #expect(count == 1)
        }
    }

    @Test func `while another host has the lease, or the database is away, the service is not asked`() async throws {
        let (scene, store) = (self.scene, try Self.store(3))
        let fingerprint = try SendScene.provider.get().identity.certificate.fingerprint
        try await self.withServer { server in
            let list = try PurgeList(path: server.address)
            try await SendScene.withFeedback(store) { port in
                let name = "\(fingerprint) localhost:\(port)"
                let lease = Self.acquired(
                    try list.acquireLease(of: name, for: .seconds(600), holder: "host7, process 3")
                )
                let held = try await scene.run(self.feedback(port, server.address))
                #expect(held.ending.code == 75 && held.error.contains("host7, process 3"), "\(held)")
                await server.stop()
                let away = try await scene.run(self.feedback(port, server.address))
                #expect(away.ending.code == 75, "\(away)")
                try await server.start()
                #expect(store.taken.isEmpty)
                #expect(try list.renew(#require(lease), for: .zero))
                let run = try await scene.run(self.feedback(port, server.address, SendScene.json))
                #expect(try run.ending.code == 0 && run.counts["added"] == 3, "\(run)")
                #expect(store.taken.count == 1)
            }
        }
    }

    @Test func `a host whose lease was acquired by another one opens no connection`() async throws {
        let (scene, store) = (self.scene, try Self.store(3))
        try await SendScene.withFeedback(store) { port in
            var configuration = try FeedbackConfiguration(
                host: "localhost",
                port: port,
                identity: try SendScene.provider.get().identity,
                trust: .pem(try SendScene.authority.get().certificatePEM)
            )
            configuration.lease = { _, endpoint, _ in
                FeedbackLease { _ in
                    throw FeedbackError.heldElsewhere(endpoint, host: "other")
                } release: {
                }
            }
            let client = try FeedbackClient(configuration, spool: scene.spool)
            await #expect(throws: FeedbackError.heldElsewhere(configuration.endpoint, host: "other")) {
                try await client.drain { _ in }
            }
            #expect(store.taken.isEmpty)
        }
    }

    @Test func `what was read is recorded although another host has acquired the lease meanwhile`() async throws {
        let (scene, store) = (self.scene, try Self.store(50))
        try await SendScene.withFeedback(store) { port in
            var configuration = try FeedbackConfiguration(
                host: "localhost",
                port: port,
                identity: try SendScene.provider.get().identity,
                trust: .pem(try SendScene.authority.get().certificatePEM)
            )
            configuration.lease = { _, endpoint, _ in
                FeedbackLease { _ in
                } release: {
                    throw FeedbackError.heldElsewhere(endpoint, host: "other")
                }
            }
            let client = try FeedbackClient(configuration, spool: scene.spool)
            var count = 0
            let report = try await client.drain { page in count += page.stream.reduce(0) { sum, _ in sum + 1 } }
            #expect(report.tupleCount == 50 && count == 50)
        }
    }
}
