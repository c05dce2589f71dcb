// SPDX-License-Identifier: Apache-2.0

#if PostgreSQL
import APNSWire
import Foundation
import TestSupport
import Testing
import TokenStore

/// Goal: a worker that is suspended, or whose network is gone, leaves nothing locked for which others would wait.
///
/// Method: a relay that forwards nothing from one message of the client on, for each message of a worker's life.
@Suite(
    .enabled(if: QueueScene.isPossible, "There is no PostgreSQL, or this is a build without its trait."),
    .timeLimit(.minutes(2))
) struct QueueStallTests {
    private static let scope = QueueScope(topic: "com.example.app", environment: .production, payloadByteCountMax: 2048)

    @Test func `others never wait for a worker whose messages do not come any more`() async throws {
        let scene = try SendScene()
        try await QueueScene.with(scene) { queue in
            let path = try scene.write("batch.jsonl", (1...4).map { SendScene.line($0) }.joined())
            var (count, isStalled) = (1, true)
            while isStalled, count < 50 {
                #expect(try await queue.load(path, ["--chunk", "2"]).ending.code == 0)
                let relay = try CommitRelay(to: queue.server.socket, .stalledAtMessage, at: count)
                let address = "postgresql://tests@127.0.0.1:\(relay.port)/postgres?sslmode=disable"
                isStalled = await withCheckedContinuation { continuation in
                    Thread.detachNewThread { continuation.resume(returning: (try? Self.live(address)) == nil) }
                }
                // What another worker, and a load, would do.
                try await eventually("nothing is locked after message \(count)", within: .seconds(5)) {
                    let open = "FROM pg_stat_activity WHERE xact_start IS NOT NULL AND pid <> pg_backend_pid()"
                    return try await queue.number("SELECT count(*) \(open) AND usename = 'tests';") == 0
                }
                relay.stop()
                count += 1
            }
            #expect(!isStalled && count > 8, "\(count) messages")
        }
    }

    /// Registers a worker, which sends a batch.
    private static func live(_ address: String) throws {
        let database = try QueueDatabase(address, timeout: .milliseconds(300))
        let worker = try database.register(host: "host", process: 1, lease: .seconds(1))
        let origin = QueueChunkKey(batch: 0, number: -1)
        var claims = try database.claim(worker, Self.scope, after: origin, countMax: 2, rules: QueueRules())
            .map { try $0.get() }
        _ = try database.mark(claims.map(\.account))
        for index in claims.indices {
            for notification in 0..<2 { claims[index].account.settle(notification, QueueOutcome(.rejected, status: 8)) }
        }
        let owned = try database.prove(claims.map { (claim: $0, proof: $0.account.proof) })
        #expect(owned.count == 2)
        _ = try database.renew(worker, lease: .seconds(1), proved: 4, rate: 1)
        try database.finishBatches()
        try database.remove(worker)
    }
}
#endif
