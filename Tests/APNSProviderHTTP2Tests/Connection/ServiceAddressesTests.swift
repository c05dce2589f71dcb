// SPDX-License-Identifier: Apache-2.0

import APNSProviderHTTP2
import APNSServer
import APNSTestKit
import APNSTransport
import APNSWire
import NIOConcurrencyHelpers
import NIOCore
import NIOPosix
import NIOTLS
import OpenSSLTLS
import TestSupport
import Testing

/// Goal: a service with several addresses is used as a whole, also while some of them fail, and after they change.
@Suite(.timeLimit(.minutes(1))) struct ServiceAddressesTests {
    private static let hosts = ["127.0.0.1", "127.0.0.2", "127.0.0.3"]

    /// A resolver of these tests, whose answer can change, and which counts the questions.
    private final class Answer: Sendable {
        private let state: NIOLockedValueBox<(hosts: [String], count: Int)>

        init(_ hosts: [String]) { self.state = NIOLockedValueBox((hosts, 0)) }

        var count: Int { self.state.withLockedValue(\.count) }

        func change(_ hosts: [String]) { self.state.withLockedValue { $0.hosts = hosts } }

        func addresses(start: UInt64 = 0) -> ServiceAddresses {
            ServiceAddresses(
                lookup: { _, port in
                    let hosts = self.state.withLockedValue { state in
                        state.count += 1
                        return state.hosts
                    }
                    return try hosts.map { try SocketAddress(ipAddress: $0, port: port) }
                },
                start: start
            )
        }
    }

    // MARK: The opener

    /// A listener that counts its connections, with TLS or without.
    private static func listen(
        _ host: String,
        port: Int,
        _ counts: ObservedValue<[String: Int]>,
        hasTLS: Bool = true
    ) async throws -> any Channel {
        let context = try TLSContext(.server(identity: try PushFixture.server.get().identity, trust: nil))
        return try await ServerBootstrap(group: .singletonMultiThreadedEventLoopGroup)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    counts.change { $0[host, default: 0] += 1 }
                    guard hasTLS else { return channel.close(promise: nil) }
                    try channel.pipeline.syncOperations.addHandler(TLSHandler.server(context))
                }
            }
            .bind(host: host, port: port).get()
    }

    private static func opener(_ port: Int, _ addresses: ServiceAddresses) throws -> ConnectionOpener {
        try ConnectionOpener(
            endpoint: Endpoint(host: "service.test", port: port),
            role: .service,
            serverName: "localhost",
            proxy: nil,
            tls: .client(trust: try PushFixture.trust()),
            connectTimeout: .seconds(5),
            keepaliveDelay: nil,
            addresses: addresses
        )
    }

    /// Completes when the handshake is complete, or the connection is closed.
    private final class Handshake: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer

        private let done: EventLoopPromise<Bool>

        init(_ done: EventLoopPromise<Bool>) { self.done = done }

        func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
            if case TLSUserEvent.handshakeCompleted? = event as? TLSUserEvent { self.done.succeed(true) }
        }

        func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }

        func channelInactive(context: ChannelHandlerContext) { self.done.succeed(false) }
    }

    /// Opens a connection; returns whether the handshake was completed.
    private static func open(_ opener: ConnectionOpener, closes: Bool = true) async throws -> Bool {
        let eventLoop = MultiThreadedEventLoopGroup.singleton.next()
        let done = eventLoop.makePromise(of: Bool.self)
        let opened = NIOLockedValueBox<(any Channel)?>(nil)
        opener.open(on: eventLoop, adopt: { _ in }) { channel, tls in
            opened.withLockedValue { $0 = channel }
            try channel.pipeline.syncOperations.addHandlers(tls, Handshake(done))
        }
        .whenFailure { done.fail($0) }
        let isComplete = try await done.futureResult.get()
        if let channel = opened.withLockedValue({ $0 }) {
            channel.close(promise: nil)
            try await channel.closeFuture.get()
        }
        return isComplete
    }

    @Test func `connections are spread over all addresses, and each one asks the resolver`() async throws {
        let counts = ObservedValue<[String: Int]>([:])
        let first = try await Self.listen(Self.hosts[0], port: 0, counts)
        let port = try #require(first.localAddress?.port)
        let others = [
            try await Self.listen(Self.hosts[1], port: port, counts),
            try await Self.listen(Self.hosts[2], port: port, counts),
        ]
        let answer = Answer(Self.hosts)
        let opener = try Self.opener(port, answer.addresses())
        for _ in 0..<6 { #expect(try await Self.open(opener)) }
        #expect(counts.current == [Self.hosts[0]: 2, Self.hosts[1]: 2, Self.hosts[2]: 2])
        #expect(answer.count == 6)
        // One of them refuses connections.
        try await others[0].close()
        for _ in 0..<6 { #expect(try await Self.open(opener)) }
        #expect(counts.current == [Self.hosts[0]: 5, Self.hosts[1]: 2, Self.hosts[2]: 5])
        // Two of them.
        try await others[1].close()
        for _ in 0..<3 { #expect(try await Self.open(opener)) }
        #expect(counts.current[Self.hosts[0]] == 8)
        try await first.close()
        let failure = await #expect(throws: ConnectionFailure.self) { _ = try await Self.open(opener) }
        #expect(failure?.kind == .refused)
        answer.change([])
        let unknown = await #expect(throws: ConnectionFailure.self) { _ = try await Self.open(opener) }
        #expect(unknown?.kind == .nameNotResolved)
    }

    @Test func `an address that accepts connections and completes no handshake comes last`() async throws {
        let counts = ObservedValue<[String: Int]>([:])
        let first = try await Self.listen(Self.hosts[0], port: 0, counts)
        let port = try #require(first.localAddress?.port)
        let second = try await Self.listen(Self.hosts[1], port: port, counts, hasTLS: false)
        let opener = try Self.opener(port, Answer(Array(Self.hosts[..<2])).addresses())
        #expect(try await Self.open(opener))
        #expect(try await !Self.open(opener))
        for _ in 0..<4 { #expect(try await Self.open(opener)) }
        #expect(counts.current == [Self.hosts[0]: 5, Self.hosts[1]: 1])
        try await first.close()
        try await second.close()
    }

    @Test func `the system's resolver finds the addresses of this machine`() throws {
        let addresses = try ServiceAddresses.system("localhost", 2195)
        #expect(addresses.contains { $0.ipAddress == "127.0.0.1" && $0.port == 2195 })
        #expect(throws: (any Error).self) { try ServiceAddresses.system("no-such-host.invalid", 1) }
        #expect(try ServiceAddresses.system("::1", 7).map(\.hostAndPort) == ["[::1]:7"])
    }

    // MARK: The client

    /// A service that records the connections to its address by their certificates' checks.
    private static func service(
        _ host: String,
        port: Int,
        _ connections: ObservedValue<[String: Int]>,
        _ body: @escaping @Sendable (Listener) async throws -> Void
    ) async throws {
        var configuration = try PushFixture.serverConfiguration()
        configuration.listener.host = host
        configuration.listener.port = port
        // So that all connections of a client are used.
        configuration.streamCountMax = 1
        configuration.topics = { _ in
            connections.change { $0[host, default: 0] += 1 }
            return [PushFixture.topic]
        }
        let listener = Listener(configuration, service: Accepting(), logger: PushFixture.quiet)
        try await listener.withRunning { listener in try await body(listener) }
    }

    private struct Accepting: PushService {
        func handle(_ request: borrowing InboundPush) -> PushReply? { .accepted }
    }

    @Test func `after a GOAWAY, the name is resolved again, and the new address is used`() async throws {
        let connections = ObservedValue<[String: Int]>([:])
        try await Self.service(Self.hosts[0], port: 0, connections) { first in
            let port = try await first.boundAddress.port
            try await Self.service(Self.hosts[1], port: port, connections) { second in
                let answer = Answer([Self.hosts[0]])
                var configuration = try PushFixture.clientConfiguration(port: port)
                configuration.addresses = answer.addresses()
                try await RequestClient.withClient(configuration, logger: PushFixture.quiet) { client in
                    #expect(await client.send(try PushFixture.request(1)) == .accepted)
                    answer.change([Self.hosts[1]])
                    // It sends a GOAWAY, and ends the connection.
                    first.stop()
                    try await eventually("the new address") {
                        let outcome = await client.send(try PushFixture.request(2))
                        #expect(outcome == .accepted)
                        return connections.current[Self.hosts[1]] == 1
                    }
                    #expect(connections.current == [Self.hosts[0]: 1, Self.hosts[1]: 1])
                    #expect(answer.count == 2)
                }
                _ = second
            }
        }
    }

    @Test func `the connections of a client are on all addresses`() async throws {
        let connections = ObservedValue<[String: Int]>([:])
        try await Self.service(Self.hosts[0], port: 0, connections) { first in
            let port = try await first.boundAddress.port
            try await Self.service(Self.hosts[1], port: port, connections) { _ in
                var configuration = try PushFixture.clientConfiguration(port: port)
                configuration.addresses = Answer(Array(Self.hosts[..<2])).addresses()
                configuration.connectionCount = 4
                try await RequestClient.withClient(configuration, logger: PushFixture.quiet) { client in
                    try await eventually("four connections") {
                        await withTaskGroup(of: Void.self) { group in
                            for number in 0..<20 {
                                group.addTask {
                                    if let request = try? PushFixture.request(number) { _ = await client.send(request) }
                                }
                            }
                        }
                        return connections.current.values.reduce(0, +) == 4
                    }
                    #expect(connections.current == [Self.hosts[0]: 2, Self.hosts[1]: 2])
                }
            }
        }
    }
}
