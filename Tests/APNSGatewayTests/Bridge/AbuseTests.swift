// SPDX-License-Identifier: Apache-2.0

import APNSServer
import APNSTestKit
import APNSWire
import ListenerFixtures
import NIOCore
import NIOPosix
import OpenSSLTLS
import Testing

@testable import APNSGateway

/// Goal: any misbehavior of a client ends in a bounded refusal, and other clients are served.
@Suite(.timeLimit(.minutes(2))) struct AbuseTests {
    typealias Fixture = ListenerFixture

    private static func withGateway(
        _ upstream: ScriptedUpstream = ScriptedUpstream(),
        change: (inout BinaryListenerConfiguration) -> Void = { _ in },
        _ body: @escaping @Sendable (Listener, Int) async throws -> Void
    ) async throws {
        let verifier = try CertificateVerifier(authorities: try Fixture.authority.get().certificatePEM)
        let bridge = BridgeConfiguration(
            name: "shop",
            admission: AdmissionRule(verifier: verifier),
            environment: .sandbox,
            upstream: upstream
        )
        let backend = HTTP2Backend([bridge], recorder: MemoryRecorder())
        var configuration = try Fixture.configuration { $0.admitsUnverified = true }
        change(&configuration)
        try await Fixture.withListener(backend, configuration, body)
    }

    /// A correct provider is served.
    private static func isServed(_ port: Int) async throws {
        try await ScriptedProvider.withConnection(port: port, tls: try Fixture.client()) {
            try await $0.send(try Fixture.frames(1...3))
            try await $0.send(try Fixture.probe(4))
            #expect(try await $0.end().bytes == Fixture.response(.missingDeviceToken, 4))
        }
    }

    @Test func `without a certificate there is no handshake`() async throws {
        try await Self.withGateway { _, port in
            let tls = try Fixture.client(isAnonymous: true)
            await #expect(throws: (any Error).self) {
                try await ScriptedProvider.withConnection(port: port, tls: tls) {
                    let ending = try await $0.end()
                    if let error = ending.error { throw error }
                }
            }
            try await Self.isServed(port)
        }
    }

    @Test func `an announced length of 4 GiB is refused immediately, and so is garbage`() async throws {
        let upstream = ScriptedUpstream()
        try await Self.withGateway(upstream) { _, port in
            let lengths: [[UInt8]] = [
                [2, 0xFF, 0xFF, 0xFF, 0xFF, 1, 0, 32], [1, 0, 0, 0, 9, 0, 0, 0, 0, 0xFF, 0xFF, 1, 2],
                [0, 0xFF, 0xFF], [0x47, 0x45, 0x54, 0x20, 0x2F],
            ]
            for bytes in lengths {
                try await ScriptedProvider.withConnection(port: port, tls: try Fixture.client()) {
                    $0.push(ByteBuffer(bytes: bytes))
                    let bytes = try await $0.end().bytes
                    #expect(bytes.count <= 6)
                }
            }
            try await Self.isServed(port)
        }
        #expect(upstream.asked.count == 3)
    }

    @Test func `a connection without TLS is closed`() async throws {
        try await Self.withGateway { _, port in
            for text in ["GET / HTTP/1.1\r\n\r\n", String(repeating: "\u{0}", count: 5000)] {
                let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
                    .connect(host: "127.0.0.1", port: port).get()
                channel.writeAndFlush(ByteBuffer(string: text), promise: nil)
                try? await channel.closeFuture.get()
            }
            try await Self.isServed(port)
        }
    }

    @Test func `incomplete handshakes are limited in number and time`() async throws {
        try await Self.withGateway(change: {
            $0.connectionCountMax = 40
            $0.handshakeTimeout = .milliseconds(500)
        }) { listener, port in
            let bootstrap = ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            var channels: [any Channel] = []
            for _ in 0..<200 { channels.append(try await bootstrap.connect(host: "127.0.0.1", port: port).get()) }
            #expect(listener.connectionCount <= 40)
            for channel in channels { try? await channel.closeFuture.get() }
            try await Self.isServed(port)
        }
    }
}
