// SPDX-License-Identifier: Apache-2.0

import APNSSimulator
import Foundation
import TestSupport
import Testing

/// Goal: a queue in PostgreSQL has what was loaded, and its commands report it; also through a pooler.
@Suite(
    .enabled(if: QueueScene.isPossible, "There is no PostgreSQL, or this is a build without its trait."),
    .timeLimit(.minutes(2))
) struct QueueTests {
    let scene: SendScene

    init() throws { self.scene = try SendScene() }

    @Test func `a batch is loaded, sent, counted and dropped`() async throws {
        let lines = (1...250).map { SendScene.line($0 == 100 ? 1_000_100 : $0, id: "\"n\($0)\"") }
        let path = try self.scene.write("batch.jsonl", lines[..<200].joined() + "no JSON\n" + lines[200...].joined())
        try await QueueScene.with(self.scene) { queue in
            #expect(try await queue.run("init").ending.code == 65)
            let loaded = try await queue.load(path, ["--chunk", "40", "--log-format", "json"])
            #expect(loaded.ending.code == 1 && loaded.output.contains("250 notifications in 7 chunks"), "\(loaded)")
            #expect(try loaded.messages.map(\.line) == [201])
            let waiting = try await queue.run("status", SendScene.json)
            #expect(try waiting.counts["left"] == 250 && waiting.counts["ready"] == 1, "\(waiting)")
            try await SendScene.withGateway(deviceCount: 300) { simulator in
                let words = queue.worker(simulator.http2Port, "http2", results: "results.jsonl", SendScene.json)
                let run = try await self.scene.run(words)
                #expect(run.ending.code == 1, "\(run)")
                #expect(try run.counts["accepted"] == 249 && run.counts["rejected"] == 1, "\(run)")
                for device in 1...250 where device != 100 { #expect(try simulator.count(device) == 1) }
            }
            let results = try self.scene.results()
            #expect(results.map(\.line).sorted() == Array(1...200) + Array(202...251))
            #expect(results.filter { $0.outcome != "accepted" }.map(\.line) == [100])
            #expect(self.scene.read("results.jsonl").contains(#""line":251,"id":"n250""#))
            let identifiers = self.scene.read("results.jsonl").matches(of: /"apnsId":"([0-9A-Fa-f-]{36})"/).map(\.1)
            #expect(Set(identifiers).count == 250)
            #expect(try await queue.exceptions().map(\.line) == [100])
            let metrics = self.scene.path("queue.prom")
            let done = try await queue.run("status", ["--metrics-file", metrics])
            let samples = self.scene.read("queue.prom")
            let kinds = DocumentedMetrics.kinds(samples).filter { !$0.key.hasPrefix("apns_legacy_job_") }
            #expect(try kinds == DocumentedMetrics().queue)
            #expect(samples.contains(#"apns_legacy_queue_left_notifications{command="queue status",name="queue"} 0"#))
            let row = #/1 +com.example.app +production +done +250 +250 +249 +1 +0 +0 .*/#
            #expect(done.output.split(separator: "\n").contains { $0.wholeMatch(of: row) != nil }, "\(done)")
            #expect(try await queue.number("SELECT count(*) FROM pg_class WHERE relname ~ '^chunk_[0-9]+$';") == 0)
            #expect(try await queue.run("verify").ending.code == 0)
            #expect(try await queue.run("cancel", ["1"]).ending.code == 65)
            #expect(try await queue.run("cancel", ["7"]).ending.code == 65)
        }
    }

    @Test func `a damaged chunk is left out, and the others are sent once`() async throws {
        let path = try self.scene.write("batch.jsonl", (1...60).map { SendScene.line($0) }.joined())
        try await QueueScene.with(self.scene) { queue in
            #expect(try await queue.load(path, ["--chunk", "10"]).ending.code == 0)
            try await queue.server.run("UPDATE apns_queue.chunk SET tokens = '' WHERE no = 2;")
            try await SendScene.withGateway(deviceCount: 60) { simulator in
                for _ in 0..<2 {
                    let words = queue.worker(simulator.http2Port, "http2", results: "results.jsonl")
                    let run = try await self.scene.run(words)
                    #expect(run.ending.code == 65 && run.error.contains("chunk 2 of batch 1 is damaged"), "\(run)")
                }
                for device in 1...60 {
                    #expect(try simulator.count(device) == ((21...30).contains(device) ? 0 : 1), "\(device)")
                }
            }
            #expect(try await queue.number("SELECT sum(accepted) FROM apns_queue.chunk_state;") == 50)
            #expect(try await queue.run("verify").ending.code == 0)
        }
    }

    @Test func `what is promised by a commit is on the disk, whatever the server's default is`() async throws {
        let path = try self.scene.write("batch.jsonl", (1...30).map { SendScene.line($0) }.joined())
        try await QueueScene.with(self.scene) { queue in
            try await queue.server.run(
                """
                ALTER ROLE tests SET synchronous_commit = off;
                CREATE TABLE seen (setting text);
                CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS
                    'BEGIN INSERT INTO seen VALUES (current_setting(''synchronous_commit'')); RETURN NULL; END';
                CREATE CONSTRAINT TRIGGER see AFTER UPDATE ON apns_queue.chunk_state DEFERRABLE INITIALLY DEFERRED
                    FOR EACH ROW WHEN (NEW.written > OLD.written OR NEW.proved > OLD.proved) EXECUTE FUNCTION see();
                """
            )
            #expect(try await queue.load(path, ["--chunk", "10"]).ending.code == 0)
            try await SendScene.withGateway(deviceCount: 30) { simulator in
                let run = try await self.scene.run(
                    queue.worker(simulator.http2Port, "http2", results: "results.jsonl")
                )
                #expect(run.ending.code == 0, "\(run)")
            }
            let seen = try await queue.server.run("SELECT setting, count(*) FROM seen GROUP BY setting;")
            #expect(seen == "on|6\n")
        }
    }

    @Test func `verify names each difference`() async throws {
        let path = try self.scene.write("batch.jsonl", (1...30).map { SendScene.line($0) }.joined())
        try await QueueScene.with(self.scene) { queue in
            for _ in 0..<2 { #expect(try await queue.load(path, ["--chunk", "10"]).ending.code == 0) }
            #expect(try await queue.run("verify").ending.code == 0)
            try await queue.server.run(
                """
                UPDATE apns_queue.chunk_state SET written = 3, proved = 3, accepted = 2 WHERE batch = 1 AND no = 0;
                UPDATE apns_queue.chunk_state SET written = 1, proved = 1, rejected = 1 WHERE batch = 1 AND no = 1;
                DELETE FROM apns_queue.chunk WHERE batch = 1 AND no = 2;
                DELETE FROM apns_queue.chunk_state WHERE batch = 2 AND no = 1;
                INSERT INTO apns_queue.outcome (batch, no, index, outcome, duplicate, attempts, line, token)
                    VALUES (2, 0, 99, 'rejected', false, 1, 1, '');
                """
            )
            let run = try await queue.run("verify", SendScene.json)
            let report = try JSONSerialization.jsonObject(with: Data(run.output.utf8)) as? [String: Any]
            let texts = report?["differences"] as? [String] ?? []
            let expected = [
                "batch 1, chunk 0: 3 notifications have an outcome, but their counts are 2",
                "batch 1, chunk 1: 1 rejected are counted, but there are 0",
                "batch 1, chunk 2: its notifications are missing",
                "batch 2: it was loaded with 30 notifications in 3 chunks, but has 20 in 2",
                "batch 2, chunk 0: 0 rejected are counted, but there are 1",
                "batch 2, chunk 0: there are outcomes of notifications that do not exist",
                "batch 2, chunk 1: its state is missing",
            ]
            #expect(run.ending.code == 2 && texts == expected, "\(run)")
        }
    }

    @Test func `a batch that is cancelled is not sent`() async throws {
        let path = try self.scene.write("batch.jsonl", (1...30).map { SendScene.line($0) }.joined())
        try await QueueScene.with(self.scene) { queue in
            #expect(try await queue.load(path).ending.code == 0)
            #expect(try await queue.run("cancel", ["1"]).ending.code == 0)
            try await SendScene.withGateway { simulator in
                let run = try await self.scene.run(queue.worker(simulator.gatewayPort, "binary", results: "r.jsonl"))
                #expect(run.ending.code == 0 && self.scene.read("r.jsonl").isEmpty, "\(run)")
                #expect(try simulator.count(1) == 0)
            }
            #expect(try await queue.run("verify").ending.code == 0)
        }
    }

    @Test func `a batch whose payloads are too long for a worker is no success`() async throws {
        let path = try self.scene.write("tokens.txt", SendScene.token(1) + "\n")
        let payload = #"{"aps":{"alert":""# + String(repeating: "x", count: 3000) + #""}}"#
        let payloadPath = try self.scene.write("payload.json", payload)
        try await QueueScene.with(self.scene) { queue in
            let loaded = try await queue.load(path, ["--format", "tokens", "--payload", payloadPath])
            #expect(loaded.ending.code == 0, "\(loaded)")
            try await SendScene.withGateway { simulator in
                let run = try await self.scene.run(queue.worker(simulator.gatewayPort, "binary", results: "r.jsonl"))
                #expect(run.ending.code == 1 && run.error.contains("batch 1 has payloads of more than"), "\(run)")
            }
        }
    }

    @Test(arguments: ["binary", "http2"])
    func `a worker refuses batches of a topic that its certificate does not have`(transport: String) async throws {
        try await QueueScene.with(self.scene) { queue in
            try await SendScene.withGateway { simulator in
                let port = transport == "binary" ? simulator.gatewayPort : simulator.http2Port
                let words = queue.worker(port, transport, results: "r.jsonl", ["--topic", "com.example.other"])
                let run = try await self.scene.run(words)
                #expect(run.ending.code == 78 && run.error.contains("com.example.app, so"), "\(run)")
            }
        }
    }

    @Test func `a worker goes on when its server was restarted`() async throws {
        let path = try self.scene.write("batch.jsonl", (1...1000).map { SendScene.line($0) }.joined())
        try await QueueScene.with(self.scene) { queue in
            #expect(try await queue.load(path, ["--chunk", "20"]).ending.code == 0)
            let pace = Fault(at: .always, .delay(.milliseconds(100)))
            try await SendScene.withGateway(deviceCount: 1000, faults: [pace]) { simulator in
                let words = queue.worker(simulator.http2Port, "http2", results: "r.jsonl")
                let worker = try Child(words, Child.Streams(error: self.scene.path("worker.err")))
                try await eventually("something is proved") {
                    try await queue.number("SELECT sum(proved) FROM apns_queue.chunk_state;") > 0
                }
                await queue.server.stop()
                try await queue.server.start()
                let ending = try await worker.end()
                let text = self.scene.read("worker.err")
                #expect(ending.code == 0 && text.contains("Retrying"), "\(ending) \(text)")
                for device in 1...1000 { #expect(try simulator.count(device) == 1, "device \(device)") }
            }
            #expect(try self.scene.results("r.jsonl").map(\.line).sorted() == Array(1...1000))
            #expect(try await queue.run("verify").ending.code == 0)
        }
    }

    @Test(.enabled(if: PgBouncer.isInstalled)) func `a pooler in transaction mode may be in between`() async throws {
        let path = try self.scene.write("batch.jsonl", (1...100).map { SendScene.line($0) }.joined())
        try await QueueScene.with(self.scene) { queue in
            let pooler = try await PgBouncer(in: self.scene.folder, for: queue.server)
            let options = ["--topic", SendScene.topic, "--chunk", "10", path]
            let loaded = try await queue.run("load", options, address: pooler.address)
            #expect(loaded.ending.code == 0, "\(loaded)")
            try await SendScene.withGateway { simulator in
                var words = queue.worker(simulator.gatewayPort, "binary", results: "r.jsonl", SendScene.json)
                words[3] = pooler.address
                let run = try await self.scene.run(words)
                #expect(try run.ending.code == 0 && run.counts["accepted"] == 100, "\(run)")
            }
            for name in ["status", "verify"] {
                let run = try await queue.run(name, address: pooler.address)
                #expect(run.ending.code == 0, "\(run)")
            }
            await pooler.stop()
        }
    }
}
