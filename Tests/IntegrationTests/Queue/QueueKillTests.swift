// SPDX-License-Identifier: Apache-2.0

import APNSSimulator
import Foundation
import TestSupport
import Testing

/// Goal: if one worker is killed, and one is stopped past its lease, each notification has exactly one outcome, none is
/// lost, and only flagged ones arrive twice.
///
/// Method: processes, a simulator that counts what each device received, and the queue afterwards.
@Suite(
    .enabled(if: QueueScene.isPossible, "There is no PostgreSQL, or this is a build without its trait."),
    .timeLimit(.minutes(2))
) struct QueueKillTests {
    private static let count = TestEffort.count(2000, long: 20_000)

    private static func device(_ line: Int) -> Int { line % 50 == 7 ? 1_000_000 + line : line }

    @Test(arguments: TestEffort.isLong ? ["http2", "binary"] : ["http2"])
    func `workers that die or stop lose nothing, and doubles are flagged`(transport: String) async throws {
        let scene = try SendScene()
        let lines = (1...Self.count).map { SendScene.line(Self.device($0)) }.joined()
        let path = try scene.write("batch.jsonl", lines)
        let pace: Fault.Effect =
            transport == "http2"
            ? .delay(.milliseconds(150)) : .slowReading(TransferPace(byteCount: 4096, interval: .milliseconds(20)))
        try await QueueScene.with(scene) { queue in
            let loaded = try await queue.load(path, ["--chunk", "50"])
            #expect(loaded.ending.code == 0, "\(loaded)")
            try await SendScene.withGateway(deviceCount: Self.count, faults: [Fault(at: .always, pace)]) { simulator in
                let port = transport == "http2" ? simulator.http2Port : simulator.gatewayPort
                try await Self.kill(queue, port, transport)
                try await Self.check(queue, simulator)
            }
        }
    }

    @Test func `with at-most-once, what a killed worker may have sent is indeterminate`() async throws {
        let (scene, count) = (try SendScene(), 600)
        let path = try scene.write("batch.jsonl", (1...count).map { SendScene.line($0) }.joined())
        try await QueueScene.with(scene) { queue in
            #expect(try await queue.load(path, ["--chunk", "20"]).ending.code == 0)
            let pace = Fault(at: .always, .delay(.milliseconds(100)))
            try await SendScene.withGateway(deviceCount: count, faults: [pace]) { simulator in
                let options = ["--lease", "2s", "--delivery", "at-most-once", "--window", "160"]
                let first = try Child(queue.worker(simulator.http2Port, "http2", results: "first.jsonl", options))
                try await eventually("a chunk is proved, and another one is being sent") {
                    let states = "SELECT count(*) FROM apns_queue.chunk_state WHERE"
                    let provedCount = try await queue.number("\(states) proved > 0;")
                    let sentCount = try await queue.number("\(states) written > proved;")
                    return provedCount > 0 && sentCount > 0 || first.hasEnded
                }
                first.send(SIGKILL)
                _ = try await first.end()
                // On a busy machine, the lease of a worker may end before it has sent everything.
                var runCount = 1
                repeat {
                    let words = queue.worker(simulator.http2Port, "http2", results: "r.jsonl", options)
                    let run = try await scene.run(words)
                    runCount += 1
                    #expect(run.ending.code == 75, "\(run)")
                } while try await queue.number("SELECT count(*) FROM apns_queue.batch WHERE state = 'ready';") > 0
                    && runCount < 10
                let held = try await queue.exceptions()
                #expect(held.allSatisfy { $0.outcome == "indeterminate" && !$0.isDuplicate })
                #expect((1...runCount * 160).contains(held.count), "\(held.count)")
                let lines = Set(held.map(\.line))
                for line in 1...count {
                    let arrivalCount = try simulator.count(line)
                    #expect(arrivalCount == 1 || arrivalCount == 0 && lines.contains(line), "line \(line)")
                }
            }
            #expect(try await queue.run("verify").ending.code == 0)
        }
    }

    /// Runs workers, of which one is killed, and one is stopped until all others are done.
    private static func kill(_ queue: QueueScene, _ port: Int, _ transport: String) async throws {
        func start(_ name: String) throws -> Child {
            let words = queue.worker(
                port,
                transport,
                results: name + ".jsonl",
                ["--lease", "2s", "--verbose", "--window", "400"]
            )
            return try Child(words, Child.Streams(error: queue.scene.path(name + ".err")))
        }
        func settledCount() async throws -> Int {
            try await queue.number("SELECT coalesce(sum(proved), 0) FROM apns_queue.chunk_state;")
        }
        func owned(_ worker: Child) async throws -> Int {
            try await queue.number(
                """
                SELECT count(*) FROM apns_queue.chunk_state AS s JOIN apns_queue.worker AS w ON w.id = s.owner
                WHERE w.process = \(worker.pid) AND s.written > s.proved;
                """
            )
        }
        let (first, second) = (try start("first"), try start("second"))
        try await eventually("something is proved") { try await settledCount() > Self.count / 10 }
        try await eventually("the first one is sending") { try await owned(first) > 0 }
        first.send(SIGKILL)
        _ = try await first.end()
        try await eventually("the second one is sending") { try await owned(second) > 0 }
        second.send(SIGSTOP)
        let third = try start("third")
        let ending = try await third.end()
        #expect(ending.code == 1, "\(ending) \(queue.scene.read("third.err"))")
        #expect(try await settledCount() == Self.count)
        second.send(SIGCONT)
        let last = try await second.end()
        #expect([0, 1].contains(last.code), "\(last) \(queue.scene.read("second.err"))")
        let text = queue.scene.read("second.err")
        #expect(text.contains("taken over") || text.contains("lease of this worker ended"), "\(text)")
    }

    /// Compares the queue, the results and what arrived.
    private static func check(_ queue: QueueScene, _ simulator: Simulator) async throws {
        let verified = try await queue.run("verify")
        #expect(verified.ending.code == 0, "\(verified)")
        #expect(try await queue.number("SELECT count(*) FROM apns_queue.batch WHERE state = 'done';") == 1)
        let exceptions = try await queue.exceptions()
        let flagged = Set(exceptions.filter(\.isDuplicate).map(\.line))
        let rejected = exceptions.filter { $0.outcome == "rejected" }.map(\.line)
        #expect(rejected == (1...Self.count).filter { $0 % 50 == 7 })
        #expect(exceptions.allSatisfy { ["accepted", "rejected"].contains($0.outcome) })
        // Of each chunk of a worker that died, all may have arrived.
        #expect(!flagged.isEmpty && flagged.count <= 2 * 400, "\(flagged.count)")
        for line in 1...Self.count where line % 50 != 7 {
            let count = try simulator.count(line)
            #expect(count == 1 || count > 1 && flagged.contains(line), "line \(line) arrived \(count) times")
        }
        let names = ["first", "second", "third"]
        let reported = try names.flatMap { try queue.scene.results($0 + ".jsonl") }
        #expect(Set(reported.map(\.line)).count == reported.count, "a line was reported twice")
        // The one that was killed may not have written what it had just committed.
        #expect(reported.count >= Self.count - 50)
        for result in reported { #expect(result.isFlagged == flagged.contains(result.line), "\(result)") }
    }
}
