// SPDX-License-Identifier: Apache-2.0

import APNSSimulator
import Foundation
import TestSupport
import Testing

/// Goal: the metrics files of cron jobs are valid and complete, and contain the time of the last success.
@Suite(.timeLimit(.minutes(2))) struct JobMetricsTests {
    /// The values by name and labels.
    private static func samples(_ path: String) throws -> [String: Double] {
        let lines = try String(contentsOfFile: path, encoding: .utf8).split(separator: "\n")
        let samples = lines.filter { !$0.hasPrefix("#") }.compactMap { line -> (String, Double)? in
            guard let end = line.lastIndex(of: " "), let value = Double(line[line.index(after: end)...]) else {
                return nil
            }
            return (String(line[..<end]), value)
        }
        return Dictionary(samples) { first, _ in first }
    }

    @Test func `a batch, a drain and a pruning report their results`() async throws {
        let (scene, apply) = (try SendScene(), try ApplyScene())
        let (send, feedback, purge) = (scene.path("send.prom"), scene.path("feedback.prom"), scene.path("purge.prom"))
        let batch = try scene.write("batch.jsonl", [1, 2, 1_000_000].map { SendScene.line($0) }.joined())
        try await SendScene.withGateway { simulator in
            let run = try await scene.send([batch, "--metrics-file", send], port: simulator.gatewayPort)
            #expect(run.ending.code == 1, "\(run.error)")
        }
        func name(_ metric: String, _ labels: String = "") -> String {
            "apns_legacy_\(metric){command=\"send\",name=\"send\"\(labels)}"
        }
        let sent = try Self.samples(send)
        #expect(sent[name("send_notifications", ",outcome=\"accepted\"")] == 2)
        #expect(sent[name("send_notifications", ",outcome=\"rejected\"")] == 1)
        #expect(sent[name("send_rejections", ",status=\"8\"")] == 1)
        #expect(sent[name("job_exit_code")] == 1)
        let success = try #require(sent[name("job_last_success_timestamp_seconds")])
        #expect(success > 0 && success == sent[name("job_end_timestamp_seconds")])
        let promtool = try await Promtool(repository: DocumentedMetrics.repository)
        try await promtool.checkMetrics(try String(contentsOfFile: send, encoding: .utf8))
        let kinds = DocumentedMetrics.kinds(try String(contentsOfFile: send, encoding: .utf8))

        // Connections to the port are refused; a failure before anything was sent has no outcomes.
        let reserved = try ReservedPort()
        let port = "\(reserved.number)"
        let missing = ["--trust", "/missing", "--host", "localhost", "--port", port]
        let failed = try await scene.run(["send", batch, "--metrics-file", send] + missing)
        let after = try Self.samples(send)
        #expect(after[name("job_exit_code")] == Double(try #require(failed.ending.code)) && failed.ending.code != 0)
        #expect(after[name("job_last_success_timestamp_seconds")] == success)
        #expect(after[name("send_notifications", ",outcome=\"accepted\"")] == nil)

        let store = ForgetfulStore()
        store.add(try (1...3).map { try SendScene.tuple($0) })
        try await SendScene.withFeedback(store) { port in
            let run = try await scene.run(scene.feedback(port, ["--metrics-file", feedback]))
            #expect(run.ending.code == 0, "\(run.error)")
        }
        let drain = "{command=\"feedback\",name=\"feedback\"}"
        #expect(try Self.samples(feedback)["apns_legacy_feedback_new_tokens\(drain)"] == 3)

        try apply.record(0..<5)
        try apply.makeTable(0..<10)
        let stopped = try await apply.apply(["--max-fraction", "0.1", "--metrics-file", purge])
        #expect(stopped.code == 79, "\(stopped.error)")
        let labels = "{command=\"purge apply\",name=\"purge\"}"
        #expect(try Self.samples(purge)["apns_legacy_purge_limit_exceeded\(labels)"] == 1)
        #expect(try await apply.apply(["--metrics-file", purge]).code == 0)
        #expect(try Self.samples(purge)["apns_legacy_purge_pruned_rows\(labels)"] == 5)
        #expect(try Self.samples(purge)["apns_legacy_purge_limit_exceeded\(labels)"] == 0)

        let others = try [feedback, purge].map { try String(contentsOfFile: $0, encoding: .utf8) }
        for text in others { try await promtool.checkMetrics(text) }
        let all = others.map(DocumentedMetrics.kinds).reduce(kinds) { $0.merging($1) { first, _ in first } }
        let documented = try DocumentedMetrics()
        #expect(all == documented.jobs.filter { documented.queue[$0.key] == nil })
    }

    @Test func `a file that has no metrics is not replaced`() async throws {
        let apply = try ApplyScene()
        try apply.record(0..<5)
        try apply.makeTable(0..<10)
        let path = apply.path("other.prom")
        // Also one that is too long to be read.
        for text in ["-----BEGIN PRIVATE KEY-----\n", String(repeating: "x", count: 20_000_000)] {
            try text.write(toFile: path, atomically: true, encoding: .utf8)
            let run = try await apply.apply(["--metrics-file", path])
            #expect(run.code == 73 && run.error.contains("exists and has no metrics"), "\(run.error)")
            #expect(try String(contentsOfFile: path, encoding: .utf8) == text)
        }
        #expect(try apply.left() == Array(0...9))
        try "".write(toFile: path, atomically: true, encoding: .utf8)
        let run = try await apply.apply(["--metrics-file", path])
        #expect(run.code == 0, "\(run.error)")
    }
}
