// SPDX-License-Identifier: Apache-2.0

import APNSTestKit
import NIOCore
import NIOPosix
import OpenSSLTLS
import TestSupport

/// Scripted connections over loopback between a client and a server.
struct Loopback: Sendable {
    static let group = MultiThreadedEventLoopGroup.singleton

    /// One side of a connection.
    struct End: Sendable {
        let channel: any Channel
        let observer: Observer

        func wait(_ what: String, until isMet: @escaping @Sendable (Observer.Notes) -> Bool) async throws {
            try await self.observer.wait(what, until: isMet)
        }

        func close() {
            self.channel.pipeline.fireUserInboundEventTriggered(CloseBelowTLS())
        }
    }

    /// Closes the channel below TLS, as if a process died.
    struct CloseBelowTLS {}

    /// The socket buffer size in tests that flood; the long run uses the larger default.
    static let floodBufferByteCount = TestEffort.isLong ? nil : 1 << 18

    /// Starts a server, connects a client, and runs a closure with both sides.
    ///
    /// `bufferByteCount` is the size of the client's send buffer and the server's receive buffer.
    static func withConnection<Value: Sendable>(
        server: TLSContext,
        client: TLSContext,
        name: String? = "localhost",
        serverObserver: Observer = Observer(),
        clientObserver: Observer = Observer(),
        halfClosure: Bool = false,
        bufferByteCount: Int? = nil,
        _ body: (_ client: End, _ server: End) async throws -> Value
    ) async throws -> Value {
        let accepted = Self.group.next().makePromise(of: (any Channel).self)
        var bootstrap = ServerBootstrap(group: Self.group).serverChannelOption(.backlog, value: 16)
        if let bufferByteCount {
            // An accepted socket has the buffer size of the listener.
            bootstrap = bootstrap.serverChannelOption(.socketOption(.so_rcvbuf), value: bufferByteCount)
        }
        let listener =
            try await bootstrap
            .childChannelOption(.allowRemoteHalfClosure, value: halfClosure)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandlers(
                        LowClose(),
                        TLSHandler.server(server),
                        serverObserver
                    )
                    accepted.succeed(channel)
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        let port = listener.localAddress?.port ?? 0
        let channel = try await Self.connect(
            port: port,
            client: client,
            name: name,
            observer: clientObserver,
            halfClosure: halfClosure,
            bufferByteCount: bufferByteCount
        )
        let remote = try await accepted.futureResult.get(within: .seconds(20))
        let ends = (End(channel: channel, observer: clientObserver), End(channel: remote, observer: serverObserver))
        let result: Result<Value, any Error>
        do {
            result = .success(try await body(ends.0, ends.1))
        } catch {
            result = .failure(error)
        }
        for channel in [channel, remote] {
            channel.pipeline.fireUserInboundEventTriggered(CloseBelowTLS())
            try? await channel.closeFuture.get(within: .seconds(20))
        }
        try await listener.close()
        return try result.get()
    }

    static func connect(
        port: Int,
        client: TLSContext,
        name: String? = "localhost",
        observer: Observer,
        halfClosure: Bool = false,
        bufferByteCount: Int? = nil
    ) async throws -> any Channel {
        var bootstrap = ClientBootstrap(group: Self.group)
        if let bufferByteCount {
            bootstrap = bootstrap.channelOption(.socketOption(.so_sndbuf), value: bufferByteCount)
        }
        return
            try await bootstrap
            .channelOption(.allowRemoteHalfClosure, value: halfClosure)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandlers(
                        LowClose(),
                        TLSHandler.client(client, serverName: name),
                        observer
                    )
                }
            }
            .connect(host: "127.0.0.1", port: port).get()
    }
}

/// Sits below TLS and closes the channel on request.
final class LowClose: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        guard event is Loopback.CloseBelowTLS else {
            context.fireUserInboundEventTriggered(event)
            return
        }
        context.close(promise: nil)
    }
}

/// The certificates that most tests need, created once.
enum Certificates {
    static let authority = Result { try CertificateAuthority() }
    static let server = Result { try Self.authority.get().issueServer() }
    static let client = Result { try Self.authority.get().issueClient(topic: "com.example.app") }

    static func trust() throws -> TLSTrust {
        .pem(try Self.authority.get().certificatePEM)
    }

    static func serverContext(
        version: ClosedRange<TLSVersion> = .tls1_2 ... .tls1_3,
        _ change: (inout TLSConfiguration) -> Void = { _ in }
    ) throws -> TLSContext {
        var configuration = TLSConfiguration.server(
            identity: try Self.server.get().identity,
            clientCertificates: .none,
            trust: try Self.trust()
        )
        configuration.versionMin = version.lowerBound
        configuration.versionMax = version.upperBound
        change(&configuration)
        return try TLSContext(configuration)
    }

    static func clientContext(
        version: ClosedRange<TLSVersion> = .tls1_2 ... .tls1_3,
        _ change: (inout TLSConfiguration) -> Void = { _ in }
    ) throws -> TLSContext {
        var configuration = TLSConfiguration.client(trust: try Self.trust())
        configuration.versionMin = version.lowerBound
        configuration.versionMax = version.upperBound
        change(&configuration)
        return try TLSContext(configuration)
    }
}
