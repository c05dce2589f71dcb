// SPDX-License-Identifier: Apache-2.0

import APNSServer
import APNSTestKit
import APNSWire
import Foundation
import NIOConcurrencyHelpers
import NIOCore
import TestSupport
import Testing
import TokenStore

/// A provider whose notifications the gateway stores.
@Suite(.timeLimit(.minutes(5))) struct GatewaySpoolTests {
    private static let settings = [
        "rejections: ignore", "spool: database/spool", "retry: {first: 5ms, longest: 50ms}",
        "limits: {spoolSize: 1048576}",
    ]

    private static let unavailable = PushReply.rejected(PushRejection(status: 503, reason: .serviceUnavailable))

    private static func spooledCount(_ folder: GatewayProgram.Folder) throws -> Int {
        try SQLiteNotificationSpool.count(folder: folder.path("database/spool")) ?? 0
    }

    private static func frames(
        _ numbers: ClosedRange<UInt32>,
        expiry: UInt32? = 2_000_000_000,
        payloadByteCount: Int = 0
    ) throws -> ByteBuffer {
        var bytes = ByteBuffer()
        for number in numbers {
            let text = String(repeating: "x", count: payloadByteCount)
            let frame = NotificationFrame(
                token: try GatewayProgram.token(number),
                payload: ByteBuffer(string: "{\"aps\":{\"alert\":\"\(text)\"}}"),
                expiry: expiry,
                identifier: expiry == nil ? nil : number,
                command: expiry == nil ? .simple : .enhanced
            )
            try frame.write(into: &bytes)
        }
        return bytes
    }

    /// Runs a gateway with a spool in front of a service that decides by the current value of a reply.
    private static func withGateway(
        _ reply: NIOLockedValueBox<PushReply?>,
        launcher: (GatewayProgram.Folder) -> [String] = { _ in [] },
        _ body: @escaping @Sendable (GatewayProgram, GatewayUpstream, _ port: Int) async throws -> Void
    ) async throws {
        let upstream = GatewayUpstream { _, _ in reply.withLockedValue { $0 } }
        let folder = try GatewayProgram.Folder()
        let launcher = launcher(folder)
        try await upstream.run(folder) { port in
            try folder.configure(upstreamPort: port, provider: Self.settings)
            let gateway = try await GatewayProgram(folder, launcher: launcher)
            try await body(gateway, upstream, port)
            gateway.child.send(SIGKILL)
        }
    }

    /// Sends frames, and waits until they are stored.
    private static func store(_ frames: ByteBuffer, _ gateway: GatewayProgram) async throws {
        try await gateway.connect { provider in
            try await provider.send(frames)
            try await provider.send(try GatewayProgram.probe(1))
            #expect(try await provider.received(byteCount: 6) == GatewayProgram.response(.missingDeviceToken, 1))
        }
    }

    @Test(arguments: [PushReason.badCertificate, .topicDisallowed])
    func `refused credentials hold what is stored, which log and readyz say, until they are good`(
        reason: PushReason
    ) async throws {
        let status = reason == .topicDisallowed ? 400 : 403
        let reply = NIOLockedValueBox<PushReply?>(.rejected(PushRejection(status: status, reason: reason)))
        try await Self.withGateway(reply) { gateway, upstream, _ in
            try await Self.store(try Self.frames(1...5) + Self.frames(6...7, expiry: nil), gateway)
            try await gateway.lines("notifications held", reason.text)
            let answer = try await GatewayOperatorTests.get("/readyz", gateway)
            #expect(answer.status == 503 && answer.body.contains("provider shop: notifications are held since"))
            let metrics = try await GatewayOperatorTests.get("/metrics", gateway).body
            #expect(metrics.contains("apns_legacy_spool_held{provider=\"shop\"} 1"))
            #expect(metrics.contains("apns_legacy_spool_notifications{provider=\"shop\"} 7"))
            reply.withLockedValue { $0 = .accepted }
            gateway.child.send(SIGHUP)
            try await gateway.lines("notifications delivered again")
            try await upstream.wait(count: 7)
            try await eventually("an empty spool") { try Self.spooledCount(gateway.folder) == 0 }
            #expect(upstream.accepted == Set(1...7))
            #expect(try await GatewayOperatorTests.get("/readyz", gateway).status == 200)
            #expect(gateway.lines(["notifications held"]).count == 1, "It is said once.")
        }
    }

    @Test func `what the service does not store is tried once, and what expires is counted`() async throws {
        let reply = NIOLockedValueBox<PushReply?>(Self.unavailable)
        try await Self.withGateway(reply) { gateway, upstream, _ in
            let soon = UInt32(Date().timeIntervalSince1970) + 1
            try await Self.store(try Self.frames(1...1, expiry: 0) + Self.frames(2...3, expiry: soon), gateway)
            try await gateway.lines("not delivered", "expired", countMin: 3)
            #expect(upstream.counts[1] == 1)
            try await eventually("an empty spool") { try Self.spooledCount(gateway.folder) == 0 }
            let metrics = try await GatewayOperatorTests.get("/metrics", gateway).body
            let sample =
                "apns_legacy_notifications_settled_total{provider=\"shop\",cause=\"expired\",verdict=\"expired\"} 3"
            #expect(metrics.contains(sample), "\(metrics)")
        }
    }

    @Test func `a full spool is not read, and continues when there is room`() async throws {
        let reply = NIOLockedValueBox<PushReply?>(Self.unavailable)
        try await Self.withGateway(reply) { gateway, upstream, _ in
            let count: UInt32 = 1500
            let frames = try Self.frames(1...count, payloadByteCount: 1900)
            try await gateway.connect { provider in
                provider.push(frames)
                try await eventually("a full spool") {
                    try Self.spooledCount(gateway.folder) * 2052 >= 1_048_576
                }
                let metrics = try await GatewayOperatorTests.get("/metrics", gateway).body
                let sample = metrics.split(separator: "\n").first { $0.hasPrefix("apns_legacy_spool_bytes{") }
                let bytes = try #require(sample?.split(separator: " ").last.flatMap { Int($0) })
                // What was read before it was full.
                #expect((1_048_576...(1_048_576 + 4 * 65_536)).contains(bytes), "\(bytes)")
                reply.withLockedValue { $0 = .accepted }
                try await upstream.wait(count: Int(count))
                try await eventually("an empty spool") { try Self.spooledCount(gateway.folder) == 0 }
            }
            #expect(upstream.accepted.count == Int(count))
        }
    }

    @Test func `a gateway that ends in an outage ends at once, and continues without doubts`() async throws {
        let reply = NIOLockedValueBox<PushReply?>(Self.unavailable)
        try await Self.withGateway(reply) { gateway, upstream, _ in
            try await Self.store(try Self.frames(1...5), gateway)
            try await upstream.wait(count: 1)
            let ending = try await gateway.end()
            #expect(ending.code == 0 && ending.seconds < 30, "\(ending)")
            reply.withLockedValue { $0 = .accepted }
            let next = try await GatewayProgram(gateway.folder)
            let line = try await next.lines("spooled notifications are delivered")[0]
            #expect(line.contains("apns.legacy.notifications.spooled\":\"5\""), "\(line)")
            #expect(line.contains("apns.legacy.notifications.indoubt\":\"0\""), "\(line)")
            try await upstream.wait(count: 5)
            try await eventually("an empty spool") { try Self.spooledCount(gateway.folder) == 0 }
            #expect(next.lines(["sent again, may arrive twice"]).isEmpty)
            next.child.send(SIGKILL)
        }
    }

    @Test func `a spool stays the same if a reload names it by another path`() async throws {
        try await Self.withGateway(NIOLockedValueBox(.accepted)) { gateway, _, port in
            try await Self.store(try Self.frames(1...3), gateway)
            try gateway.folder.configure(
                upstreamPort: port,
                provider: Self.settings.map { $0.replacing("database/spool", with: "./database//spool/") }
            )
            gateway.child.send(SIGHUP)
            try await gateway.lines("configuration reloaded")
            try await Self.store(try Self.frames(4...6), gateway)
            try await eventually("an empty spool") { try Self.spooledCount(gateway.folder) == 0 }
        }
    }

    @Test func `a spool that is removed from the configuration is not forgotten`() async throws {
        let reply = NIOLockedValueBox<PushReply?>(Self.unavailable)
        try await Self.withGateway(reply) { gateway, _, port in
            try await Self.store(try Self.frames(1...3), gateway)
            try gateway.folder.configure(upstreamPort: port, provider: ["rejections: ignore"])
            gateway.child.send(SIGHUP)
            try await gateway.lines("spool removed from the configuration")
            let check = try await CommandRun(["gateway", "check", "--config", gateway.folder.path("gateway.yaml")])
            #expect(check.code == 78)
            #expect(check.error.contains("has 3 notifications, and is not in the configuration any more"), "\(check)")
            // Added again, it is delivered.
            reply.withLockedValue { $0 = .accepted }
            try gateway.folder.configure(upstreamPort: port, provider: Self.settings)
            gateway.child.send(SIGHUP)
            try await eventually("an empty spool") { try Self.spooledCount(gateway.folder) == 0 }
        }
    }

    @Test(.enabled("No disk can be made here.") { await GatewayDiskTests.isPossible() })
    func `while the disk is full, nothing is confirmed, and nothing is lost`() async throws {
        let reply = NIOLockedValueBox<PushReply?>(Self.unavailable)
        try await Self.withGateway(reply, launcher: { GatewayDiskTests.launcher(for: $0) }) { gateway, upstream, _ in
            let ballast = GatewayDiskTests.disk(gateway).appending(path: "ballast")
            try GatewayDiskTests.fill(ballast)
            try await gateway.connect { provider in
                try await provider.send(try Self.frames(1...2000, payloadByteCount: 100))
                try await provider.send(try GatewayProgram.probe(1))
                try await gateway.lines("spool not usable", "full")
                #expect(try await GatewayOperatorTests.get("/readyz", gateway).body.contains("cannot use the spool"))
                #expect(provider.bytes == [])
                try FileManager.default.removeItem(at: ballast)
                reply.withLockedValue { $0 = .accepted }
                #expect(try await provider.received(byteCount: 6) == GatewayProgram.response(.missingDeviceToken, 1))
            }
            try await upstream.wait(count: 2000)
            try await gateway.lines("spool usable again")
            #expect(gateway.lines(["spool not usable"]).count == 1)
        }
    }
}

extension ByteBuffer {
    fileprivate static func + (first: ByteBuffer, second: ByteBuffer) -> ByteBuffer {
        var bytes = first
        bytes.writeImmutableBuffer(second)
        return bytes
    }
}
