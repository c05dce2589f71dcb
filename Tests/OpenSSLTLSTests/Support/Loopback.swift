// SPDX-License-Identifier: Apache-2.0

import APNSTestKit
import NIOCore
import NIOPosix
import OpenSSLTLS
import TestSupport

/// Connections over loopback between a client and a server that tests script.
struct Loopback: Sendable {
    static let group = MultiThreadedEventLoopGroup.singleton

    /// One end of a connection.
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

    /// Asks for the channel to be closed below TLS, as when a process dies.
    struct CloseBelowTLS {}

    /// What sockets hold of a flood by default: less than the megabytes that they grow to, which are for the long run.
    static let floodBufferByteCount = TestEffort.isLong ? nil : 1 << 18

    /// Starts a server, connects a client, and lends both ends.
    ///
    /// `bufferByteCount` is what the client's socket may hold to be sent, and the server's to be read.
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
            // A socket that is accepted has the size of the listener's.
            bootstrap = bootstrap.serverChannelOption(.socketOption(.so_rcvbuf), value: bufferByteCount)
        }
        let listener =
            try await bootstrap
            .childChannelOption(.allowRemoteHalfClosure, value: halfClosure)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandlers(
                        LowClose(),
                        TLSHandler(serverContext: server),
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
                        TLSHandler(context: client, serverName: name),
                        observer
                    )
                }
            }
            .connect(host: "127.0.0.1", port: port).get()
    }
}

/// Sits below TLS and closes the channel when asked to.
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

/// The certificates most tests need, made once.
enum Certificates {
    static let authority = Result { try TestCertificateAuthority() }
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
            trust: try Self.trust()
        )
        configuration.minimumVersion = version.lowerBound
        configuration.maximumVersion = version.upperBound
        change(&configuration)
        return try TLSContext(configuration)
    }

    static func clientContext(
        version: ClosedRange<TLSVersion> = .tls1_2 ... .tls1_3,
        _ change: (inout TLSConfiguration) -> Void = { _ in }
    ) throws -> TLSContext {
        var configuration = TLSConfiguration.client(trust: try Self.trust())
        configuration.minimumVersion = version.lowerBound
        configuration.maximumVersion = version.upperBound
        change(&configuration)
        return try TLSContext(configuration)
    }
}
