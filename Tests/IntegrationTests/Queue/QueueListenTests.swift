// SPDX-License-Identifier: Apache-2.0

#if PostgreSQL
import APNSSimulator
import Glibc
import TestSupport
import Testing

/// Goal: a worker with `--listen` is told of batches, and says so if it cannot be.
@Suite(
    .enabled(if: QueueScene.isPossible, "There is no PostgreSQL, or this is a build without its trait."),
    .timeLimit(.minutes(2))
) struct QueueListenTests {
    @Test func `a batch is sent at once, also after the session to listen was lost`() async throws {
        let scene = try SendScene()
        let path = try scene.write("batch.jsonl", (1...10).map { SendScene.line($0) }.joined())
        try await QueueScene.with(scene) { queue in
            try await SendScene.withGateway(deviceCount: 10) { simulator in
                // Such a worker would ask again after 15 seconds at the earliest.
                let options = ["--listen", queue.server.address]
                let words = queue.worker(simulator.http2Port, "http2", results: "r.jsonl", options)
                let streams = Child.Streams(error: scene.path("worker.err"))
                let worker = try Child(words.filter { $0 != "--until-done" }, streams)
                for count in 1...4 {
                    try await eventually("the worker listens, and has found nothing since") {
                        try await queue.number(
                            """
                            SELECT count(*) FROM pg_stat_activity AS a JOIN pg_stat_activity AS b
                                ON b.application_name = 'apns-legacy' AND b.state = 'idle' AND b.pid <> a.pid
                            WHERE a.query LIKE 'LISTEN%' AND b.state_change > a.state_change;
                            """
                        ) > 0
                    }
                    #expect(try await queue.load(path).ending.code == 0)
                    try await eventually("batch \(count) is done", within: .seconds(10)) {
                        try simulator.count(10) == count
                    }
                    guard count == 2 else { continue }
                    let ended =
                        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE query LIKE 'LISTEN%';"
                    #expect(try await queue.number(ended) == 1)
                    try await eventually("the loss is reported") { scene.read("worker.err").contains("Retrying") }
                }
                worker.send(SIGTERM)
                #expect(try await worker.end().code == 0, "\(scene.read("worker.err"))")
            }
        }
    }

    @Test(.enabled(if: PgBouncer.isInstalled))
    func `a worker that is told nothing, because of a pooler, says so, and asks`() async throws {
        let scene = try SendScene()
        let path = try scene.write("batch.jsonl", (1...10).map { SendScene.line($0) }.joined())
        try await QueueScene.with(scene) { queue in
            let pooler = try await PgBouncer(in: scene.folder, for: queue.server)
            try await SendScene.withGateway(deviceCount: 10) { simulator in
                let words = queue.worker(
                    simulator.http2Port,
                    "http2",
                    results: "r.jsonl",
                    ["--listen", pooler.address]
                )
                let streams = Child.Streams(error: scene.path("worker.err"))
                let worker = try Child(words.filter { $0 != "--until-done" }, streams)
                try await eventually("the worker reports it", within: .seconds(20)) {
                    scene.read("worker.err").contains("delivers no notifications, as behind a pooler")
                }
                #expect(try await queue.load(path).ending.code == 0)
                try await eventually("the batch is done") { try simulator.count(10) == 1 }
                worker.send(SIGTERM)
                #expect(try await worker.end().code == 0, "\(scene.read("worker.err"))")
            }
            await pooler.stop()
        }
    }
}
#endif
