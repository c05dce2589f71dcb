// SPDX-License-Identifier: Apache-2.0

import APNSServer
import APNSTestKit
import APNSWire
import Foundation
import NIOCore
import NIOPosix
import TestSupport
import Testing

/// Goal: the metrics of a running gateway are correct, and any input at the admin port is bounded.
@Suite(.timeLimit(.minutes(5))) struct GatewayOperatorTests {
    /// A response: status and body.
    struct Answer {
        var status: Int
        var body: String
    }

    /// Sends a request with curl.
    static func get(
        _ path: String,
        _ gateway: GatewayProgram,
        method: String = "GET",
        fields: [String] = []
    ) async throws -> Answer {
        // For HEAD, it expects no body, and prints the head instead.
        let how = method == "HEAD" ? ["--head", "--output", "/dev/null"] : ["--request", method]
        let arguments =
            ["curl", "--silent", "--path-as-is", "--max-time", "10", "--write-out", "\n%{http_code}"] + how
            + fields.flatMap { ["--header", $0] }
        let url = "http://127.0.0.1:\(gateway.adminPort)\(path)"
        let printed = try await Program.run("/usr/bin/env", arguments + [url], deadlineSeconds: 20)
        let text = String(decoding: printed, as: UTF8.self)
        let end = try #require(text.lastIndex(of: "\n"))
        return Answer(status: try #require(Int(text[text.index(after: end)...])), body: String(text[..<end]))
    }

    /// The samples by name with labels, parsed by Prometheus' own client library.
    private static func samples(_ text: String) async throws -> [String: Double] {
        let environment = try await PythonEnvironment("prometheus-client==0.21.1")
        let script = """
            import json, sys
            from prometheus_client.parser import text_string_to_metric_families
            samples = {}
            for family in text_string_to_metric_families(sys.stdin.read()):
                for sample in family.samples:
                    labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
                    assert (sample.name, labels) not in samples
                    samples[f"{sample.name}{{{labels}}}"] = sample.value
            print(json.dumps(samples))
            """
        let printed = try await Program.run(
            environment.python,
            ["-c", script],
            input: Data(text.utf8),
            deadlineSeconds: 60
        )
        return try JSONDecoder().decode([String: Double].self, from: printed)
    }

    /// Of 100 tokens, 10 are bad and 20 dead.
    private static func upstream() -> GatewayUpstream {
        GatewayUpstream { number, _ in
            switch number % 10 {
            case 3: .rejected(PushRejection(status: 400, reason: .badDeviceToken))
            case 5, 6:
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
    }

    @Test func `the metrics match what was sent`() async throws {
        let upstream = Self.upstream()
        let ending = try await upstream.withGateway { gateway in
            // Each bad token ends a connection, and later notifications are resent.
            var next: UInt32 = 1
            while next <= 100 {
                let first = next
                next = try await gateway.connect { provider in
                    try await provider.send(try GatewayProgram.frames(first...100))
                    try await provider.send(try GatewayProgram.probe(101))
                    let response = try #require(try GatewayProgram.response(try await provider.end().bytes))
                    return response.identifier + 1
                }
            }
            let untrusted = try CertificateAuthority(name: "Foreign").issueClient(topic: GatewayProgram.topic)
            #expect(try await gateway.connect(untrusted.identity) { try await $0.end().bytes } == [])
            let samples = try await Self.samples(try await Self.get("/metrics", gateway).body)
            func settled(_ cause: String) -> Double? {
                samples["apns_legacy_notifications_settled_total{cause=\(cause),provider=shop,verdict=\(cause)}"]
            }
            // Bad tokens after another one were rejected before the error response for that one, and were resent.
            let refusedCount = upstream.counts.reduce(0) { $0 + ($1.key % 10 == 3 ? $1.value : 0) }
            #expect(settled("accepted") == 70)
            #expect(settled("dead") == 20)
            #expect(settled("rejected") == Double(refusedCount) && refusedCount >= 10)
            #expect(settled("budget-spent") == 0)
            #expect(samples["apns_legacy_notifications_in_flight{provider=shop}"] == 0)
            let duration = "apns_legacy_upstream_request_duration_seconds"
            #expect(samples["\(duration)_count{provider=shop}"] == Double(90 + refusedCount))
            #expect(samples["\(duration)_bucket{le=+Inf,provider=shop}"] == Double(90 + refusedCount))
            for (outcome, count) in [("accepted", 70), ("rejected", 20 + refusedCount)] {
                let name = "apns_legacy_http2_request_duration_seconds"
                #expect(samples["\(name)_count{outcome=\(outcome)}"] == Double(count), "\(outcome)")
                #expect(try #require(samples["\(name)_sum{outcome=\(outcome)}"]) > 0, "\(outcome)")
            }
            #expect(samples["apns_legacy_feedback_backlog{environment=sandbox,topic=com.example.app}"] == 20)
            #expect(samples["apns_legacy_feedback_writable{}"] == 1)
            #expect(samples["apns_legacy_connections_opened_total{}"] == 11)
            #expect(samples["apns_legacy_connections_refused_total{cause=provider}"] == 1)
            #expect(samples["apns_legacy_connections_refused_total{cause=handshake}"] == 0)
            let (server, own) = (gateway.folder.server.identity, gateway.folder.provider.identity)
            for (kind, provider, identity) in [
                ("server", "", server), ("upstream", "shop", own), ("client", "shop", own),
            ] {
                let labels = "fingerprint=\(identity.certificate.fingerprint),kind=\(kind),provider=\(provider)"
                let end = samples["apns_legacy_certificate_expiry_timestamp_seconds{\(labels)}"]
                #expect(end == Double(identity.certificate.notAfter), "\(kind)")
            }
            try await gateway.connect { provider in
                try await provider.send(try GatewayProgram.frames(101...101))
                try await upstream.wait(count: 101)
                let samples = try await Self.samples(try await Self.get("/metrics", gateway).body)
                let count = try #require(samples["apns_legacy_connections{}"])
                #expect(count >= 1 && count <= 3, "Those before may not be quite closed: \(count).")
            }
        }
        #expect(ending.code == 0, "\(ending)")
        #expect(upstream.counts.allSatisfy { $0.value == 1 || $0.key % 10 == 3 })
    }

    @Test func `the latency of the service excludes the wait in the queue`() async throws {
        let upstream = GatewayUpstream(streamCountMax: 1) { _, request in
            let ticket = request.ticket
            MultiThreadedEventLoopGroup.singleton.any()
                .scheduleTask(in: .milliseconds(100)) { ticket.reply(.accepted) }
            return nil
        }
        try await upstream.withGateway { gateway in
            try await gateway.connect { provider in
                try await provider.send(try GatewayProgram.frames(1...20))
                try await provider.send(try GatewayProgram.probe(21))
                #expect(try await provider.end().bytes == GatewayProgram.response(.missingDeviceToken, 21))
            }
            let samples = try await Self.samples(try await Self.get("/metrics", gateway).body)
            func duration(_ part: String) throws -> Double {
                try #require(samples["apns_legacy_upstream_request_duration_seconds_\(part){provider=shop}"])
            }
            #expect(try duration("count") == 20)
            // With the waits, it would be 0.1 + 0.2 + ... + 2 seconds.
            let sum = try duration("sum")
            #expect(sum >= 1.9 && sum < 10, "\(sum) s")
        }
    }

    @Test func `the metric for a reached service is absent before the first attempt`() async throws {
        let upstream = GatewayUpstream()
        try await upstream.withGateway { gateway in
            let before = try await Self.get("/metrics", gateway).body
            #expect(!before.contains("apns_legacy_upstream_reached"))
            #expect(try await gateway.serves())
            let after = try await Self.get("/metrics", gateway).body
            #expect(after.contains("apns_legacy_upstream_reached{provider=\"shop\"} 1\n"))
        }
        let folder = try GatewayProgram.Folder()
        try folder.configure(upstreamPort: 1, limits: "{shutdown: 1s}")
        let gateway = try await GatewayProgram(folder)
        try await gateway.connect { provider in
            try await provider.send(try GatewayProgram.frames(1...1))
            try await gateway.lines("upstream unreachable")
        }
        let body = try await Self.get("/metrics", gateway).body
        #expect(body.contains("apns_legacy_upstream_reached{provider=\"shop\"} 0\n"))
        _ = try await gateway.end()
    }

    @Test func `in the delay before a stop, health checks fail, and providers are served`() async throws {
        let delayed = try await GatewayUpstream().withGateway(limits: "{shutdown: 1s, shutdownDelay: 5s}") { gateway in
            gateway.child.send(SIGTERM)
            try await gateway.lines("stopping: ")
            #expect(try await Self.get("/healthz", gateway).status == 503)
            #expect(try await Self.get("/readyz", gateway).status == 503)
            #expect(try await gateway.serves())
            // The signal with which the gateway is ended below follows too soon to be a second one.
        }
        #expect(delayed.code == 0)
    }

    @Test func `readiness says since when the service is unreachable, and health does not change`() async throws {
        let folder = try GatewayProgram.Folder()
        let port = try ReservedPort()
        try folder.configure(upstreamPort: port.number, limits: "{shutdown: 1s}")
        let gateway = try await GatewayProgram(folder)
        #expect(try await Self.get("/readyz", gateway).body == "ready\n")
        try await gateway.connect { provider in
            try await provider.send(try GatewayProgram.frames(1...1))
            try await gateway.lines("upstream unreachable")
            let answer = try await Self.get("/readyz", gateway)
            #expect(answer.status == 503)
            let line = #/provider shop: upstream unreachable since 20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ: .+\n/#
            #expect(answer.body.wholeMatch(of: line) != nil, "\(answer.body)")
            #expect(try await Self.get("/healthz", gateway).body == "ok\n")
            let name = "apns_legacy_upstream_unreachable_since_timestamp_seconds{provider=\"shop\"} "
            #expect(try await Self.get("/metrics", gateway).body.contains(name + "17"))
            let upstream = GatewayUpstream()
            try await upstream.run(folder, change: { $0.listener.port = port.number }) { _ in
                try await upstream.wait(count: 1)
                try await gateway.lines("upstream reachable again")
                #expect(try await Self.get("/readyz", gateway).body == "ready\n")
                #expect(try await Self.get("/metrics", gateway).body.contains(name + "0\n"))
                _ = try await gateway.end()
            }
        }
    }

    @Test func `a request for another host is refused in one line`() async throws {
        try await GatewayUpstream().withGateway { gateway in
            for (host, status) in [
                ("localhost", 200), ("127.0.0.1:\(gateway.adminPort)", 200), ("[::1]:9095", 200),
                (ProcessInfo.processInfo.hostName, 200), ("evil.example", 421), ("evil.example:9095", 421),
                ("192.0.2.1", 421), ("127.0.0.1.evil.example", 421), ("", 200),
            ] {
                let answer = try await Self.get("/metrics", gateway, fields: ["Host: \(host)"])
                // With an empty value, curl omits the field.
                #expect(answer.status == status, "\(host)")
                guard status == 421 else { continue }
                #expect(answer.body.hasSuffix("\n") && answer.body.count { $0 == "\n" } == 1, "\(answer.body)")
                #expect(answer.body.contains("admin.names") && answer.body.contains("localhost"), "\(answer.body)")
            }
        }
        let folder = try GatewayProgram.Folder()
        try folder.configure(upstreamPort: 1)
        let yaml = folder.read("gateway.yaml").replacing("admin: {", with: "admin: {names: [Gateway.example], ")
        try folder.write("gateway.yaml", Array(yaml.utf8))
        let gateway = try await GatewayProgram(folder)
        #expect(try await Self.get("/healthz", gateway, fields: ["Host: gateway.example:1"]).status == 200)
        _ = try await gateway.end()
    }

    @Test func `other paths and methods are rejected`() async throws {
        try await GatewayUpstream().withGateway { gateway in
            let requests = [
                ("GET", "/healthz", 200), ("GET", "/", 404), ("GET", "/metrics/..", 404), ("POST", "/metrics", 405),
                ("HEAD", "/metrics", 200),
            ]
            for (method, path, status) in requests {
                let answer = try await Self.get(path, gateway, method: method)
                #expect(answer.status == status, "\(method) \(path)")
                #expect(answer.body.isEmpty == (method == "HEAD"))
            }
        }
    }

    @Test func `an unwritable feedback database makes it unhealthy, and nothing is lost`() async throws {
        let upstream = Self.upstream()
        let ending = try await upstream.withGateway { gateway in
            let database = gateway.folder.database
            #expect(try await Self.get("/healthz", gateway).status == 200)
            try FileManager.default.removeItem(at: database)
            try await gateway.connect { provider in
                try await provider.send(try GatewayProgram.frames(4...6))
                try await provider.send(try GatewayProgram.probe(7))
                try await gateway.lines("not written, retrying", "was removed or replaced")
                try await gateway.lines("feedback not written, retrying")
                let ill = try await Self.get("/healthz", gateway)
                #expect(ill.status == 503 && ill.body.contains("the feedback database cannot be written: "), "\(ill)")
                let metrics = try await Self.get("/metrics", gateway).body
                #expect(metrics.contains("apns_legacy_feedback_writable 0\n"))
                #expect(!metrics.contains("apns_legacy_feedback_store_failures_total 0\n"))
                #expect(provider.bytes.isEmpty, "What is dead is not settled before it is on the disk.")
                try FileManager.default.createDirectory(at: database, withIntermediateDirectories: true)
                #expect(try await provider.end().bytes == GatewayProgram.response(.missingDeviceToken, 7))
            }
            #expect(try await Self.get("/healthz", gateway).status == 200)
            let tuples = try [5, 6].map { FeedbackTuple(token: try GatewayProgram.token($0), failedAt: 1_700_000_000) }
            #expect(Set(try await gateway.feedback()) == Set(tuples))
        }
        #expect(ending.code == 0, "\(ending)")
    }

    @Test func `garbage, silence and many connections at the admin port are limited`() async throws {
        try await GatewayUpstream().withGateway { gateway in
            let start = ContinuousClock.now
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in 0..<300 {
                    group.addTask {
                        let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
                            .connect(host: "127.0.0.1", port: gateway.adminPort).get()
                        let bytes = number.isMultiple(of: 3) ? [0xFF, 0xFF, 0xFF] : Array("GET /m".utf8)
                        channel.writeAndFlush(ByteBuffer(bytes: bytes), promise: nil)
                        try? await channel.closeFuture.get()
                    }
                }
                try await group.waitForAll()
            }
            #expect(ContinuousClock.now - start < .seconds(20), "The slow ones are cut after ten seconds.")
            #expect(try await Self.get("/healthz", gateway).body == "ok\n")
            let resident = try #require(gateway.child.residentKiBMax)
            #expect(resident < 200 * 1024, "\(resident) KiB")
        }
    }

    @Test func `a request with an endless body is rejected immediately, and not read`() async throws {
        let script = """
            import socket, sys, time
            connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=8)
            head = b"GET /healthz HTTP/1.1\\r\\nhost: localhost\\r\\n"
            connection.sendall(head + b"transfer-encoding: chunked\\r\\n\\r\\n")
            status = int(connection.recv(100).split()[1])
            chunk, count, end = b"10000\\r\\n" + bytes(65536) + b"\\r\\n", 0, time.monotonic() + 8
            try:
                while time.monotonic() < end:
                    connection.sendall(chunk)
                    count += len(chunk)
            except OSError:
                pass
            print(status, count)
            """
        try await GatewayUpstream().withGateway { gateway in
            let arguments = ["python3", "-c", script, "\(gateway.adminPort)"]
            let printed = try await Program.run("/usr/bin/env", arguments, deadlineSeconds: 20)
            let numbers = String(decoding: printed, as: UTF8.self).split { $0.isWhitespace }.compactMap { Int($0) }
            try #require(numbers.count == 2)
            #expect(numbers[0] == 413)
            #expect(numbers[1] < 16 << 20, "\(numbers[1]) bytes were taken.")
        }
    }

    @Test func `slow clients at the admin port do not block others`() async throws {
        try await GatewayUpstream().withGateway { gateway in
            var channels: [any Channel] = []
            for _ in 0..<300 {
                let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
                    .connect(host: "127.0.0.1", port: gateway.adminPort).get()
                channel.writeAndFlush(ByteBuffer(string: "GET /healthz HTT"), promise: nil)
                channels.append(channel)
            }
            let start = ContinuousClock.now
            #expect(try await Self.get("/healthz", gateway).body == "ok\n")
            #expect(ContinuousClock.now - start < .seconds(3))
            for channel in channels { channel.close(promise: nil) }
        }
    }
}
