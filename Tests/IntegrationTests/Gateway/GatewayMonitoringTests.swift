// SPDX-License-Identifier: Apache-2.0

import APNSTestKit
import APNSWire
import Foundation
import TestSupport
import Testing

/// Goal: monitoring matches the gateway: each metric is documented, and the dashboard and the alert rules only use
/// existing metrics.
@Suite(.timeLimit(.minutes(5))) struct GatewayMonitoringTests {
    /// A gateway after varied use, and its metrics.
    private static func metrics() async throws -> String {
        let upstream = GatewayUpstream { number, _ in
            switch number {
            case 3: .rejected(PushRejection(status: 400, reason: .badDeviceToken))
            case 5:
                .rejected(
                    PushRejection(
                        status: 410,
                        reason: .unregistered,
                        timestamp: Timestamp(secondsSince1970: 1_700_000_000)
                    )
                )
            default: .accepted
            }
        }
        let folder = try GatewayProgram.Folder()
        return try await upstream.run(folder) { port in
            let outcomes = "outcomes: {folder: outcomes, webhook: {url: \"http://127.0.0.1:9/\"}}"
            try folder.configure(upstreamPort: port, limits: "{shutdown: 10s}\n\(outcomes)")
            let spooled = """

                  - name: batch
                    clients: {authority: ca.pem}
                    environment: sandbox
                    rejections: ignore
                    spool: database/spool
                    upstream:
                      {certificate: upstream.pem, host: localhost, port: \(port), trust: upstream-ca.pem}
                """
            try folder.write("gateway.yaml", Array((folder.read("gateway.yaml") + spooled).utf8))
            let gateway = try await GatewayProgram(folder)
            for frames in [1...3, 4...6] as [ClosedRange<UInt32>] {
                try await gateway.connect { provider in
                    try await provider.send(try GatewayProgram.frames(frames))
                    try await provider.send(try GatewayProgram.probe(7))
                    #expect(try GatewayProgram.response(try await provider.end().bytes) != nil)
                }
            }
            let text = try await GatewayOperatorTests.get("/metrics", gateway).body
            #expect(try await gateway.end().code == 0)
            return text
        }
    }

    @Test func `promtool finds nothing, and each metric has its help and its line in the document`() async throws {
        let text = try await Self.metrics()
        let promtool = try await Promtool(repository: DocumentedMetrics.repository)
        try await promtool.checkMetrics(text)
        let documented = try DocumentedMetrics()
        #expect(DocumentedMetrics.kinds(text) == documented.gateway)
        let helped = text.matches(of: #/# HELP (\w+) ./#).map { String($0.1) }
        #expect(Set(helped) == Set(documented.gateway.keys) && helped.count == documented.gateway.count)
        let information = try #require(text.split(separator: "\n").first { $0.hasPrefix("apns_legacy_build_info{") })
        let versions = #/.+\{version="[\d.]+",openssl="3[\d.]+",nghttp2="1[\d.]+",sqlite="3[\d.]+"\} 1/#
        #expect(information.wholeMatch(of: versions) != nil, "\(information)")
        let start = text.matches(of: #/\nprocess_start_time_seconds (?<time>[\d.]+)/#).first.flatMap { Double($0.time) }
        let age = Date().timeIntervalSince1970 - (try #require(start))
        #expect((0..<300).contains(age), "\(age) s")
    }

    @Test func `promtool reports a metric without help, and an invalid rule`() async throws {
        let promtool = try await Promtool(repository: DocumentedMetrics.repository)
        await #expect(throws: Program.Failure.self) { try await promtool.checkMetrics("apns_legacy_connections 1\n") }
        let folder = try TemporaryFolder()
        let rules = "groups: [{name: a, rules: [{alert: A, expr: up ==}]}]\n"
        let path = try folder.write("rules.yaml", Array(rules.utf8))
        await #expect(throws: Program.Failure.self) { try await promtool.run(["check", "rules", path]) }
    }

    @Test func `the alert rules are valid and pass their tests`() async throws {
        let promtool = try await Promtool(repository: DocumentedMetrics.repository)
        let folder = DocumentedMetrics.repository.appending(path: "docs/monitoring").path
        try await promtool.run(["check", "rules", folder + "/alerts.yaml"])
        try await promtool.run(["test", "rules", folder + "/alerts-test.yaml"])
    }

    @Test func `each alert is tested and documented, and its metrics exist`() throws {
        let documented = try DocumentedMetrics()
        let rules = try DocumentedMetrics.text("monitoring/alerts.yaml")
        let tests = try DocumentedMetrics.text("monitoring/alerts-test.yaml")
        let all = Set(documented.gateway.keys).union(documented.jobs.keys)
        let names = documented.names(in: rules)
        #expect(names.count > 8 && names.isSubset(of: all), "\(names.subtracting(all))")
        let document = try DocumentedMetrics.text("monitoring.md")
        let alerts = rules.matches(of: #/alert: (\w+)/#).map { String($0.1) }
        #expect(alerts.count > 10)
        for alert in alerts {
            #expect(document.contains("`\(alert)`"), "\(alert)")
            #expect(tests.contains("alertname: \(alert)\n"), "\(alert)")
        }
    }

    @Test func `the dashboard shows exactly the existing metrics`() throws {
        let documented = try DocumentedMetrics()
        let data = Data(try DocumentedMetrics.text("monitoring/dashboard.json").utf8)
        let expressions = Self.expressions(try JSONSerialization.jsonObject(with: data))
        #expect(expressions.count > 30)
        let names = documented.names(in: expressions.joined(separator: "\n"))
        let all = Set(documented.gateway.keys).union(documented.jobs.keys)
        #expect(names.isSubset(of: all), "\(names.subtracting(all))")
        // All metrics of the gateway; for jobs, a few are sufficient.
        #expect(names.isSuperset(of: documented.gateway.keys), "\(Set(documented.gateway.keys).subtracting(names))")
    }

    private static func expressions(_ value: Any) -> [String] {
        if let list = value as? [Any] { return list.flatMap(Self.expressions) }
        guard let object = value as? [String: Any] else { return [] }
        return object.flatMap { key, value in
            (value as? String).flatMap { ["expr", "definition"].contains(key) ? [$0] : nil } ?? Self.expressions(value)
        }
    }
}
